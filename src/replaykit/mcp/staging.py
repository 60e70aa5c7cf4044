"""A whole program with its MCP servers: the configuration files that it is given, and who answers for the servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.mcp.config import HttpServer, Rewritten, rewrite_config
from replaykit.mcp.joining import CONFIGS, asked_for, asks_servers
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.programs.access import base_address
from replaykit.programs.part import Part, is_of_server
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.props import Ask, Endpoint, Props
from replaykit.programs.swapping import put_back, to_stderr
from replaykit.replayer.world import World

FACT = "mcp"
"""What a run's header calls them among the facts of its program."""


class McpConfigs(Struct, frozen=True, kw_only=True):
    """The configuration files of a program; called, it puts their servers on a stage (`Staging.props`)."""

    files: tuple[Path, ...]
    in_place: bool = False
    """The program looks for them where they are."""
    tell: Callable[[str], None] = to_stderr

    @property
    def facts(self) -> dict[str, Json]:
        """What a recording says of them, so that a replay finds them again."""
        here = self._here()
        elsewhere = len(self.files) - len(here)
        told = {"elsewhere": elsewhere} if elsewhere else {}
        return {FACT: {"configs": here, **told, "in_place": self.in_place}}

    @property
    def options(self) -> tuple[str, ...]:
        """What has to be said again for a replay; the rest is found in the recording."""
        named = tuple(word for file in self.files for word in ("--mcp-config", str(file)))
        if self.in_place:
            return (*named, "--mcp-config-in-place")
        return () if len(self._here()) == len(self.files) else named

    def _here(self) -> list[str]:
        """The files below the working directory, by their paths from there."""
        here = os.path.realpath(os.curdir)
        found = [os.path.relpath(os.path.join(os.path.realpath(file.parent), file.name), here) for file in self.files]
        return [Path(file).as_posix() for file in found if not file.startswith(os.pardir)]

    @staticmethod
    def were_asked(run: TraceRun) -> bool:
        """True when any server was spoken to."""
        return any(map(is_of_server, run.events))

    def __call__(self, plan: Plan, world: World | None, directory: Path) -> Props:
        """Write the files that the program is given."""
        made = self._rewritten(plan, directory, Mode.RECORD if asks_servers(plan, world) else Mode.REPLAY)
        http = list({server.upstream: server for one in made.values() for server in one.http}.values())
        if http and not plan.proxy:
            raise UsageError(
                f"these MCP servers speak HTTP, and only the proxy can record them: {_names(http)}",
                hint="Leave out --no-proxy.",
            )

        def endpoints(part: Part, ask: Ask) -> Mapping[str, Endpoint]:
            from replaykit.mcp.proxied import answering  # noqa: PLC0415 (needs aiohttp)

            return answering(http, part, plan, world, ask)

        return Props(
            files={file: one.file for file, one in made.items()},
            in_place=self.in_place,
            variables={CONFIGS: os.pathsep.join(str(one.file) for one in made.values())},
            upstreams={server.upstream: server.address for server in http},
            endpoints=endpoints if http else None,
            world=None if world is None else asked_for(world, {server.name for server in http}),
        )

    def _rewritten(self, plan: Plan, directory: Path, mode: Mode) -> dict[Path, Rewritten]:
        # Names that other upstreams have are taken.
        known = [HttpServer(upstream=name, name="", address="") for name in plan.upstreams]
        made: dict[Path, Rewritten] = {}
        for file in self.files:
            put_back(file, self.tell)
            done = rewrite_config(file, directory, mode=mode, proxy=base_address(plan.proxy, plan.token), known=known)
            known += done.http
            made[file] = done
            for name in done.left:
                self.tell(f"{file}: where {name!r} is cannot be told from its URL; it is not recorded")
        return made


def _names(servers: list[HttpServer]) -> str:
    return ", ".join(repr(server.name) for server in servers)
