"""Encoded: text inside of text. It is decoded and looked into, to a depth.

Percent-encoding and forms, base64, hexadecimal digits, and compressed text in base64.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from string import ascii_lowercase, ascii_uppercase, digits

from replaykit.redaction import traits
from replaykit.redaction.checksums import unbase64
from replaykit.redaction.finding import Hit, Spelling
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View
from replaykit.redaction.tokens import HEX_HEADS, HEX_TEXT, Run

MAX_DEPTH = 3
_LONGEST = 4096
Scan = Callable[[str], list[Hit]]

_ESCAPED = lazy(rb"%[0-9A-Fa-f]{2}")
_ESCAPED_OR_PLUS = lazy(rb"%[0-9A-Fa-f]{2}|\+")
_FIELD = lazy(rb"[\w.\-\]%]=[^=]")
"""The name of a field and the beginning of its value."""
_REST = lazy(rb"[^\s\"'<>`]{0,4096}+")
_UNIT = lazy(r"(?:%[0-9A-Fa-f]{2})+|[^%]+|%")
_TEXT = bytes(range(32, 127)) + b"\t\r\n"
_NO_CONTROLS = _TEXT + bytes(range(128, 256))


def percent_hits(view: View, scan: Scan) -> Iterator[Hit]:
    """What is found in encoded words once they are decoded, at the places where they stand encoded."""
    flat, done = view.flat, 0
    is_form = view.traits & traits.FORM != 0
    escape = _ESCAPED_OR_PLUS if is_form else _ESCAPED
    found = escape.search(flat)
    while found:
        at = found.start()
        start = max(done, max(flat.rfind(stop, max(0, at - _LONGEST), at) for stop in _STOPS) + 1, at - _LONGEST)
        rest = _REST.match(flat, at)
        done = rest.end() if rest else found.end()
        word = view.text[start:done]
        if found[0] != b"+":
            yield from _decoded_hits(word, start, scan)
        if is_form and "+" in word and _FIELD.search(flat, start, done):
            yield from _decoded_hits(word.replace("+", " "), start, scan, word)
        found = escape.search(flat, done)


def _decoded_hits(word: str, start: int, scan: Scan, form: str = "") -> Iterator[Hit]:
    """What is found in one word; `form`: the same word with a plus where there are blanks."""
    text, places = _unquoted(word)
    for hit in scan(text):
        first, last = places[hit.start], places[hit.end]
        spelling = hit.spelling
        if spelling is Spelling.PLAIN and "+" in form[first:last]:
            spelling = Spelling.FORM
        elif spelling is Spelling.PLAIN and "%" in word[first:last]:
            spelling = Spelling.PERCENT
        yield Hit(hit.kind, start + first, start + last, hit.rank, spelling)


_STOPS = (b" ", b'"', b"'", b"<", b">", b"`", b"\n", b"\t", b"\r")


def base64_hits(view: View, runs: list[Run], scan: Scan) -> Iterator[Hit]:
    """Runs that are text in base64 with a finding in it."""
    flat = view.flat
    for start, end in runs:
        if view.shape.find(b"A", start, end) < 0:
            continue  # digests are in lower case, text in base64 never is
        if not begins_text(flat, start):
            start = flat.find(b"/", start, end) + 1  # base64 below a path, as in a URL
            if not start or not begins_text(flat, start):
                continue
        end += len(flat[end : end + 2]) - len(flat[end : end + 2].lstrip(b"="))
        text = text_in(flat[start:end])
        hits = scan(text) if text is not None else []
        if hits:
            yield Hit(hits[0].kind, start, end, 4, Spelling.BASE64)


def packed_hits(view: View, runs: list[Run], scan: Scan) -> Iterator[Hit]:
    """Runs that are compressed text in base64 with a finding in it."""
    for start, end in runs:
        if view.flat[start : start + 2] not in _PACKED_HEADS:
            start = view.flat.find(b"/H4sI", start, end) + 1  # below a path, as in a URL
            if not start:
                continue
        if not PACKED.match(view.flat, start, end):
            continue
        end += len(view.flat[end : end + 2]) - len(view.flat[end : end + 2].lstrip(b"="))
        text = unpacked(view.flat[start:end])
        hits = scan(text) if text is not None else []
        if hits:
            yield Hit(hits[0].kind, start, end, 4, Spelling.PACKED)


PACKED = lazy(rb"H4sI|eJ[w-z]|eN[o-r]|eAE")
"""What gzip and zlib begin with, in base64."""
_PACKED_HEADS = frozenset([b"H4", b"eJ", b"eN", b"eA"])
_MAX_UNPACKED = 256 * 1024
_GZIP_OR_ZLIB = 47


def unpacked(encoded: str | bytes, *, whole: bool = False) -> str | None:
    """The beginning of the text that is compressed in base64; None when it is anything else.

    `whole`: None as well when there is more of it than is looked at.
    """
    import zlib  # noqa: PLC0415 (few texts come here)

    data = unbase64(encoded)
    if data is None:
        return None
    reader = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        plain = reader.decompress(data, _MAX_UNPACKED)
    except zlib.error:
        return None
    if reader.eof:
        return _as_text(plain)
    return None if whole else _as_text(plain.decode("utf-8", "ignore").encode())


def unpacked_whole(encoded: str) -> str | None:
    """The same; None where it is not all of the text."""
    return unpacked(encoded, whole=True)


def packed(text: str, like: str) -> str:
    """The text compressed and in base64, as `like` is."""
    import gzip  # noqa: PLC0415 (few texts come here)
    import zlib  # noqa: PLC0415

    data = text.encode("utf-8", "surrogatepass")
    small = gzip.compress(data, mtime=0) if like.startswith("H4sI") else zlib.compress(data)
    return as_base64(small, like)


def as_base64(data: bytes, like: str) -> str:
    """The data in base64, in the alphabet of `like`, and padded if that is."""
    from base64 import b64encode, urlsafe_b64encode  # noqa: PLC0415 (rarely needed)

    url_safe = "-" in like or "_" in like
    encoded = (urlsafe_b64encode if url_safe else b64encode)(data).decode()
    return encoded if like.endswith("=") or len(like) % 4 == 0 else encoded.rstrip("=")


def hex_hits(view: View, runs: list[Run], scan: Scan) -> Iterator[Hit]:
    """Runs that are text in hexadecimal digits with a finding in it."""
    for start, end in runs:
        found = HEX_TEXT.match(view.flat, start) if view.flat[start] in HEX_HEADS else None
        if found is None:
            below = view.flat.rfind(b"/", start, end) + 1  # as in a URL
            found = HEX_TEXT.match(view.flat, below) if below and end - below >= _SHORTEST_HEX else None
        if found is None:
            continue
        text = text_in_hex(found[1].decode())
        hits = scan(text) if text is not None else []
        if hits:
            yield Hit(hits[0].kind, *found.span(1), 4, Spelling.HEX)


_SHORTEST_HEX = 20


def text_in_hex(digits: str) -> str | None:
    """The text that hexadecimal digits stand for; None when it is none."""
    return _as_text(bytes.fromhex(digits))


def text_in(encoded: str | bytes) -> str | None:
    """The text that base64 stands for; None when it stands for anything else."""
    data = unbase64(encoded)
    return None if data is None else _as_text(data)


def _as_text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return text if len(data.translate(None, _TEXT)) * 2 < len(data) else None


def begins_text(flat: bytes, start: int) -> bool:
    """True when the first bytes that the run stands for look like text."""
    head = flat[start : start + 20]
    if len(head) < 20:
        return False
    try:
        data = a2b_base64(head.translate(_STANDARD))
    except Error:
        return False
    if data.lstrip(_NO_CONTROLS):
        return False
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return error.start >= len(data) - 3 and not error.start < 6
    return len(data) > 8


_STANDARD = bytes.maketrans(b"-_", b"+/")


def _may_begin_text() -> str:
    """A pattern that is there wherever `begins_text` says yes, and hardly anywhere else: no decoding is needed to ask.

    Four letters stand for three bytes: three of them hold the first six, four and two bits of one. In UTF-8 a byte
    above 127 begins a character (`lead`) or goes on with it (`more`): plain bytes are not followed by more, a lead is,
    and the first byte of all is no more. The last three of fifteen bytes may be a character that is cut off.
    """
    alphabet = f"{ascii_uppercase}{ascii_lowercase}{digits}+/"
    more, lead = bytes(range(0x80, 0xC0)), bytes(range(0xC2, 0xF5))

    def letters(bits: int, kind: bytes) -> str:
        """Those that hold the first bits of a byte of this kind."""
        begun = {byte >> (8 - bits) for byte in kind}
        chosen = "".join(letter for value, letter in enumerate(alphabet) if value % 2**bits in begun)
        return f"[{chosen}]".replace("+", r"+\-").replace("/", "/_")

    first = (
        f"{letters(6, _TEXT)}(?:{letters(4, _TEXT)}{letters(2, _TEXT + lead)}|{letters(4, lead)}{letters(2, more)})."
        f"|{letters(6, lead)}{letters(4, more)}.."
    )
    return f"(?:{first})(?:{first}|{letters(6, more)}...){{3}}"


MAY_BEGIN_TEXT = _may_begin_text()


def _unquoted(text: str) -> tuple[str, list[int]]:
    """The decoded text, and for each of its characters where it stood; one more for the end."""
    pieces: list[str] = []
    places: list[int] = []
    for unit in _UNIT.finditer(text):
        at, word = unit.start(), unit[0]
        if len(word) < 3 or word[0] != "%":
            pieces.append(word)
            places.extend(range(at, unit.end()))
            continue
        decoded = bytes.fromhex(word.replace("%", "")).decode("utf-8", "replace")
        if "\ufffd" in decoded:
            decoded = bytes.fromhex(word.replace("%", "")).decode("latin-1")
        pieces.append(decoded)
        latin = len(decoded) * 3 == len(word)
        for char in decoded:
            places.append(at)
            at += 3 if latin else 3 * len(char.encode())
    places.append(len(text))
    return "".join(pieces), places
