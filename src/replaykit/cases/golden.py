"""Golden traces: a recorded run as a regression test, in one readable, diffable file.

    fixtures/golden_traces/weather.golden.json
      {"replaykit": 1,
       "golden": {"name": "weather", "agent": "weather", "asserts": ["calls", "states", "outcome"], "ignore": []},
       "run": …}

`run` is the run log. `agent` is a name that the user's configuration maps to a function: no file can cause an import.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import orjson
from msgspec import Struct

from replaykit.documents.document import FilePath
from replaykit.documents.slug import slug
from replaykit.errors import FormatTooNew, ReplayKitError, Unreplayable, UsageError, nearest
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.run_log import read_run_log
from replaykit.handlers.recording.agents import root_name
from replaykit.handlers.replay.tape import Matcher, Tape
from replaykit.model.changes import StateFold
from replaykit.model.events import State
from replaykit.model.json_positions import DocumentPath, line_of
from replaykit.model.jsonpath import parse_path
from replaykit.model.run import RUN_FORMAT, RunStatus, TraceRun
from replaykit.model.struct_flaws import refused_part
from replaykit.model.values import encode_pretty
from replaykit.redaction.files import file_redactor, write_clean, writing

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

SUFFIX = ".golden.json"
"""The suffix of golden traces."""


class Aspect(StrEnum):
    """An aspect of a run that a golden trace asserts."""

    CALLS = "calls"  # the tools and models the agent calls: names, arguments, order
    STATES = "states"  # the state after each step
    OUTCOME = "outcome"  # status, output and error


class Golden(Struct, frozen=True, kw_only=True):
    """A run that must come out again as recorded."""

    name: str
    agent: str
    """The name of the run's agent; the configuration maps it to a function."""
    asserts: tuple[Aspect, ...] = tuple(Aspect)
    ignore: tuple[str, ...] = ()
    """JSON paths of volatile members in arguments, states and output."""
    run: TraceRun


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    agent: str
    asserts: tuple[Aspect, ...]
    ignore: tuple[str, ...] = ()


class _File(Struct, frozen=True, kw_only=True):
    replaykit: int
    golden: _Section
    run: TraceRun


def golden_of(run: TraceRun, *, name: str | None = None, ignore: Sequence[str] = ()) -> Golden:
    """Turn a run into a golden trace; raise an error if it can never come out again."""
    if run.status is RunStatus.RUNNING:
        raise UsageError(f"run {run.id} has not ended: its status is running", hint="See the others: replaykit runs")
    _refuse_unanswerable(run)
    for path in ignore:
        _refuse_bad_path(path)
    chosen = name or run.name or run.id
    error = run.error and msgspec.structs.replace(run.error, traceback=None)  # a traceback has paths of one machine
    return Golden(
        name=chosen,
        agent=root_name(run) or run.agent or chosen,
        ignore=tuple(ignore),
        run=msgspec.structs.replace(run, error=error),
    )


def golden_file(directory: Path, name: str) -> Path:
    """Return the path of a golden trace, by its name."""
    return directory / f"{slug('tool_call', name)}{SUFFIX}"


def encode_golden(golden: Golden) -> bytes:
    """Return the text of the file, which reads back as the same golden trace."""
    section = _Section(name=golden.name, agent=golden.agent, asserts=golden.asserts, ignore=golden.ignore)
    return encode_pretty(_File(replaykit=RUN_FORMAT, golden=section, run=golden.run))


def redacted_golden(golden: Golden, redactor: Redactor | None) -> Golden:
    """Return the golden trace in redacted form."""
    if redactor is None:
        return golden
    from replaykit.redaction.events import Door  # noqa: PLC0415 (only if redaction is on)

    return msgspec.structs.replace(golden, run=Door(redactor).run(golden.run))


def refuse_taken(file: Path) -> None:
    """Raise `UsageError` if the file exists."""
    if os.path.lexists(file):
        hint = "Give it another name with --name, or replace it with --force"
        raise UsageError(f"{file} already exists", hint=hint)


def write_golden(file: Path, golden: Golden) -> None:
    """Write the file atomically and redacted."""
    redactor = file_redactor()
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_clean(file, encode_golden(redacted_golden(golden, redactor)), redactor, fail_closed=True)


def read_golden(path: FilePath) -> Golden:
    """Read a golden trace; an `InvalidFile` names the flaw and its line."""
    source = read_source(path)
    _check_form(source)
    section = _read_section(source)
    run = read_run_log(source)
    _check_run(source, run)
    return Golden(
        name=section.name,
        agent=section.agent,
        asserts=tuple(dict.fromkeys(section.asserts)),
        ignore=section.ignore,
        run=run,
    )


def _refuse_unanswerable(run: TraceRun) -> None:
    for call in run.calls:
        if call.error is not None and call.error.module == ReplayKitError.__module__:
            raise Unreplayable(
                f"call {call.seq} of run {run.id}, `{call.name}`, was stopped by ReplayKit and never answered",
                hint="Make a golden trace of a run that nothing stopped.",
            )
    matcher = Matcher(Tape.of(run))
    for index, why in matcher.unanswerable.items():
        if not matcher.inner[index]:
            call = matcher.calls[index]
            raise Unreplayable(
                f"call {call.seq} of run {run.id}, `{call.name}`, cannot be answered from the recording: {why}",
                hint="Return plain data, a dataclass or a pydantic model from the tool, and record it again.",
            )


def _refuse_bad_path(path: str) -> None:
    try:
        parse_path(path)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _check_form(source: Source) -> None:
    document = source.value
    if not isinstance(document, dict):
        raise source.error("not a golden trace: expected an object with `replaykit`, `golden` and `run`")
    version = document.get("replaykit")
    if type(version) is not int or version < 1:
        raise source.error(f"expected a version: `replaykit: {RUN_FORMAT}`", ("replaykit",))
    if version > RUN_FORMAT:
        raise FormatTooNew(
            f"{source.file}:{line_of(source.text, ('replaykit',))}: a golden trace of version {version}; "
            f"this ReplayKit reads up to {RUN_FORMAT}"
        )
    known = _File.__struct_fields__
    for key in document:
        if key not in known:
            raise source.error(f"unknown key {key[:40]!r}; {nearest(key[:40], known)}", (key,))
    for key in known:
        if key not in document:
            raise source.error(f"{key!r} is missing")
    _check_values(source)


def _check_values(source: Source) -> None:
    """Parse the whole document once, so that later parts need no checks for syntax and nesting."""
    try:
        orjson.dumps(orjson.loads(source.text))
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error.msg}") from None
    except TypeError:  # orjson reads deeper nesting than it writes
        raise source.error("nested too deeply") from None


def _read_section(source: Source) -> _Section:
    try:
        section = msgspec.convert(source.value["golden"], _Section)
    except msgspec.ValidationError:
        raise _wrong_section(source) from None
    for key in ("name", "agent", "asserts"):
        if not getattr(section, key):
            raise source.error(f"golden.{key} is empty", ("golden", key))
    for index, path in enumerate(section.ignore):
        try:
            parse_path(path)
        except ValueError as error:
            raise source.error(f"golden.ignore: {error}", ("golden", "ignore", index)) from None
    return section


def _wrong_section(source: Source) -> ReplayKitError:
    """Return an error about the wrong part, with its line and the nearest spelling."""
    part = refused_part(msgspec.json.encode(source.value["golden"]), _Section)
    path: DocumentPath = ("golden", *part.path)
    place = ".".join(map(str, path))
    reason = part.reason
    if part.unknown_key is not None:
        reason = part.unknown_key_reason
        path = (*path, part.unknown_key)
    elif part.missing_key is not None:
        reason = f"{part.missing_key!r} is missing"
    elif part.declared is Aspect and isinstance(part.value, str):
        reason = f"unknown word {part.value[:40]!r}; {nearest(part.value[:40], map(str, Aspect))}"
    return source.error(f"{place}: {reason}", path)


def _check_run(source: Source, run: TraceRun) -> None:
    """Refuse a run that has not ended, or whose states do not fold."""
    if run.status is RunStatus.RUNNING:
        raise source.error("the run has not ended: its status is running", ("run", "status"))
    fold = StateFold()
    for place, event in enumerate(run.events):
        if isinstance(event, State):
            try:
                fold.apply(event)
            except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
                problem = f"the state of event {event.seq} does not follow from the one before: {error}"
                raise source.error(problem, ("run", "events", place)) from None
    try:
        orjson.loads(fold.text)
    except orjson.JSONDecodeError:
        raise source.error("the changes of the state do not add up to one", ("run", "events")) from None
