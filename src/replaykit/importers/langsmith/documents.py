"""What stands in a file of LangSmith runs: each run as it was written, with its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from replaykit.errors import InvalidFile
from replaykit.importers.source import JsonPath, Source
from replaykit.model.values import Json

FORMAT = "langsmith"

Document = tuple[Json, JsonPath]
"""A run, or a part of one, and where it stands."""

_LISTS = ("runs", "items", "post", "patch")
"""Where answers of the API, webhooks and the bodies that SDKs send hold their runs; a patch comes after its post."""
_MARKS = ("trace_id", "parent_run_id", "parent_run_ids", "child_runs", "session_id", "project_id")
_LOOK_AT = 5


def documents(source: Source) -> tuple[Source, list[InvalidFile], Iterator[Document]]:
    """The file to speak of in errors, the lines of it that are not JSON, and its runs."""
    problems: list[InvalidFile] = []
    if source.is_lines:
        source, problems = _joined(source)
    return source, problems, _documents(source.value)


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


def _documents(value: Json) -> Iterator[Document]:
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


def _joined(source: Source) -> tuple[Source, list[InvalidFile]]:
    """The lines as one list that keeps every line's number; those that are not JSON are left empty in it."""
    values: list[Json] = []
    texts: list[bytes] = []
    problems: list[InvalidFile] = []
    for number, line in enumerate(source.text.split(b"\n"), start=1):
        text = b""
        if line.strip():
            try:
                values.append(Source(line, source.file).value)
                text = b"," + line if len(values) > 1 else line
            except InvalidFile as problem:
                problems.append(InvalidFile(problem.reason, file=source.file, line=number))
        texts.append(text)
    return Source(b"[" + b"\n".join(texts) + b"]", source.file, value=values), problems
