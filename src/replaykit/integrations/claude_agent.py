"""Claude Agent SDK: tools of this process through the seam, and other MCP servers behind the shim.

    with servers({"shop": create_sdk_mcp_server("shop", tools=tools([charge])), "files": {"command": …}}) as entries:
        options = ClaudeAgentOptions(mcp_servers=entries, …)

The SDK drives a program that asks the model and runs its own tools. No hook can answer in place of a tool, so the
handlers are wrapped. To record the program's own work, record it as a whole: `replaykit record -- CMD`.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson

from replaykit.errors import ReplayKitError
from replaykit.integrations.wrapping import effect_of
from replaykit.seam.framework_tools import acall_tool

_SESSION = "REPLAYKIT_SESSION"
_ALONE = {"REPLAYKIT_ALONE": "1"}  # keeps the shim, a Python process, from being recorded as part of the program
_EXIT_TIMEOUT_S = 10


def tools(framework_tools: Iterable[Any], *, effects: Mapping[str, str] | None = None) -> list[Any]:
    """Wrap each tool; `effects` maps tool names to what their calls do to the world."""
    return [wrap(tool, effects=effects) for tool in framework_tools]


def wrap(tool: Any, *, effects: Mapping[str, str] | None = None) -> Any:
    """Return a copy of a tool made with the SDK's `@tool`, whose calls are recorded and served."""
    effect, live = effect_of(tool.name, effects), tool.handler

    async def handler(arguments: Any) -> Any:
        return await acall_tool(tool.name, arguments, live, fn=live, effects=effect)

    return dataclasses.replace(tool, handler=handler)


@contextmanager
def servers(entries: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the `mcp_servers` for the options, with the MCP shim in front of each server outside this process.

    Outside of a recorded or replayed program the servers stay unchanged.
    """
    session = os.environ.get(_SESSION)
    if not session:
        yield dict(entries)
        return
    with ExitStack() as started:
        yield {name: _behind_shim(name, entry, session, started) for name, entry in entries.items()}


def _behind_shim(name: str, entry: Any, session: str, started: ExitStack) -> Any:
    # -P: a file in the server's working directory must not shadow a module.
    shim = ["-P", "-m", "replaykit", "mcp", f"--name={name}", f"--session={session}"]
    if entry.get("command"):
        arguments = [*shim, "--", entry["command"], *entry.get("args", ())]
        return {**entry, "command": sys.executable, "args": arguments, "env": {**entry.get("env", {}), **_ALONE}}
    if entry.get("url"):
        command = [sys.executable, *shim, f"--http={entry['url']}", "--json"]
        return {**entry, "url": started.enter_context(_running_http_shim(name, command))}
    return entry


@contextmanager
def _running_http_shim(name: str, command: list[str]) -> Iterator[str]:
    """Run the shim of an HTTP server for the length of the block; give the URL to use."""
    with subprocess.Popen(command, env={**os.environ, **_ALONE}, stdout=subprocess.PIPE) as shim:
        try:
            output = shim.stdout.readline() if shim.stdout else b""
            if not output:
                raise ReplayKitError(
                    f"the shim of the MCP server {name!r} did not start; it says why on standard error"
                )
            yield orjson.loads(output)["url"]
        finally:
            shim.terminate()
            shim.wait(_EXIT_TIMEOUT_S)
