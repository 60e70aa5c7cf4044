"""Promote a failure to a case: pick a run from a trace file or the store, and refuse an incomplete one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import ReplayCase
from replaykit.cases.scaffold import scaffold
from replaykit.documents.document import FilePath
from replaykit.documents.slug import slug, typeable
from replaykit.errors import InvalidFile, RunNotFound, UsageError
from replaykit.formats.core.registry import Found, no_run_error, shorten_notes
from replaykit.formats.core.replayability import Lack, Lacking, Replayability, leaves_out_answer, replayability
from replaykit.formats.core.source import STDIN, FileSource, Source, read_source
from replaykit.formats.files import importer_of, read_with
from replaykit.model.events import ToolCall
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.store.open import StoreLike, open_store
from replaykit.wire.json_fields import as_object

CASES = Path("cases")
_PACKED = (".gz", ".zst")
_FILES = (*_PACKED, ".json", ".jsonl", ".ndjson", ".eval", ".traj", ".har")


_THREAD = "langgraph"
_THREAD_NOTE = (
    "a LangGraph thread holds states and no calls: where its nodes call models or tools, record a run as well, with "
    "rk.record(...) around the graph, and make the case of that run"
)


class Promoted(Struct, frozen=True, kw_only=True):
    """A new case, and remarks about its origin."""

    case: ReplayCase
    run: TraceRun
    """The original run."""
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The recorded program, if the run is of one."""


def promote(
    source: str,
    out: FilePath | None,
    *,
    format: str | None = None,
    run_id: str | None = None,
    case_id: str | None = None,
    title: str | None = None,
    allow_incomplete: bool = False,
    force: bool = False,
    store: StoreLike = None,
    redact: bool | None = None,
) -> Promoted:
    """Make a case from the trace file or stored run that `source` names; `-` is standard input.

    A run whose trace lacks too much is refused, unless `allow_incomplete`.
    """
    if _is_file(source):
        picked = pick_run(read_source(source), format, run_id)
    else:
        picked = _recorded(source, store)
    if not allow_incomplete:
        refuse_incomplete(picked.run)
    notes = (*picked.notes, *incompleteness(picked.run))
    if picked.run.origin.format == _THREAD and not any(picked.run.calls):
        notes = (*notes, _THREAD_NOTE)
    case = scaffold(
        picked.run,
        out or CASES / _name(source, picked),
        source_text=picked.text,
        source_format=picked.format,
        case_id=case_id,
        title=title,
        remarks=notes,
        force=force,
        redact=redact,
    )
    command = () if _is_file(source) else _command(picked.run)
    return Promoted(case=case, run=picked.run, notes=notes, command=command)


def _command(run: TraceRun) -> tuple[str, ...]:
    """Return the command of a program recorded here; commands in traces from elsewhere must not be run."""
    words = as_object(as_object(run.metadata).get("program")).get("command")
    if run.origin == Origin() and isinstance(words, list):
        return tuple(map(str, words))
    return ()


def _is_file(source: str) -> bool:
    return source == STDIN or os.path.exists(source) or os.sep in source or source.endswith(_FILES)


def _name(source: str, picked: Picked) -> str:
    """Return the name of the case: that of the file if it holds one run, or else that of the run."""
    if not _is_file(source):
        return typeable(picked.run.name or picked.run.id)
    if source == STDIN or not picked.is_only:
        return slug("tool_call", picked.run.id)
    file = Path(source)
    if file.suffix in _PACKED:
        return Path(file.stem).stem
    return file.stem


def _recorded(run_id: str, store: StoreLike) -> Picked:
    try:
        with open_store(store, read_only=True) as source:
            return Picked(run=source.load(run_id))
    except RunNotFound as error:
        raise RunNotFound(f"{run_id!r} is neither a trace file nor a recorded run", hint=str(error)) from error


LAST, LAST_FAILED = "last", "last-failed"
ALLOW = "--allow-incomplete"
# Without these a call cannot be found on the tape, or has no answer; a shortened value is served as it is.
_BREAKING = {Lack.ARGUMENTS, Lack.RESULT, Lack.HIDDEN}
_SHOWN = 20
_ADVICE = "Export the run again, with what goes into its calls and what comes out of them."


def refuse_incomplete(run: TraceRun) -> None:
    """Raise `UsageError` for an imported run of which a case could serve no tool call, or no call at all."""
    if run.origin.kind != "imported":  # our own recordings lack only what never happened
        return
    report = replayability(run)
    tools = {event.seq for event in run.events if isinstance(event, ToolCall)}
    broken = {lacking.seq for lacking in report.lacking if _BREAKING & set(lacking.lacks)}
    if tools and tools <= broken:
        why = "its only tool call cannot" if len(tools) == 1 else f"none of its {len(tools)} tool calls can"
    elif (
        report.calls
        and not tools
        and all(Lack.RESULT in lacking.lacks for lacking in report.lacking)
        and not report.exact
    ):
        why = "none of its calls has an answer, so none can"
    else:
        return
    lines = [*_calls(report, tools or broken), *(report.advice or (_ADVICE,)), f"Make the case anyway: {ALLOW}"]
    raise UsageError(f"run {run.id[:80]!r} is too incomplete for a case: {why} be replayed", hint="\n".join(lines))


def incompleteness(run: TraceRun) -> tuple[str, ...]:
    """Return in lines what an imported run lacks and what would help; empty if it is complete."""
    if run.origin.kind != "imported":
        return ()
    report = replayability(run)
    lines = []
    if run.input is None:
        lines.append("The trace does not say what the run was given: write it into `scenario.input`.")
    if leaves_out_answer(run):
        lines.append("The trace does not say what the run answered: `observed` says nothing of it.")
    if report.lacking:
        lines += (f"{report.summary[0].upper()}{report.summary[1:]}.", *_calls(report), *report.advice)
    return tuple(lines)


def _calls(report: Replayability, only: set[int] | None = None) -> Iterator[str]:
    lacking_calls = [lacking for lacking in report.lacking if only is None or lacking.seq in only]
    yield from map(_line, lacking_calls[:_SHOWN])
    if len(lacking_calls) > _SHOWN:
        yield f"and {len(lacking_calls) - _SHOWN} more calls"


def _line(lacking: Lacking) -> str:
    words = {Lack.CUT: "a value is cut", Lack.HIDDEN: "a value is hidden"}
    ordered = sorted(lacking.lacks, key=lambda lack: lack in words)
    parts = [words.get(lack, f"no {lack.value}") for lack in ordered]
    return f"{lacking.name or 'a model'} (event {lacking.seq}): {', '.join(parts)}"


MAX_TEXT_BYTES = 8 * 1024 * 1024
"""Larger traces are not kept in a case: the run log holds what matters."""
_NAMED = 5


class Picked(Struct, frozen=True, kw_only=True):
    """A run, and where it comes from."""

    run: TraceRun
    notes: tuple[str, ...] = ()
    text: bytes | None = None
    """The trace, if a case can keep it: uncompressed text that holds only this run."""
    format: str | None = None
    is_only: bool = True
    """False if the file holds several runs."""


def pick_run(source: Source, format: str | None, select: str | None) -> Picked:
    """Return the run of this id or id prefix, `last`, `last-failed`, or the only one; raise `UsageError` otherwise."""
    importer = importer_of(source, format)
    seen = _SeenRuns(source.file, select)
    for item in read_with(importer, source):
        seen.add(item)
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
    # Text that cannot be read or redacted must not be committed.
    is_plain = isinstance(source, FileSource) and not source.is_packed and source.is_text
    return is_plain and len(source.text) <= MAX_TEXT_BYTES


class _SeenRuns:
    """The runs seen so far; only the candidates for the choice are held."""

    def __init__(self, file: str, select: str | None) -> None:
        self.count = 0
        self._file = file
        self._select = select
        self._exact: TraceRun | None = None
        # The first run whose id has the given prefix; any run if there is no prefix.
        self._begins: TraceRun | None = None
        self._alike: list[str] = []
        # The newest matching run, for `last` and `last-failed`.
        self._newest: TraceRun | None = None
        self._ids: list[str] = []
        self._failed: list[str] = []
        self._problems: list[InvalidFile] = []
        self._notes: list[str] = []

    @property
    def is_settled(self) -> bool:
        """True if no later run can change the choice, or whether there are several runs."""
        return self._exact is not None and self.count > 1

    def add(self, item: Found) -> None:
        if isinstance(item, InvalidFile):
            self._problems.append(item)
        elif isinstance(item, str):
            self._notes.append(item)
        else:
            self._add_run(item)

    def _add_run(self, run: TraceRun) -> None:
        self.count += 1
        _note_id(self._ids, run)
        is_failed = run.status in (RunStatus.ERROR, RunStatus.TIMEOUT)
        if is_failed:
            _note_id(self._failed, run)
        if self._select == LAST or (self._select == LAST_FAILED and is_failed):
            self._newest = max(run, self._newest or run, key=lambda one: one.started_at or 0)
        if run.id == self._select:
            self._exact = self._exact or run
        elif run.id.startswith(self._select or ""):
            self._begins = self._begins or run
            _note_id(self._alike, run)

    def chosen(self, source: Source) -> TraceRun:
        if not self.count:
            raise no_run_error(source, self._problems, self._notes)
        if self._exact is not None:
            return self._exact
        if self._newest is not None:
            return self._newest
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
        for text in shorten_notes([problem.message for problem in self._problems]):
            yield f"left out: {text}"
        yield from shorten_notes(self._notes)

    def _likely_runs(self) -> str:
        """List the failed runs, if there are any: one of them is probably meant."""
        if self._failed and self.count > _NAMED:
            return f"{_listed(self._failed, len(self._failed) + 1)} (failed)"
        return _listed(self._ids, self.count)


def _note_id(ids: list[str], run: TraceRun) -> None:
    if len(ids) < _NAMED:
        ids.append(run.id)


def _listed(ids: list[str], count: int) -> str:
    return ", ".join(ids) + (" …" if count > len(ids) else "")
