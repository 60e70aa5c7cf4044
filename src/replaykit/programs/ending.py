"""How a program's run ended: told from its exit code, what it printed, and what its parts hold."""

from __future__ import annotations

import re
import signal

import msgspec

from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, Raw, raw

MAX_OUTPUT = 256 * 1024
"""Of what a program prints, this much is its output: the end, where answers stand."""

_INTERRUPTED = 128 + signal.SIGINT
_UNCAUGHT = 1  # what Python exits with after an exception that nobody caught
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def ended(run: TraceRun, code: int, printed: bytes, *, at: float, interrupted: bool = False) -> TraceRun:
    """The run with its end. `code` is negative for a signal; `interrupted` says that the user wanted it to end."""
    status = _status(code, interrupted=interrupted)
    return msgspec.structs.replace(
        run,
        status=status,
        error=_error(run, code) if status is RunStatus.ERROR else None,
        output_json=_output(run, printed),
        ended_at=at,
    )


def shell_code(code: int) -> int:
    """An exit code as shells tell it: 128 and the number of the signal."""
    return code if code >= 0 else 128 - code


def in_words(code: int) -> str:
    """`exit code 3`, or `signal 9`."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def text_of(printed: bytes) -> str:
    """What a program printed, as text: without colours, with plain ends of lines."""
    return _ESCAPES.sub(b"", printed).decode("utf-8", "replace").replace("\r\n", "\n").strip()


def _status(code: int, *, interrupted: bool) -> RunStatus:
    if code == 0:
        return RunStatus.SUCCESS
    return RunStatus.CANCELLED if interrupted or shell_code(code) == _INTERRUPTED else RunStatus.ERROR


def _error(run: TraceRun, code: int) -> ErrorInfo:
    """The exception that ended the program's own process, or else the exit code."""
    errors = [event.error for event in run.events if isinstance(event, ErrorEvent) and not event.path]
    if code == _UNCAUGHT and errors:
        return errors[-1]
    return ErrorInfo(type="ExitCode", message=f"the program ended with {in_words(code)}")


def _output(run: TraceRun, printed: bytes) -> Raw:
    """What it printed; where it printed nothing, the last thing a model said."""
    said: Json = text_of(printed[-MAX_OUTPUT:]) or next(filter(None, map(_said, reversed(run.llm_calls))), None)
    return ABSENT if said is None else raw(said)


def _said(call: LlmCall) -> Json:
    message = call.result
    return message.get("content") if isinstance(message, dict) else None


def with_facts(header: RunHeader, **facts: Json) -> RunHeader:
    """The header with these facts about its program; None takes one away."""
    known = {**header.metadata.get("program", {}), **facts}
    program = {name: value for name, value in known.items() if value is not None}
    return msgspec.structs.replace(header, metadata_json=raw({**header.metadata, "program": program}))
