"""Encoded: text inside of text, percent-encoded or in base64. It is decoded and looked into, to a depth."""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from string import ascii_lowercase, ascii_uppercase, digits

from replaykit.redaction.checksums import unbase64
from replaykit.redaction.finding import Hit, Spelling
from replaykit.redaction.lazy import lazy
from replaykit.redaction.tokens import Run
from replaykit.redaction.view import View

MAX_DEPTH = 3
_LONGEST = 4096
Scan = Callable[[str], list[Hit]]

_ESCAPED = lazy(rb"%[0-9A-Fa-f]{2}")
_REST = lazy(rb"[^\s\"'<>`]{0,4096}+")
_UNIT = lazy(r"(?:%[0-9A-Fa-f]{2})+|[^%]+|%")
_TEXT = bytes(range(32, 127)) + b"\t\r\n"
_NO_CONTROLS = _TEXT + bytes(range(128, 256))


def percent_hits(view: View, scan: Scan) -> Iterator[Hit]:
    """What is found in percent-encoded words once they are decoded, at the places where they stand encoded."""
    flat, done = view.flat, 0
    found = _ESCAPED.search(flat)
    while found:
        at = found.start()
        start = max(done, max(flat.rfind(stop, max(0, at - _LONGEST), at) for stop in _STOPS) + 1, at - _LONGEST)
        rest = _REST.match(flat, at)
        done = rest.end() if rest else found.end()
        text, places = _unquoted(view.text[start:done])
        for hit in scan(text):
            first, last = start + places[hit.start], start + places[hit.end]
            encoded = b"%" in flat[first:last]
            spelling = Spelling.PERCENT if encoded and hit.spelling is Spelling.PLAIN else hit.spelling
            yield Hit(hit.kind, first, last, hit.rank, spelling)
        found = _ESCAPED.search(flat, done)


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


def text_in(encoded: str | bytes) -> str | None:
    """The text that base64 stands for; None when it stands for anything else."""
    data = unbase64(encoded)
    if data is None or b"\0" in data:
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
