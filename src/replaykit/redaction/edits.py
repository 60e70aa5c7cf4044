"""Edits: stretches of a text and what shall stand there instead, for whole texts and for texts in pieces."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Edit(Struct, frozen=True):
    """One replacement: the kind and the value that it is for, and the JSON path where the text is JSON."""

    start: int
    end: int
    text: str
    kind: str
    value: str = ""
    path: str = ""


def in_order(edits: list[Edit]) -> list[Edit]:
    """The edits in the order of the text, the earlier and longer of those that overlap."""
    edits_left: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if not edits_left or edit.start >= edits_left[-1].end:
            edits_left.append(edit)
    return edits_left


def applied(text: str, edits: Sequence[Edit]) -> str:
    """The text with the edits made."""
    pieces, last = [], 0
    for edit in edits:
        pieces += [text[last : edit.start], edit.text]
        last = edit.end
    return "".join([*pieces, text[last:]])


def spread(pieces: list[bytes], spans: Sequence[tuple[int, int, bytes]]) -> list[bytes]:
    """The pieces of a text with the spans of the whole replaced; what is put in goes into the first piece touched."""
    changed, at, rest = [], 0, list(reversed(spans))
    pending: tuple[int, int, bytes] | None = None
    for piece in pieces:
        end, out, here = at + len(piece), [], at
        while here < end:
            if pending is not None:
                here = min(end, pending[1])
                pending = pending if pending[1] > end else None
            elif rest and rest[-1][0] < end:
                span = rest.pop()
                out += [piece[here - at : span[0] - at], span[2]]
                here, pending = span[0], span
            else:
                out.append(piece[here - at :])
                here = end
        changed.append(b"".join(out))
        at = end
    return changed
