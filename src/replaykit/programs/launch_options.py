"""Options of a launch, and extensions for other protocols, such as the MCP servers in a configuration file.

An extension consists of plain values and callables, because the packages that know the protocol are above this one.
Slow imports are for type checkers only: the command line imports this module at every start.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from aiohttp import web
    from yarl import URL

    from replaykit.handlers.replay.world import World
    from replaykit.model.values import JsonObject
    from replaykit.programs.plan import ProgramPlan
    from replaykit.programs.process_log import ProcessLog
    from replaykit.programs.upstream_client import UpstreamResponse


ORIGINAL = ".replaykit-original"
"""The suffix of a file that is swapped for another one; see `file_swap`."""


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """The options for launching a program."""

    proxy: bool = True
    inject: bool = True
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, by name."""
    speed: float = 0.0
    """The pace of a replay; see `RunSession.speed`."""
    extension: MakeLaunchExtension | None = None
    """Makes an extension for another protocol."""
    swapped: tuple[Path, ...] = ()
    """Files that are swapped for others while the program runs."""
    facts: JsonObject = {}
    """Facts for the header of a recorded run."""


SendRequest: TypeAlias = "Callable[[str, URL, Sequence[tuple[str, str]], bytes], Awaitable[UpstreamResponse]]"
"""Sends a request for real, like `UpstreamClient.send`: method, address, headers and body."""


class Endpoint(Protocol):
    """Answers for one upstream of the proxy in its own way."""

    async def answer(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """Answer a request; `url` is the address behind the proxy."""
        ...

    def end(self) -> None:
        """Note that no more requests will come."""
        ...


MakeEndpoints: TypeAlias = "Callable[[ProcessLog, SendRequest], Mapping[str, Endpoint]]"
"""Makes endpoints, by the names of their upstreams, for the proxy's log and its way to the upstreams."""


class LaunchExtension(Struct, frozen=True, kw_only=True):
    """The files, variables, upstreams and endpoints that are added to a launch."""

    files: dict[Path, Path] = {}
    """The user's files, with those that the program gets instead."""
    in_place: bool = False
    """True if the program reads the files in their places, so that they are swapped while it runs."""
    variables: dict[str, str] = {}
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, served by `endpoints`."""
    endpoints: MakeEndpoints | None = None
    world: World | None = None
    """The world that the proxy serves from, if it differs from the program's."""


MakeLaunchExtension: TypeAlias = "Callable[[ProgramPlan, World | None, Path], LaunchExtension]"
"""Makes an extension for a plan that knows its proxy; the files go below the session's directory."""


def replace_in_command(command: Sequence[str], files: Mapping[Path, Path]) -> list[str]:
    """Return the command with replaced files: in words that are a file's path, or end in `=` and the path."""
    return [_with_replacement(word, files) for word in command]


def replace_in_environment(environment: Mapping[str, str], files: Mapping[Path, Path]) -> dict[str, str]:
    """Return the variables whose value is the path of a replaced file, with the new path."""
    replaced = {}
    for name, value in environment.items():
        if (other := _replacement(value, files)) is not None:
            replaced[name] = other
    return replaced


def _with_replacement(word: str, files: Mapping[Path, Path]) -> str:
    if (whole := _replacement(word, files)) is not None:
        return whole
    option, _, value = word.partition("=")
    if (after := _replacement(value, files)) is not None:
        return f"{option}={after}"
    return word


def _replacement(word: str, files: Mapping[Path, Path]) -> str | None:
    """Return the replacement of the file that a word names."""
    if not word or "\0" in word or not files:
        return None
    for file, other in files.items():
        # Comparing the last part first avoids a look at the disk for most words.
        if os.path.basename(word) == file.name:
            with suppress(OSError):
                if os.path.samefile(word, file):
                    return str(other)
    return None
