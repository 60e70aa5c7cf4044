"""Runner output: the JSON file that a candidate writes, read without trusting it.

{"run_id": "run-001", "status": "success", "final_output": "…",
 "tool_calls": [{"tool_name": "lookup", "tool_args": {}, "tool_output": "…"}], "errors": []}
"""

from __future__ import annotations

import itertools
import stat
from codecs import BOM_UTF8
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.shared_arguments import clean_with_runs
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, Message, Note, ToolCall
from replaykit.model.nesting import check_nesting
from replaykit.model.result import Deviation
from replaykit.model.run import RUN_FORMAT, Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, JsonObject, canonical, decode, encode
from replaykit.redaction.files import file_redactor, write_clean

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
CONTRACT = "docs/formats.md#runner-output"


class _ToolCall(Struct):
    tool_name: str
    tool_args: Raw = Raw(b"{}")
    tool_output: Raw = ABSENT
    error: str | JsonObject | None = None


class _Output(Struct):
    """The runner contract."""

    status: str
    run_id: str = ""
    final_output: Json | UnsetType = UNSET
    tool_calls: list[_ToolCall] = []
    errors: list[str | JsonObject] = []


_Fields: TypeAlias = dict[str, Raw]
_SAYS_NOTHING = (b"null", b"false", b'""', b"[]", b"{}")


class _Known(Struct):
    """The field that distinguishes a run log from the contract's own format."""

    replaykit: int | None = None


class _LogOutput(Struct, omit_defaults=True):
    """The output of a candidate that uses ReplayKit's seam: its whole run log."""

    replaykit: int
    run: TraceRun
    deviations: tuple[Deviation, ...] = ()


class _Deviations(Struct, omit_defaults=True):
    """The fields of a run log other than the run."""

    deviations: tuple[Deviation, ...] = ()


def write_log_output(path: Path, run: TraceRun, deviations: Iterable[Deviation]) -> None:
    """Write a run log as the runner's output, redacted, and all or nothing."""
    rest = _Deviations(deviations=tuple(deviations))
    shown, (clean_run,) = clean_with_runs(rest, [run], file_redactor())
    log = _LogOutput(replaykit=RUN_FORMAT, run=clean_run, deviations=shown.deviations)
    write_clean(path, msgspec.json.encode(log), None)


def keep_output(path: Path, evidence: Path) -> None:
    """Copy a runner's output file, if any, to the evidence, redacted before the first byte is written.

    Files above the size limit are not read, so they are not kept either.
    """
    if path.is_file() and path.stat().st_size <= MAX_OUTPUT_BYTES:
        write_clean(evidence, path.read_bytes(), file_redactor())


def read_output(path: Path) -> Attempt:
    """Read the run that a runner wrote. Problems with the file become the reason."""
    try:
        info = path.stat()
        # Reading a FIFO or a device could block forever.
        if not stat.S_ISREG(info.st_mode):
            return Attempt(reason="the runner output cannot be read: it is not a file")
        if info.st_size > MAX_OUTPUT_BYTES:
            return Attempt(
                reason=f"the runner output has {info.st_size:,} bytes; at most {MAX_OUTPUT_BYTES:,} are read"
            )
        text = path.read_bytes()
    except FileNotFoundError:
        return Attempt(reason=f"the runner wrote no output; it must write JSON to $REPLAYKIT_OUTPUT_PATH ({CONTRACT})")
    except OSError as error:
        return Attempt(reason=f"the runner output cannot be read: {error.strerror}")
    return parse_output(text)


def parse_output(text: bytes) -> Attempt:
    """Parse the text of a runner output."""
    text = text.removeprefix(BOM_UTF8)
    try:
        check_nesting(text)
        if msgspec.json.decode(text, type=_Known).replaykit is not None:
            return _log_of(msgspec.json.decode(text, type=_LogOutput))
        run = _run_of(msgspec.json.decode(text, type=_Output))
        _refuse_misspelt(msgspec.json.decode(text, type=_Fields))
        _look_at(run)
        return Attempt(run=run, watched=False)
    except msgspec.ValidationError as error:
        return Attempt(reason=f"the runner output has the wrong shape: {error} ({CONTRACT})")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Attempt(reason=f"the runner output is not JSON: {error}")
    except ValueError as error:
        return Attempt(reason=f"the runner output has the wrong shape: {error} ({CONTRACT})")


def _refuse_misspelt(output: _Fields) -> None:
    """Reject misspelled fields. If they were ignored, uncounted calls would break no rule."""
    for known, fields in ((_Output, output), *((_ToolCall, call) for call in _calls_of(output))):
        names = {_spelt(name): name for name in known.__struct_fields__}
        for name in fields:
            meant = names.get(_spelt(name), name)
            if meant not in fields and bytes(fields[name]) not in _SAYS_NOTHING:
                raise ValueError(f"unknown field {name!r}; did you mean {meant!r}?")


def _calls_of(output: _Fields) -> list[_Fields]:
    return msgspec.json.decode(output.get("tool_calls", b"[]"), type=list[_Fields])


def _spelt(name: str) -> str:
    """Normalize a field name, so that `toolCalls`, `tool-calls` and `tool_call` are the same."""
    return "".join(filter(str.isalnum, name.lower())).removesuffix("s")


def _log_of(log: _LogOutput) -> Attempt:
    if not 1 <= log.replaykit <= RUN_FORMAT:
        return Attempt(reason=f"the runner output is a run log of version {log.replaykit}; this reads {RUN_FORMAT}")
    _look_at(log.run)
    return Attempt(run=log.run, deviations=log.deviations)


def _look_at(run: TraceRun) -> None:
    """Decode every value once, so that an invalid one is reported here and not by a later check."""
    _ = run.input, run.output, run.metadata
    for event in run.events:
        if isinstance(event, Call):
            _ = event.arguments, event.result, event.items
        elif isinstance(event, Message | Decision | Note):
            _ = event.content


def _run_of(output: _Output) -> TraceRun:
    if output.status not in (choices := [s.value for s in RunStatus if s is not RunStatus.RUNNING]):
        raise ValueError(f"`status` is {output.status!r}; it must be one of {', '.join(choices)}")
    events: list[AnyEvent] = list(map(_call, itertools.count(), output.tool_calls))
    errors = list(map(_error, output.errors))
    for error in errors:
        events.append(ErrorEvent(seq=len(events), error=error))
    answered = output.final_output is not UNSET and output.final_output is not None
    return TraceRun(
        id=output.run_id or "runner",
        status=RunStatus(output.status),
        output_json=Raw(encode(output.final_output)) if answered else ABSENT,
        error=errors[-1] if errors and output.status != RunStatus.SUCCESS else None,
        origin=Origin(kind="replayed"),
        events=tuple(events),
        event_count=len(events),
    )


def _call(seq: int, call: _ToolCall) -> ToolCall:
    return ToolCall(
        seq=seq,
        name=call.tool_name,
        arguments_json=Raw(canonical(decode(call.tool_args))),
        result_json=call.tool_output if call.error is None else ABSENT,
        error=None if call.error is None else _error(call.error),
    )


def _error(error: str | JsonObject) -> ErrorInfo:
    if isinstance(error, str):
        return ErrorInfo(type="Error", message=error)
    kind, message = error.get("type", "Error"), error.get("message", error.get("error", ""))
    return ErrorInfo(type=str(kind), message=str(message))
