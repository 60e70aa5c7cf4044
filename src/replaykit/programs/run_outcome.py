"""The outcome of a program's run: its status, error and output, from its exit code, its output and its events."""

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


def finished_run(run: TraceRun, code: int, printed: bytes, *, at: float, interrupted: bool = False) -> TraceRun:
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
    if code >= 0:
        return code
    return 128 - code


def describe_exit(code: int) -> str:
    """`exit code 3`, or `signal 9`."""
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code}"


def text_of(printed: bytes) -> str:
    """Return a program's output as text, without colours and with plain line ends."""
    return _ESCAPES.sub(b"", printed).decode("utf-8", "replace").replace("\r\n", "\n").strip()


def _status(code: int, *, interrupted: bool) -> RunStatus:
    if code == 0:
        return RunStatus.SUCCESS
    if interrupted or shell_code(code) == _INTERRUPTED:
        return RunStatus.CANCELLED
    return RunStatus.ERROR


def _error(run: TraceRun, code: int) -> ErrorInfo:
    """The exception that ended the program's own process, or else the exit code."""
    errors = [event.error for event in run.events if isinstance(event, ErrorEvent) and not event.path]
    if code == _UNCAUGHT and errors:
        return errors[-1]
    return ErrorInfo(type="ExitCode", message=f"the program ended with {describe_exit(code)}")


def _output(run: TraceRun, printed: bytes) -> Raw:
    """Return what the program printed or, if nothing, the last text of a model."""
    output: Json = text_of(printed[-MAX_OUTPUT:]) or next(
        filter(None, map(_message_content, reversed(run.llm_calls))), None
    )
    if output is None:
        return ABSENT
    return raw(output)


def _message_content(call: LlmCall) -> Json:
    message = call.result
    if isinstance(message, dict):
        return message.get("content")
    return None


def with_program_facts(header: RunHeader, **facts: Json) -> RunHeader:
    """The header with these facts about its program; None takes one away."""
    known = {**header.metadata.get("program", {}), **facts}
    program = {name: value for name, value in known.items() if value is not None}
    return msgspec.structs.replace(header, metadata_json=raw({**header.metadata, "program": program}))
