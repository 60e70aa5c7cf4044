"""Forks from the page: `replaykit fork` in a process of its own, so that the agent runs as on the command line.

What needs consent stops the fork there as well. The page asks, and sends the request again with the tool's name.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from replaykit.errors import UsageError
from replaykit.model.nesting import decode_json
from replaykit.terminal import visible_lines
from replaykit.viewer.page_types import ForkRequest

_COMMAND = "import json, sys; sys.argv[1:] = json.load(sys.stdin); from replaykit.__main__ import main; main()"
"""`replaykit` with the arguments from standard input: every user of the machine can read those of a process."""
_SHOWN_BYTES = 4000
_VALUES = {
    "result": "--result",
    "answer": "--response",
    "arguments": "--args",
    "state": "--modify",
    "patch": "--patch",
    "input": "--input",
}


class PageForks:
    """Makes the forks that the page asks for, one at a time."""

    def __init__(self, store: Path, agent: str) -> None:
        self._store = store
        self._agent = agent
        self._lock = asyncio.Lock()

    async def fork(self, body: bytes) -> bytes:
        """Fork as a request says; return the result as JSON, or raise `UsageError` if there is none."""
        try:
            body.decode()  # values are decoded later
            request = decode_json(body, ForkRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"the request is no fork: {error}") from None
        if request.run.startswith("-"):
            raise UsageError(f"no run is called {request.run!r}")
        arguments = list(self._arguments(request))
        async with self._lock:
            output, errors = await _run(arguments)
        if output:
            return output
        raise UsageError(visible_lines(errors[-_SHOWN_BYTES:].decode(errors="replace")).strip() or "the fork failed")

    def _arguments(self, request: ForkRequest) -> Iterator[str]:
        yield from ("fork", "--json", f"--store={self._store}", f"--agent={self._agent}", f"--step={request.step}")
        for member, option in _VALUES.items():
            value = getattr(request, member)
            if value:
                yield f"{option}={bytes(value).decode()}"
        if request.error:
            yield f"--error={request.error}"
        if request.tool:
            yield f"--tool={request.tool}"
        if request.attempt:
            yield f"--attempt={request.attempt}"
        yield from (f"--live={name}" for name in request.live)
        yield request.run


async def _run(arguments: list[str]) -> tuple[bytes, bytes]:
    """Run the command, and return its output and errors; end it if nobody waits for it any more."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _COMMAND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        return await process.communicate(msgspec.json.encode(arguments))
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
