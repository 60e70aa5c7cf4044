"""What stands in a file of LangSmith runs: each run as it was written, with its path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec
from msgspec import Raw, Struct

from replaykit.errors import InvalidFile
from replaykit.importers.gathering import Gathering, Piece
from replaykit.importers.langsmith.members import KNOWN, members_of
from replaykit.importers.source import JsonPath, Source
from replaykit.model.nesting import check_nesting
from replaykit.model.values import Json

FORMAT = "langsmith"

Document = tuple[Json, JsonPath, Source]
"""A run, or a part of one, where it stands, and in what."""

_LISTS = ("runs", "items", "post", "patch")
"""Where answers of the API, webhooks and the bodies that SDKs send hold their runs; a patch comes after its post."""
_MARKS = ("trace_id", "parent_run_id", "parent_run_ids", "child_runs", "session_id", "project_id")
_LOOK_AT = 5


def documents(source: Source) -> Iterator[list[Document] | InvalidFile]:
    """What may belong together of a file, in one list each, and the lines of it that are not JSON."""
    if not source.is_lines:
        yield [(run, path, source) for run, path in _documents(source.value)]
        return
    with Gathering(source.file, original=source.original()) as gathered:
        for line in source.documents():
            try:
                _gather(gathered, line)
            except InvalidFile as problem:
                yield problem
        groups: Iterable[list[Piece]] = (pieces for _trace, pieces in gathered.groups())
        if gathered.holds(_LOOSE):  # they may be below any run of the file
            groups = [list(chain.from_iterable(groups))]
        for pieces in groups:
            found, problems = _read(source.file, pieces)
            yield from problems
            yield found


def holds_runs(source: Source) -> bool:
    """True when one of the first things in the file looks like a run: the very first may be a bad one."""
    found = (run for value in source.first for run in islice(_documents(value), _LOOK_AT))
    return any(_is_run(run) for run, _path in found)


def _is_run(value: Json) -> bool:
    """True for an object with a `dotted_order`, or with a run's type and a field that places it in a trace."""
    if not isinstance(value, dict):
        return False
    typed = isinstance(value.get("run_type"), str) and any(name in value for name in _MARKS)
    return typed or isinstance(value.get("dotted_order"), str)


def _documents(value: Json) -> Iterator[tuple[Json, JsonPath]]:
    parts: Iterable[tuple[JsonPath, Json]] = [((), value)]
    if isinstance(value, list):
        parts = (((index,), part) for index, part in enumerate(value))
    for path, part in parts:
        names = _lists(part)
        if not names:
            yield part, path
        for name in names:
            yield from ((run, (*path, name, number)) for number, run in enumerate(part[name]))


def _lists(part: Json) -> list[str]:
    if not isinstance(part, dict) or "run_type" in part:
        return []
    return [name for name in _LISTS if isinstance(part.get(name), list)]


class _Head(Struct):
    """What says which trace a run is of, and whether it is one."""

    id: str | None = None
    trace_id: str | None = None
    dotted_order: str | None = None
    parent_run_id: str | None = None
    parent_run_ids: list[str] | None = None
    run_type: str | None = None
    runs: Raw = Raw()
    items: Raw = Raw()
    post: Raw = Raw()
    patch: Raw = Raw()

    @property
    def trace(self) -> str:
        """The id of the run at the top, as far as it says that."""
        first = (self.dotted_order or "").partition(".")[0].partition("Z")[2]
        above = self.parent_run_ids[0] if self.parent_run_ids else self.parent_run_id and _LOOSE
        return self.trace_id or first or above or self.id or _LOOSE

    @property
    def lists(self) -> list[Raw]:
        """Where it is none, but holds some."""
        return [held for held in (self.runs, self.items, self.post, self.patch) if held]

    @property
    def is_known(self) -> bool:
        """True for a run all members of which are known."""
        return type(self) is _Known and not self.lists


_LOOSE = "?"
"""The key of runs that name no trace but a parent, or nothing at all."""
_Known: Any = msgspec.defstruct(
    "_Known",
    [(name, Raw, Raw()) for name in KNOWN.difference(_Head.__struct_fields__)],
    bases=(_Head,),
    forbid_unknown_fields=True,
)
"""The head of a run that has no member beside those that are known."""
_head = msgspec.json.Decoder(_Head).decode
_known: Callable[[bytes | Raw], _Head] = msgspec.json.Decoder(_Known).decode
_parts = msgspec.json.Decoder(list[Raw]).decode


def _gather(gathered: Gathering, line: Source) -> None:
    """Put the runs of a line where their traces are; `InvalidFile` when it is not JSON."""
    text = line.text
    try:
        check_nesting(text)
        for part in _parts(text) if text[:64].lstrip()[:1] == b"[" else (text,):
            head = _head_of(part)
            if head.run_type is None and (lists := head.lists):
                for run in chain.from_iterable(map(_parts, lists)):
                    own = _head_of(run)
                    gathered.add(own.trace, bytes(run), line.line, own.is_known)
            elif part is text and gathered.reads_again:
                gathered.add_place(head.trace, line.at, len(text), line.line, head.is_known)
            else:
                gathered.add(head.trace, bytes(part), line.line, head.is_known)
    except msgspec.MsgspecError:
        _ = line.value
        gathered.add(_LOOSE, text, line.line)  # of a wrong type somewhere: whoever reads it says where


def _head_of(run: bytes | Raw) -> _Head:
    try:
        return _known(run)
    except msgspec.ValidationError:
        return _head(run)


def _read(file: str, pieces: Iterable[Piece]) -> tuple[list[Document], list[InvalidFile]]:
    found: list[Document] = []
    problems: list[InvalidFile] = []
    for text, line, is_known in pieces:
        source = Source(text, file, line=line)
        members = members_of(text) if is_known else None
        if members is not None:
            found.append((members, (), source))
            continue
        try:
            found += [(run, path, source) for run, path in _documents(source.value)]
        except InvalidFile as problem:
            problems.append(problem)
    return found, problems
