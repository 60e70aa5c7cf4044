"""A command: how to run it, its name, its words without secrets, and the outcome of its run.

The status, error and output of a run follow from the program's exit code, its output and its events.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Sequence

import msgspec

from replaykit.model.events import ErrorEvent, ErrorInfo
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, Raw, raw, sayable
from replaykit.wire.json_fields import without_nulls

MAX_OUTPUT = 256 * 1024
"""The bytes at the end of a program's output that are stored; the answer is usually there."""

_INTERRUPTED = 128 + signal.SIGINT
_UNCAUGHT = 1  # Python's exit code after an uncaught exception
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def finished_run(run: TraceRun, code: int, printed: bytes, *, at: float, interrupted: bool = False) -> TraceRun:
    """Return the finished run. `code` is negative for a signal; `interrupted`: the user asked the program to end."""
    status = _status(code, interrupted=interrupted)
    return msgspec.structs.replace(
        run,
        status=status,
        error=_error(run, code) if status is RunStatus.ERROR else None,
        output_json=_output(run, printed),
        ended_at=at,
    )


def shell_code(code: int) -> int:
    """Return an exit code as shells report it: 128 plus the number of a signal."""
    if code >= 0:
        return code
    return 128 - code


def describe_exit(code: int) -> str:
    """Return `exit code 3` or `signal 9`."""
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
    """Return the exception that ended the program's own process, or else the exit code."""
    errors = [event.error for event in run.events if isinstance(event, ErrorEvent) and not event.path]
    if code == _UNCAUGHT and errors:
        return errors[-1]
    return ErrorInfo(type="ExitCode", message=f"the program ended with {describe_exit(code)}")


def _output(run: TraceRun, printed: bytes) -> Raw:
    """Return what the program printed or, if nothing, the last text of a model."""
    if output := text_of(printed[-MAX_OUTPUT:]):
        return raw(output)
    for call in reversed(run.llm_calls):
        if isinstance(call.result, dict) and (content := call.result.get("content")):
            return raw(content)
    return ABSENT


def with_program_facts(header: RunHeader, **facts: Json) -> RunHeader:
    """Return the header with these facts about its program; None removes one."""
    program = without_nulls({**header.metadata.get("program", {}), **facts})
    return msgspec.structs.replace(header, metadata_json=raw({**header.metadata, "program": program}))


HIDDEN = "hidden"
_SECRET = r"[\w-]*(?:api[-_]?key|token|secret|password|passwd|credentials?|authorization)"
_OPTION = re.compile(rf"(?i)--?{_SECRET}")
_ASSIGNED = re.compile(rf"(?i)(--?{_SECRET}|{_SECRET})=.+", re.DOTALL)
_VALUE = re.compile(r"(?i)\b(?:sk-|gh[pousr]_|xox[a-z]-|AIza)[\w-]{8,}|(?<=bearer )\S+|(?<=://)[^/@\s]+(?=@)")
_INTERPRETERS = re.compile(r"(?:python|node|bun|deno|ruby|perl|php|bash|sh|zsh|npx|tsx|ts-node|uv|poetry|pipenv)[\d.]*")
_SUBCOMMANDS = frozenset({"run", "exec"})


def name_of_command(command: Sequence[str]) -> str:
    """Return a name for the command's runs: the script's name if an interpreter runs one, else the program's."""
    words = [sayable(word) for word in command]
    while words and (_is_interpreter(words[0]) or words[0].startswith("-") or words[0] in _SUBCOMMANDS):
        if words[0] in ("-c", "-e", "-p", "--eval"):
            break
        if words[0] == "-m" and len(words) > 1:
            return words[1]
        words = words[1:]
    if not words or words[0].startswith("-"):
        return _stem(sayable(command[0]))
    return _stem(words[0])


def clean_command(command: Sequence[str]) -> list[str]:
    """Return the words of the command with secrets hidden: the values of options with such names, and anything that
    looks like a key."""
    cleaned, is_value = [], False
    for word in map(sayable, command):
        if is_value:
            cleaned.append(HIDDEN)
        elif assigned := _ASSIGNED.fullmatch(word):
            cleaned.append(f"{assigned[1]}={HIDDEN}")
        else:
            cleaned.append(_VALUE.sub(HIDDEN, word))
        is_value = _OPTION.fullmatch(word) is not None
    return cleaned


def resolved(command: Sequence[str]) -> list[str]:
    """Replace `python` by this interpreter if the machine has no program of that name."""
    if command[0] in ("python", "python3") and shutil.which(command[0]) is None:
        return [sys.executable, *command[1:]]
    return list(command)


def _is_interpreter(word: str) -> bool:
    return _INTERPRETERS.fullmatch(os.path.basename(word)) is not None


def _stem(word: str) -> str:
    return os.path.splitext(os.path.basename(word))[0] or word
