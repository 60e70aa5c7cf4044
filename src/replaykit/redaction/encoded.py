"""Search encoded text: percent-encoding and forms, base64, hexadecimal digits, and compressed text in base64.

Text is decoded up to a maximum depth.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from string import ascii_lowercase, ascii_uppercase, digits

from replaykit.redaction.checksums import unbase64
from replaykit.redaction.finding import Hit, Spelling
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import Trait, View
from replaykit.redaction.tokens import HEX_HEADS, HEX_TEXT, Run

MAX_DEPTH = 3
_LONGEST = 4096
Scan = Callable[[str], list[Hit]]

_ESCAPED = lazy(rb"%[0-9A-Fa-f]{2}")
_ESCAPED_OR_PLUS = lazy(rb"%[0-9A-Fa-f]{2}|\+")
_FIELD = lazy(rb"[\w.\-\]%]=[^=]")  # the name of a form field and the beginning of its value
_STOPS = (b" ", b'"', b"'", b"<", b">", b"`", b"\n", b"\t", b"\r")
_REST = lazy(rb"[^\s\"'<>`]{0,4096}+")
_UNIT = lazy(r"(?:%[0-9A-Fa-f]{2})+|[^%]+|%")
_TEXT = bytes(range(32, 127)) + b"\t\r\n"
_NO_CONTROLS = _TEXT + bytes(range(128, 256))


def percent_hits(view: View, scan: Scan) -> Iterator[Hit]:
    """Yield hits in decoded words, at the positions of the encoded text."""
    flat, done = view.flat, 0
    is_form = view.traits & Trait.FORM != 0
    escape = _ESCAPED
    if is_form:
        escape = _ESCAPED_OR_PLUS
    found = escape.search(flat)
    while found:
        at = found.start()
        start = max(done, at - _LONGEST)
        for stop in _STOPS:
            start = max(start, flat.rfind(stop, start, at) + 1)
        rest = _REST.match(flat, at)
        assert rest is not None  # possibly empty
        done = max(rest.end(), found.end())
        word = view.text[start:done]
        if found[0] != b"+":
            yield from _decoded_hits(word, start, scan)
        if is_form and "+" in word and _FIELD.search(flat, start, done):
            yield from _decoded_hits(word.replace("+", " "), start, scan, word)
        found = escape.search(flat, done)


def _decoded_hits(word: str, start: int, scan: Scan, form: str = "") -> Iterator[Hit]:
    """Yield the hits in one word; `form` is the same word with a plus for each blank."""
    text, places = _unquoted(word)
    for hit in scan(text):
        first, last = places[hit.start], places[hit.end]
        spelling = hit.spelling
        if spelling is Spelling.PLAIN and "+" in form[first:last]:
            spelling = Spelling.FORM
        elif spelling is Spelling.PLAIN and "%" in word[first:last]:
            spelling = Spelling.PERCENT
        yield Hit(hit.kind, start + first, start + last, hit.rank, spelling)


def encoded_hits(view: View, runs: list[Run], scan: Scan) -> Iterator[Hit]:
    """Yield encoded runs whose decoded text has a hit: base64, compressed base64, or hexadecimal digits."""
    for spelling, spans_of in _SPANS.items():
        decode, _ = CODECS[spelling]
        for start, end in spans_of(view, runs):
            text = decode(view.flat[start:end])
            hits = scan(text) if text is not None else []
            if hits:
                yield Hit(hits[0].kind, start, end, 4, spelling)


def _base64_spans(view: View, runs: list[Run]) -> Iterator[Run]:
    flat = view.flat
    for start, end in runs:
        if view.shape.find(b"A", start, end) < 0:
            continue  # digests are in lower case, base64 of text never is
        if not begins_text(flat, start):
            start = flat.find(b"/", start, end) + 1  # base64 in a path, as in a URL
            if not start or not begins_text(flat, start):
                continue
        yield start, _padded(flat, end)


def _packed_spans(view: View, runs: list[Run]) -> Iterator[Run]:
    flat = view.flat
    for start, end in runs:
        if flat[start : start + 2] not in _PACKED_HEADS:
            start = flat.find(b"/H4sI", start, end) + 1  # in a path, as in a URL
            if not start:
                continue
        if _PACKED.match(flat, start, end):
            yield start, _padded(flat, end)


def _hex_spans(view: View, runs: list[Run]) -> Iterator[Run]:
    flat = view.flat
    for start, end in runs:
        found = None
        if flat[start] in HEX_HEADS:
            found = HEX_TEXT.match(flat, start)
        below = flat.rfind(b"/", start, end) + 1  # as in a URL
        if found is None and below and end - below >= _SHORTEST_HEX:
            found = HEX_TEXT.match(flat, below)
        if found:
            yield found.span(1)


def _padded(flat: bytes, end: int) -> int:
    """Return where base64 ends, including its padding."""
    padding = flat[end : end + 2]
    return end + len(padding) - len(padding.lstrip(b"="))


_SPANS = {Spelling.BASE64: _base64_spans, Spelling.PACKED: _packed_spans, Spelling.HEX: _hex_spans}
_SHORTEST_HEX = 20
_PACKED = lazy(rb"H4sI|eJ[w-z]|eN[o-r]|eAE")  # matches gzip and zlib headers in base64
_PACKED_HEADS = frozenset([b"H4", b"eJ", b"eN", b"eA"])
_MAX_UNPACKED = 256 * 1024
_GZIP_OR_ZLIB = 47


def _unpack(encoded: str | bytes) -> str | None:
    """Decompress text in base64, or its beginning; return None for anything else.

    Text that will be packed again (`str`) has to be complete.
    """
    import zlib  # noqa: PLC0415 (rarely reached)

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
    if isinstance(encoded, str):
        return None
    return _as_text(plain.decode("utf-8", "ignore").encode())


def _pack(text: str, like: str) -> str:
    import gzip  # noqa: PLC0415 (rarely reached)
    import zlib  # noqa: PLC0415

    data = text.encode("utf-8", "surrogatepass")
    if like.startswith("H4sI"):
        return _as_base64(gzip.compress(data, mtime=0), like)
    return _as_base64(zlib.compress(data), like)


def _as_base64(data: bytes, like: str) -> str:
    """Encode data in base64, in the alphabet and padding of `like`."""
    from base64 import b64encode  # noqa: PLC0415 (rarely needed)

    encoded = b64encode(data).decode()
    if "-" in like or "_" in like:
        encoded = encoded.replace("+", "-").replace("/", "_")
    if like.endswith("=") or len(like) % 4 == 0:
        return encoded
    return encoded.rstrip("=")


def _text_in_base64(encoded: str | bytes) -> str | None:
    return _as_text(unbase64(encoded) or b"\0")


def _in_base64(text: str, like: str) -> str:
    return _as_base64(text.encode("utf-8", "surrogatepass"), like)


def _text_in_hex(encoded: str | bytes) -> str | None:
    if isinstance(encoded, bytes):
        encoded = encoded.decode()
    return _as_text(bytes.fromhex(encoded))


def _in_hex(text: str, like: str) -> str:
    digits = text.encode("utf-8", "surrogatepass").hex()
    if like.isupper():
        return digits.upper()
    return digits


CODECS: dict[Spelling, tuple[Callable[[str | bytes], str | None], Callable[[str, str], str]]] = {
    Spelling.BASE64: (_text_in_base64, _in_base64),
    Spelling.HEX: (_text_in_hex, _in_hex),
    Spelling.PACKED: (_unpack, _pack),
}
"""Decoders of text that is encoded as a whole (None if it is not text), and encoders that restore the notation."""


def _as_text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    if len(data.translate(None, _TEXT)) * 2 < len(data):
        return text
    return None


def begins_text(flat: bytes, start: int) -> bool:
    """Return whether the run decodes to what looks like text."""
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
    """Return a pattern that matches wherever `begins_text` is true, and hardly anywhere else, without decoding.

    Four letters encode three bytes: six, two and four, four and two, and six bits each. In UTF-8, a byte above 127
    starts a character (`lead`) or continues one (`more`): ASCII is not followed by `more`, a lead always is, and the
    first byte is never `more`. The last three of fifteen bytes may be a truncated character.
    """
    alphabet = f"{ascii_uppercase}{ascii_lowercase}{digits}+/"
    more, lead = bytes(range(0x80, 0xC0)), bytes(range(0xC2, 0xF5))

    def letters(bits: int, kind: bytes) -> str:
        """Return a class of the letters that hold the first bits of such bytes."""
        begun = {byte >> (8 - bits) for byte in kind}
        chosen = "".join([letter for value, letter in enumerate(alphabet) if value % 2**bits in begun])
        return f"[{chosen}]".replace("+", r"+\-").replace("/", "/_")

    first = (
        f"{letters(6, _TEXT)}(?:{letters(4, _TEXT)}{letters(2, _TEXT + lead)}|{letters(4, lead)}{letters(2, more)})."
        f"|{letters(6, lead)}{letters(4, more)}.."
    )
    return f"(?:{first})(?:{first}|{letters(6, more)}...){{3}}"


MAY_BEGIN_TEXT = _may_begin_text()


def _unquoted(text: str) -> tuple[str, list[int]]:
    """Return the decoded text, and the original position of each character and of the end."""
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
        is_latin = len(decoded) * 3 == len(word)
        for char in decoded:
            places.append(at)
            at += 3
            if not is_latin:
                at += 3 * len(char.encode()) - 3
    places.append(len(text))
    return "".join(pieces), places


MAX_LAYERS = 4


def unquoted(raw: str, *, in_form: bool = False) -> tuple[str, int]:
    """Return the decoded value, and its number of percent-encoding layers."""
    from urllib.parse import unquote  # noqa: PLC0415 (slow to import, rarely needed)

    value, layers = raw, 0
    if in_form:
        value, layers = unquote(raw.replace("+", " ")), 1
    while layers < MAX_LAYERS and "%" in value and (plain := unquote(value)) != value:
        value, layers = plain, layers + 1
    return value, layers


def quoted(text: str, layers: int, *, in_form: bool = False) -> str:
    """Encode the text in as many layers of percent-encoding."""
    from urllib.parse import quote, quote_plus  # noqa: PLC0415 (slow to import, rarely needed)

    for _ in range(layers - in_form):
        text = quote(text, safe="")
    if in_form:
        return quote_plus(text)
    return text
