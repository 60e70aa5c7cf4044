"""A whole program with its MCP servers: the configuration files that it is given, and who answers for the servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.handlers.replay.world import World
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.programs.file_swap import restore_swapped_file, to_stderr
from replaykit.programs.launch_extension import Endpoint, LaunchExtension, SendRequest
from replaykit.programs.mcp.config import HttpServer, RewrittenConfig, rewrite_config
from replaykit.programs.mcp.shim_session import CONFIGS, asks_servers, client_calls_only
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import ProcessLog, is_mcp_event
from replaykit.programs.proxy_access import base_address

FACT = "mcp"
"""The key of these facts in a run's header."""


class McpConfigs(Struct, frozen=True, kw_only=True):
    """A program's MCP configuration files; called, it makes the launch extension for their servers."""

    files: tuple[Path, ...]
    in_place: bool = False
    """The program looks for them where they are."""
    warn: Callable[[str], None] = to_stderr

    @property
    def facts(self) -> dict[str, Json]:
        """The facts that a recording notes, so that a replay finds the files again."""
        here = self._here()
        elsewhere = len(self.files) - len(here)
        counts = {"elsewhere": elsewhere} if elsewhere else {}
        return {FACT: {"configs": here, **counts, "in_place": self.in_place}}

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options a replay needs; the rest is in the recording."""
        named = tuple(word for file in self.files for word in ("--mcp-config", str(file)))
        if self.in_place:
            return (*named, "--mcp-config-in-place")
        if len(self._here()) == len(self.files):
            return ()
        return named

    def _here(self) -> list[str]:
        """The files below the working directory, by their paths from there."""
        here = os.path.realpath(os.curdir)
        found = [os.path.relpath(os.path.join(os.path.realpath(file.parent), file.name), here) for file in self.files]
        return [Path(file).as_posix() for file in found if not file.startswith(os.pardir)]

    @staticmethod
    def were_asked(run: TraceRun) -> bool:
        """True when any server was spoken to."""
        return any(map(is_mcp_event, run.events))

    def __call__(self, plan: ProgramPlan, world: World | None, directory: Path) -> LaunchExtension:
        """Write the files that the program is given."""
        rewritten = self._rewritten(plan, directory, Mode.RECORD if asks_servers(plan, world) else Mode.REPLAY)
        http = list({server.upstream: server for one in rewritten.values() for server in one.http}.values())
        if http and not plan.proxy:
            raise UsageError(
                f"these MCP servers speak HTTP, and only the proxy can record them: {_names(http)}",
                hint="Leave out --no-proxy.",
            )

        def endpoints(process_log: ProcessLog, ask: SendRequest) -> Mapping[str, Endpoint]:
            from replaykit.programs.mcp.proxy_endpoints import proxied_servers  # noqa: PLC0415 (needs aiohttp)

            return proxied_servers(http, process_log, plan, world, ask)

        return LaunchExtension(
            files={file: one.file for file, one in rewritten.items()},
            in_place=self.in_place,
            variables={CONFIGS: os.pathsep.join(str(one.file) for one in rewritten.values())},
            upstreams={server.upstream: server.address for server in http},
            endpoints=endpoints if http else None,
            world=None if world is None else client_calls_only(world, {server.name for server in http}),
        )

    def _rewritten(self, plan: ProgramPlan, directory: Path, mode: Mode) -> dict[Path, RewrittenConfig]:
        # Names that other upstreams have are taken.
        known = [HttpServer(upstream=name, name="", address="") for name in plan.upstreams]
        rewritten: dict[Path, RewrittenConfig] = {}
        for file in self.files:
            restore_swapped_file(file, self.warn)
            result = rewrite_config(file, directory, mode=mode, proxy=base_address(plan.proxy, plan.token), known=known)
            known += result.http
            rewritten[file] = result
            for name in result.unrewritten:
                self.warn(f"{file}: where {name!r} is cannot be told from its URL; it is not recorded")
        return rewritten


def _names(servers: list[HttpServer]) -> str:
    return ", ".join(repr(server.name) for server in servers)
