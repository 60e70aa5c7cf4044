"""The records of an import: runs on their way in, and their results."""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from sys import intern

import msgspec
from msgspec import Raw, Struct

from replaykit.errors import UsageError, nearest
from replaykit.formats.core.replayability import replayability, total_of
from replaykit.formats.core.run_query import parse_since
from replaykit.model.run import RunStatus, TraceRun


class ImportRecord(Struct, frozen=True, kw_only=True):
    """One run of a file or service; without a run, `problem` says why there is none."""

    origin: str
    """The file or the service."""
    id: str = ""
    run: TraceRun | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


FAILED = "failed"


class Manifest(Struct, frozen=True, kw_only=True):
    """How much of a run can be replayed."""

    calls: int = 0
    """The number of calls."""
    exact: int = 0
    """The number of calls whose answers can be served exactly as recorded."""
    score: float = 1.0
    """The share of calls that can be replayed, from 0 to 1."""
    summary: str = ""
    """The same in words."""
    lacking: Raw = Raw(b"[]")
    """The calls that lack something, as JSON: number, name and what each lacks."""
    advice: tuple[str, ...] = ()
    """Advice on how to capture more."""


class CaseMade(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of turning a failed run into a case."""

    directory: str
    """The directory of the case."""
    result: str
    """`made`, `there` (it existed already) or `same` (another case fails in the same way)."""
    why: str = ""
    """Why it is not ready, or which case fails in the same way."""


class ImportEntry(Struct, frozen=True, kw_only=True):
    """The result of importing one run."""

    run: str
    """The id of the run."""
    origin: str
    """The file or the service."""
    result: str
    """imported, updated, unchanged, there or failed."""
    format: str = ""
    """The format it was read as."""
    name: str = ""
    agent: str = ""
    """The agent that ran; empty if the trace does not say."""
    status: str = ""
    """The status of the run; empty if the run is missing."""
    started_at: float = 0.0
    """Seconds since the epoch; 0 if the trace does not say."""
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    replayable: Manifest = Manifest()
    session: str = ""
    """The file of its session."""
    case: CaseMade | None = None
    problem: str = ""
    """Why the run, its session or its case is missing; empty if nothing is."""


class ImportResult(Struct, frozen=True, kw_only=True):
    """The results of an import."""

    replaykit: int = 1
    dry_run: bool = False
    """True if nothing was written."""
    entries: tuple[ImportEntry, ...] = ()
    """The results of all runs."""
    notes: tuple[str, ...] = ()
    """Remarks about the files or the service."""

    @property
    def failed(self) -> list[ImportEntry]:
        """The entries without a run, or without the session or case that was requested."""
        return [entry for entry in self.entries if entry.problem]

    @property
    def sessions(self) -> list[Path]:
        """The session files, without duplicates."""
        return list(map(Path, dict.fromkeys(entry.session for entry in self.entries if entry.session)))


def entry_of(record: ImportRecord) -> ImportEntry:
    """Return the entry of a record that is not stored yet."""
    run = record.run
    if run is None:
        return ImportEntry(run=record.id, origin=record.origin, result=FAILED, problem=record.problem)
    used = total_of(run)
    return ImportEntry(
        run=run.id,
        origin=record.origin,
        result=FAILED,
        format=intern(run.origin.format or ""),
        name=run.name,
        agent=run.agent,
        status=run.status.value,
        started_at=run.started_at,
        model_calls=len(run.llm_calls),
        tool_calls=len(run.tool_calls),
        input_tokens=used.input_tokens or 0,
        output_tokens=used.output_tokens or 0,
        replayable=manifest_of(run),
    )


def manifest_of(run: TraceRun) -> Manifest:
    """Return how much of a run can be replayed."""
    report = replayability(run)
    return Manifest(
        calls=report.calls,
        exact=report.exact,
        score=round(report.score, 3) if report.lacking else 1.0,
        summary=intern(report.summary),
        lacking=Raw(msgspec.json.encode(report.lacking)),
        advice=tuple(map(intern, report.advice)),
    )


FAILURES = (RunStatus.ERROR, RunStatus.TIMEOUT)
"""The statuses of failed runs; a cancelled run did not fail."""
_FOR_EVER = dt.timedelta(days=36_500)

_Words = Callable[[TraceRun], Iterable[str]]
_KEYS: dict[str, _Words] = {
    "status": lambda run: (run.status.value, *(["error"] if run.status in FAILURES else [])),
    "agent": lambda run: [run.agent],
    "name": lambda run: [run.name],
    "tag": lambda run: run.tags,
    "format": lambda run: [run.origin.format or ""],
}


class RunFilter(Struct, frozen=True, kw_only=True):
    """A filter: one matching value for each key, and a start no earlier than `since`."""

    filters: tuple[tuple[str, str], ...] = ()
    """Pairs of key and value; `*` in a value matches anything."""
    since: float | None = None
    limit: int | None = None
    """The most runs to take, in the order in which they come."""

    def fits(self, run: TraceRun) -> bool:
        if self.since is not None and run.started_at < self.since:
            return False
        fitting = {key for key, value in self.filters if any(fnmatchcase(word, value) for word in _KEYS[key](run))}
        return all(key in fitting for key, _value in self.filters)


def parse_run_filter(filters: Sequence[str], since: str | None = None, limit: int | None = None) -> RunFilter:
    """Parse `--filter KEY=VALUE …`, `--since` and `--limit`; raise `UsageError` for a bad one."""
    began = None if since is None else parse_since(since, most=_FOR_EVER).timestamp()
    return RunFilter(filters=tuple(map(_filter, filters)), since=began, limit=limit)


def choose(records: Iterable[ImportRecord], run_filter: RunFilter) -> Iterator[ImportRecord]:
    """Yield the records whose runs are selected, and those without a run; a note at the end counts the skipped ones."""
    taken = passed = undated = 0
    for record in records:
        run = record.run
        if run is not None and not run_filter.fits(run):
            passed += 1
            undated += run_filter.since is not None and not run.started_at
            continue
        yield record
        taken += run is not None
        if taken == run_filter.limit:
            yield ImportRecord(origin="", notes=(f"the limit stopped the import after {taken}",))
            break
    if passed:
        note = f"skipped, since not selected: {passed:,}"
        if undated:
            note += f", {undated} of them without a time at which they began"
        yield ImportRecord(origin="", notes=(note,))


def _filter(text: str) -> tuple[str, str]:
    key, _equals, value = text.partition("=")
    key, value = key.strip().lower(), value.strip()
    if not value:
        example = "status=error"
        if key in _KEYS and key != "status":
            example = f"{key}=NAME"
        raise UsageError(f"--filter {text!r}: expected KEY=VALUE", hint=f"Such as --filter {example}")
    if key not in _KEYS:
        raise UsageError(f"--filter {text!r}: no such key; {nearest(key, _KEYS)}")
    known = list(map(str, RunStatus))
    if key == "status" and not fnmatch.filter(known, value):
        raise UsageError(f"--filter {text!r}: no run has that status; {nearest(value, known)}")
    return key, value
