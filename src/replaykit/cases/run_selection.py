"""The run of a trace file that becomes a case, and the text that the case keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from replaykit.errors import InvalidFile, UsageError
from replaykit.formats.core.registry import Found, no_run_error, shorten_notes
from replaykit.formats.core.source import FileSource, Source
from replaykit.formats.files import importer_of, read_with
from replaykit.model.run import RunStatus, TraceRun

MAX_TEXT_BYTES = 8 * 1024 * 1024
"""A larger trace is not kept in a case: the run log says what matters of it."""
_NAMED = 5


class Picked(Struct, frozen=True, kw_only=True):
    """A run, and what is known of where it was read from."""

    run: TraceRun
    notes: tuple[str, ...] = ()
    text: bytes | None = None
    """The trace, where a case can keep it: text that holds this run alone, and is not packed."""
    format: str | None = None
    is_only: bool = True
    """False for one of several runs in a file."""


def pick_run(source: Source, format: str | None = None, select: str | None = None) -> Picked:
    """The run that is selected by its id or the beginning of it, or the only one; a `UsageError` where none is."""
    importer = importer_of(source, format)
    seen = _SeenRuns(source.file, select)
    for found in read_with(importer, source):
        seen.add(found)
        if seen.is_settled:
            break
    run = seen.chosen(source)
    text = source.text if seen.count == 1 and _is_kept(source) else None
    return Picked(
        run=run,
        notes=tuple(seen.remarks()),
        text=text,
        format=importer.name if text is not None else None,
        is_only=seen.count == 1,
    )


def _is_kept(source: Source) -> bool:
    # What nobody can read or redact has no place in git.
    is_plain = isinstance(source, FileSource) and not source.is_packed and source.is_text
    return is_plain and len(source.text) <= MAX_TEXT_BYTES


class _SeenRuns:
    """What was found so far; of the runs only the one that counts is held."""

    def __init__(self, file: str, select: str | None) -> None:
        self.count = 0
        self._file = file
        self._select = select
        self._exact: TraceRun | None = None
        self._begins: TraceRun | None = None
        """The first run whose id begins as was said: any run where nothing was."""
        self._alike: list[str] = []
        self._ids: list[str] = []
        self._failed: list[str] = []
        self._problems: list[InvalidFile] = []
        self._notes: list[str] = []

    @property
    def is_settled(self) -> bool:
        """True when nothing that follows can change which run it is, nor that it is one of several."""
        return self._exact is not None and self.count > 1

    def add(self, found: Found) -> None:
        if isinstance(found, InvalidFile):
            self._problems.append(found)
        elif isinstance(found, str):
            self._notes.append(found)
        else:
            self._add_run(found)

    def _add_run(self, run: TraceRun) -> None:
        self.count += 1
        _name(self._ids, run)
        if run.status in (RunStatus.ERROR, RunStatus.TIMEOUT):
            _name(self._failed, run)
        if run.id == self._select:
            self._exact = self._exact or run
        elif run.id.startswith(self._select or ""):
            self._begins = self._begins or run
            _name(self._alike, run)

    def chosen(self, source: Source) -> TraceRun:
        if not self.count:
            raise no_run_error(source, self._problems, self._notes)
        if self._exact is not None:
            return self._exact
        if self._begins is not None and len(self._alike) == 1:
            return self._begins
        if self._select is None:
            raise UsageError(
                f"{self._file} holds {self.count:,} runs", hint=f"Name one with --select: {self._likely_runs()}"
            )
        if self._alike:
            hint = f"Give more of the id: {_listed(self._alike, self.count)}"
            raise UsageError(f"{self._file} holds several runs whose ids begin with {self._select!r}", hint=hint)
        raise UsageError(f"{self._file} holds no run {self._select!r}", hint=f"It holds: {self._likely_runs()}")

    def remarks(self) -> Iterator[str]:
        yield from (f"left out: {text}" for text in shorten_notes([problem.message for problem in self._problems]))
        yield from shorten_notes(self._notes)

    def _likely_runs(self) -> str:
        """Those that failed, where any did: one of them it will be."""
        if self._failed:
            failed = f"{_listed(self._failed, len(self._failed) + 1)} (failed)"
        else:
            failed = ""
        if failed and self.count > _NAMED:
            return failed
        return _listed(self._ids, self.count)


def _name(ids: list[str], run: TraceRun) -> None:
    if len(ids) < _NAMED:
        ids.append(run.id)


def _listed(ids: Iterable[str], count: int) -> str:
    named = list(ids)
    return ", ".join(named) + (" …" if count > len(named) else "")
