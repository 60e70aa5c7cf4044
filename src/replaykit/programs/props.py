"""Props: what a protocol of its own puts on the stage, such as the servers that a configuration file names.

Who knows the protocol sits in a room above this one. So all of it comes as plain values and callables.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from replaykit.programs.part import Part
from replaykit.programs.plan import Plan
from replaykit.replayer.world import World

if TYPE_CHECKING:
    from aiohttp import web
    from yarl import URL

    from replaykit.programs.upstreams import Answer

Ask: TypeAlias = "Callable[[str, URL, Sequence[tuple[str, str]], bytes], Awaitable[Answer]]"
"""Does a request for real, as `Upstreams.ask`: its method, address, headers and body."""


class Endpoint(Protocol):
    """Answers for one upstream of the proxy in its own way."""

    async def answer(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """The response to a request; `url` is the address behind the proxy."""
        ...

    def end(self) -> None:
        """Nothing more comes."""
        ...


MakeEndpoints: TypeAlias = Callable[[Part, Ask], Mapping[str, Endpoint]]
"""Endpoints by the names of their upstreams, for the proxy's part and its way to the world."""


class Props(Struct, frozen=True, kw_only=True):
    """What is put there."""

    files: dict[Path, Path] = {}
    """Files of the user, and what the program is given in their place."""
    in_place: bool = False
    """The program looks for them where they are: they are swapped while it runs."""
    variables: dict[str, str] = {}
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, for which `endpoints` answer."""
    endpoints: MakeEndpoints | None = None
    world: World | None = None
    """What the proxy serves from, where that is not all of the world."""


MakeProps: TypeAlias = Callable[[Plan, World | None, Path], Props]
"""Props for a plan that knows its proxy, made below the directory of the session."""


def in_command(command: Sequence[str], files: Mapping[Path, Path]) -> list[str]:
    """The command with its files exchanged, where a word is the path of one or ends in `=` and the path."""
    return [_exchanged(word, files) for word in command]


def in_environment(environment: Mapping[str, str], files: Mapping[Path, Path]) -> dict[str, str]:
    """The variables whose value is the path of such a file, with the other one's."""
    found = {name: _other(value, files) for name, value in environment.items()}
    return {name: value for name, value in found.items() if value is not None}


def _exchanged(word: str, files: Mapping[Path, Path]) -> str:
    option, equals, value = word.partition("=")
    whole, after = _other(word, files), _other(value, files)
    if whole is not None:
        return whole
    return f"{option}{equals}{after}" if after is not None else word


def _other(word: str, files: Mapping[Path, Path]) -> str | None:
    """The file that stands in for the one that a word names."""
    if not word or "\0" in word or not files:
        return None
    named = os.path.basename(word)
    # Most words are told apart by their last part, and cost no look at the disk.
    found = (other for file, other in files.items() if named == file.name and _is_same(word, file))
    return next(map(str, found), None)


def _is_same(word: str, file: Path) -> bool:
    try:
        return os.path.samefile(word, file)
    except OSError:
        return False
