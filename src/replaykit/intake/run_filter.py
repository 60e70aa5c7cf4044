"""A filter for the runs of an import."""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from replaykit.errors import UsageError, nearest
from replaykit.formats.core.run_query import parse_since
from replaykit.intake.entries import ImportRecord
from replaykit.model.run import RunStatus, TraceRun

FAILURES = (RunStatus.ERROR, RunStatus.TIMEOUT)
"""The ways in which a run fails; one that somebody cancelled has not."""
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
    """A filter: for each key one of the values, and a start no earlier than `since`."""

    filters: tuple[tuple[str, str], ...] = ()
    """A key and a value; in a value `*` stands for anything."""
    since: float | None = None
    limit: int | None = None
    """The most runs to take, in the order in which they are found."""

    def fits(self, run: TraceRun) -> bool:
        """True for a run that is asked for."""
        if self.since is not None and run.started_at < self.since:
            return False
        fitting = {key for key, value in self.filters if any(fnmatchcase(word, value) for word in _KEYS[key](run))}
        return all(key in fitting for key, _value in self.filters)


def parse_run_filter(filters: Sequence[str], since: str | None = None, limit: int | None = None) -> RunFilter:
    """Return the filter of `--filter KEY=VALUE …`, `--since` and `--limit`; a `UsageError` for a bad one."""
    began = None
    if since is not None:
        began = parse_since(since, most=_FOR_EVER).timestamp()
    return RunFilter(filters=tuple(map(_filter, filters)), since=began, limit=limit)


def choose(records: Iterable[ImportRecord], run_filter: RunFilter) -> Iterator[ImportRecord]:
    """The records whose runs are wanted, and those without a run; how many were passed over is told at the end."""
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
            yield ImportRecord(origin="", notes=(f"no more than {taken} were taken, as the limit says",))
            break
    if passed:
        note = f"passed over, since not asked for: {passed:,}"
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
