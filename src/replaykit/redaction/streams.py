"""Redact streams: bodies in chunks, and events whose texts arrive in deltas.

A body is one text, wherever its chunks end. In a stream of JSON events, the same member of all events is one text, too:
`choices[0].delta.content` of fifty events may contain one key. Members are told apart by path and by identifiers in the
events. A placeholder goes into the first chunk that it touches; the rest of the value is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from replaykit.redaction.finding import Edit, in_order, spread
from replaykit.redaction.json_text import Leaf, Places, escaped, leaves, unescaped
from replaykit.redaction.stream_texts import ALSO_APART, TELLS_APART, is_json, joined_texts

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor
    from replaykit.redaction.text_edits import Known

_Piece = TypeVar("_Piece", bytes, str)
_LINE = re.compile(r"[^\r\n]+")
_DATA = re.compile(r"\Adata: ?")
MAX_PASSES = 6
_LEAST_CHARS = 12


class _Part(Struct, frozen=True):
    """One event's share of a text, with its offset in the body and the position of each character."""

    text: str
    start: int
    places: Places | range


class _StreamEvent(Struct, frozen=True):
    """A line with a payload: its offset, its text, and its members if it is JSON."""

    start: int
    text: str
    members: list[Leaf] | None


def redacted_chunks(redactor: Redactor, chunks: list[_Piece]) -> list[_Piece]:
    """Redact chunks as one text; return the same list if there are no findings."""
    if not chunks:
        return chunks
    if isinstance(chunks[0], bytes):
        return _redacted_pieces(redactor, chunks, "surrogateescape")
    before = [chunk.encode("utf-8", "surrogatepass") for chunk in chunks]
    after = _redacted_pieces(redactor, before, "surrogatepass")
    if after is before:
        return chunks
    return [piece.decode("utf-8", "surrogatepass") for piece in after]


def _redacted_pieces(redactor: Redactor, pieces: list[bytes], errors: str) -> list[bytes]:
    """Redact pieces as one text; return the same list if there are no findings."""
    if is_plainly_clean(redactor, b"".join(pieces)):
        return pieces
    known: Known = {}
    for _ in range(MAX_PASSES):
        text = b"".join(pieces).decode("utf-8", errors)
        edits = _edits(redactor, text, known)
        if not edits:
            break
        for edit in edits:
            if len(edit.value) >= _LEAST_CHARS:
                known[edit.value] = (edit.text, edit.kind)
        pieces = spread(pieces, _in_bytes(text, edits, errors))
    return pieces


def is_plainly_clean(redactor: Redactor, body: bytes, *others: bytes) -> bool:
    """Return whether one quick check of the body, its joined event texts, and the others passes."""
    texts = joined_texts(body)
    return texts is not None and redactor.passes(b"\n".join([*others, body, *texts]))


def _edits(redactor: Redactor, text: str, known: Known) -> list[Edit]:
    events: list[_StreamEvent] = []
    plain: list[_Part] = []
    for event in _events(text):
        if event.members is None:
            plain.append(_Part(event.text, event.start, range(len(event.text) + 1)))
        else:
            events.append(event)
    if len(events) < 2 and not text.startswith(("data:", "event:", ":")):
        return redactor.edits(text, known=known)
    across: list[Edit] = []
    for apart in (TELLS_APART, ALSO_APART):
        for parts in _members(events, apart).values():
            if len(parts) > 1:
                across += _spread_over(redactor, parts, known, as_json=True)
    across += _spread_over(redactor, plain, known, as_json=False)
    alone: list[Edit] = []
    for event in events:
        alone += [edit.moved(event.start) for edit in redactor.edits(event.text, known=known)]
    return _without_overlaps(in_order(across), alone)


def _events(text: str) -> Iterator[_StreamEvent]:
    for line in _LINE.finditer(text):
        payload = _DATA.sub("", line[0], count=1)
        start = line.end() - len(payload)
        if payload[:1] in ("{", "[") and is_json(payload):
            yield _StreamEvent(start, payload, [leaf for leaf in leaves(payload) if not leaf.is_key])
        elif payload != "[DONE]":
            yield _StreamEvent(start, payload, None)


def _members(events: list[_StreamEvent], apart: frozenset[str]) -> dict[tuple[str, ...], list[_Part]]:
    """Return the texts of each member across all events, in shares."""
    groups: dict[tuple[str, ...], list[_Part]] = {}
    for event in events:
        texts: list[Leaf] = []
        marks: list[tuple[str, str]] = []
        for leaf in event.members or ():
            if leaf.name in apart:
                marks.append((leaf.path.rpartition(".")[0], unescaped(event.text[leaf.start : leaf.end])[0]))
            elif event.text[leaf.start] == '"' and leaf.end - leaf.start > 2:
                texts.append(leaf)
        for leaf in texts:
            key = [leaf.path]
            for place, mark in marks:
                if leaf.path.startswith((f"{place}.", f"{place}[")):
                    key.append(mark)
            text = event.text[leaf.start + 1 : leaf.end - 1]
            places: Places | range = range(len(text) + 1)
            if "\\" in text:
                text, places = unescaped(text)
            groups.setdefault(tuple(key), []).append(_Part(text, event.start + leaf.start + 1, places))
    return groups


def _spread_over(redactor: Redactor, parts: list[_Part], known: Known, as_json: bool) -> list[Edit]:
    """Return the edits of the joined text, split at the borders of its parts."""
    joined = "".join([part.text for part in parts])
    edits: list[Edit] = []
    for edit in redactor.edits(joined, known=known):
        at, text = 0, edit.text
        if as_json:
            text = escaped(text)
        for part in parts:
            first, last = max(edit.start - at, 0), min(edit.end - at, len(part.text))
            if first < last:
                start, end = part.start + part.places[first], part.start + part.places[last]
                edits.append(replace(edit, start=start, end=end, text=text))
                text = ""
            at += len(part.text)
    return edits


def _without_overlaps(first: list[Edit], second: list[Edit]) -> list[Edit]:
    """Merge edits in order; drop those of `second` that overlap one of `first`."""
    at, pieces = 0, list(first)
    for edit in in_order(second):
        while at < len(first) and first[at].end <= edit.start:
            at += 1
        if at == len(first) or first[at].start >= edit.end:
            pieces.append(edit)
    return in_order(pieces)


def _in_bytes(text: str, edits: list[Edit], errors: str) -> list[tuple[int, int, bytes]]:
    """Return the edits at positions in the encoded text."""
    if text.isascii():
        return [(edit.start, edit.end, edit.text.encode()) for edit in edits]
    spans, at, size = [], 0, 0
    for edit in edits:
        size += len(text[at : edit.start].encode("utf-8", errors))
        length = len(text[edit.start : edit.end].encode("utf-8", errors))
        spans.append((size, size + length, edit.text.encode("utf-8", errors)))
        size, at = size + length, edit.end
    return spans
