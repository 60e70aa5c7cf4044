"""Options of a launch, and what another protocol adds to it, such as the MCP servers in a configuration file.

An extension is made of plain values and callables: the packages that know the protocol are above this one. Everything
that takes long to import is named for type checkers alone, since the command line imports this module at every start.
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
"""Ends the name of a file that another one has taken the place of; see `swapping`."""


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """The options with which a program is launched."""

    proxy: bool = True
    inject: bool = True
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, by name."""
    speed: float = 0.0
    """The pace of a replay; see `Session.speed`."""
    extension: MakeLaunchExtension | None = None
    """Makes what else is put there."""
    swapped: tuple[Path, ...] = ()
    """Files that another one takes the place of while the program runs."""
    facts: JsonObject = {}
    """Facts that a recording notes in the header of its run."""


SendRequest: TypeAlias = "Callable[[str, URL, Sequence[tuple[str, str]], bytes], Awaitable[UpstreamResponse]]"
"""Does a request for real, as `Upstreams.ask`: its method, address, headers and body."""


class Endpoint(Protocol):
    """Answers for one upstream of the proxy in its own way."""

    async def answer(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """The response to a request; `url` is the address behind the proxy."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


MakeEndpoints: TypeAlias = "Callable[[ProcessLog, SendRequest], Mapping[str, Endpoint]]"
"""Endpoints by the names of their upstreams, for the proxy's part and its way to the world."""


class LaunchExtension(Struct, frozen=True, kw_only=True):
    """The files, variables, upstreams and endpoints that are added to a launch."""

    files: dict[Path, Path] = {}
    """Files of the user, and what the program is given in their place."""
    in_place: bool = False
    """The program looks for them where they are: they are swapped while it runs."""
    variables: dict[str, str] = {}
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, for which `endpoints` answer."""
    endpoints: MakeEndpoints | None = None
    world: World | None = None
    """The world that the proxy serves from, if it differs from the program's."""


MakeLaunchExtension: TypeAlias = "Callable[[ProgramPlan, World | None, Path], LaunchExtension]"
"""Make an extension for a plan whose proxy is known; its files go below the session's directory."""


def replace_in_command(command: Sequence[str], files: Mapping[Path, Path]) -> list[str]:
    """The command with its files exchanged, where a word is the path of one or ends in `=` and the path."""
    return [_with_replacement(word, files) for word in command]


def replace_in_environment(environment: Mapping[str, str], files: Mapping[Path, Path]) -> dict[str, str]:
    """The variables whose value is the path of such a file, with the other one's."""
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
    """The file that stands in for the one that a word names."""
    if not word or "\0" in word or not files:
        return None
    for file, other in files.items():
        # Most words are told apart by their last part, and cost no look at the disk.
        if os.path.basename(word) == file.name:
            with suppress(OSError):
                if os.path.samefile(word, file):
                    return str(other)
    return None
