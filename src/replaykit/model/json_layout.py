"""Layout of JSON text for people and diffs: short values on one line, everything else over several lines."""

from __future__ import annotations

import msgspec

from replaykit.model.values import read_items, read_members

MAX_LINE_BYTES = 100
"""The longest object or list on one line, without what comes before it."""
_INDENT = b"  "
_EMPTY = b"[]"
_encode = msgspec.json.Encoder().encode


def laid_out(text: bytes, *, open_levels: int) -> bytes:
    """Lay out JSON text; the values in it stay as they are.

    Objects and lists of the outermost `open_levels` levels are always broken over several lines.
    """
    return _value(text, b"\n", open_levels) + b"\n"


def _value(text: bytes, line_end: bytes, open_levels: int) -> bytes:
    """Lay out one value; `line_end` is a line break followed by the value's own indentation."""
    opening = text[:1]
    if opening not in (b"{", b"["):
        return text
    if len(text) <= MAX_LINE_BYTES and (open_levels <= 0 or len(text) == len(_EMPTY)):
        line = msgspec.json.format(text, indent=0)
        if len(line) <= MAX_LINE_BYTES:
            return line
    inner = line_end + _INDENT
    if opening == b"[":
        lines = [_value(bytes(item), inner, open_levels - 1) for item in read_items(text)]
        return b"[%b%b%b]" % (inner, (b"," + inner).join(lines), line_end)
    members = read_members(text).items()
    lines = [b"%b: %b" % (_encode(name), _value(bytes(value), inner, open_levels - 1)) for name, value in members]
    return b"{%b%b%b}" % (inner, (b"," + inner).join(lines), line_end)
