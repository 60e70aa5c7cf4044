"""The recording or replay that a shim belongs to: the current one, or one of its own."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from replaykit.checks.verdict import LEFT_THE_TAPE, SPOILT
from replaykit.errors import UsageError
from replaykit.handlers.recording.run import new_run_id
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call
from replaykit.model.matching import MatchMode, ToolMode
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, RunHeader, RunStatus
from replaykit.model.values import raw
from replaykit.programs.launcher import PROXY_ADDRESS
from replaykit.programs.mcp.messages import is_client_call
from replaykit.programs.mcp.playback import RecordedServer
from replaykit.programs.merge import all_deviations, load_process_logs, merge_in_store
from replaykit.programs.plan import INJECT_DIRECTORY, RECORDING, SESSION, Mode, ProgramPlan, read_plan
from replaykit.programs.process_log import (
    SHIM,
    ProcessLog,
    calls_of_process,
    is_mcp_event,
    numbered_names,
    path_segment,
)
from replaykit.programs.process_startup import ALONE
from replaykit.programs.proxy_addresses import upstream_address
from replaykit.seam.failures import status_of
from replaykit.seam.scope import RunSession
from replaykit.store.sqlite import SQLiteStore

_LAUNCHERS = re.compile(
    r"(?:python|pypy|node|deno|bun|ruby|java)[\d.]*|npx|pnpx|bunx|uvx|uv|pipx|npm|run|exec|x|tool|cmd"
)
_MORE_OFTEN = 3  # how many more times than recorded a server may be started
CONFIGS = "REPLAYKIT_MCP_CONFIG"
"""Tells a program the paths of its configurations."""
_UNUSUAL = re.compile(r"[^\w.@-]+")


class ShimSession(msgspec.Struct):
    """A shim's share of a recording or replay."""

    session: RunSession
    plan: ProgramPlan
    recorded_server: RecordedServer
    has_server: bool
    """True if the real server is asked."""
    status: RunStatus = RunStatus.SUCCESS
    """Its status at the end."""
    run_id: str = ""
    """The id of its own run, once it has ended."""
    deviations: list[Deviation] = []
    """The deviations of a standalone replay, once it has ended."""

    def left_the_tape(self) -> list[Deviation]:
        """Return the deviations that took the client out of the recorded world."""
        return [deviation for deviation in self.deviations if deviation.kind in LEFT_THE_TAPE | SPOILT]


def server_environment(environment: Mapping[str, str], plan: ProgramPlan) -> dict[str, str]:
    """Return the environment of a server as if nothing were recorded: the server is part of the world."""
    variables = {}
    for name, value in environment.items():
        if name not in (SESSION, RECORDING, PROXY_ADDRESS, CONFIGS, ALONE):
            variables[name] = upstream_address(value, plan.proxy, plan.upstreams)
    if "PYTHONPATH" in variables:
        paths = variables["PYTHONPATH"].split(os.pathsep)
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != str(INJECT_DIRECTORY))
    return variables


def server_name(command: list[str]) -> str:
    """Return a name for a server without one: the first word of its command that is no launcher and no option."""
    first = ""
    for word in command:
        name = word.replace("\\", "/").rpartition("/")[2]
        if not name or word.startswith("-"):
            continue
        name = re.sub(r"\.(?:py|js|mjs|cjs|ts|exe|sh|rb|jar)$", "", name)
        if not _LAUNCHERS.fullmatch(name):
            return name
        first = first or name
    return first or "server"


@contextmanager
def join_session(name: str, directory: Path | None) -> Iterator[ShimSession]:
    """Join the recording or replay in this directory, or in the one that the environment names."""
    plan, world = read_plan(directory)
    with _open_session(name, plan, world, numbered_names(shim_name(name))) as own:
        yield own


@contextmanager
def standalone_session(name: str, store: Path, *, replay: str | None) -> Iterator[ShimSession]:
    """Record a run of its own in a store; with `replay`, serve what that run recorded of the server."""
    world, mode, origin = None, Mode.RECORD, Origin()
    if replay is not None:
        world = _world(name, store, replay)
        mode, origin = Mode.REPLAY, Origin(kind="replayed", run=world.run_id)
    plan = ProgramPlan(mode=mode, run_id=new_run_id(), store=str(store.absolute()))
    header = RunHeader(id=plan.run_id, name=f"MCP {name}", started_at=time.time(), origin=origin)
    own: ShimSession | None = None
    try:
        with _open_session(name, plan, world, iter([_instance(name)])) as own:
            yield own
    finally:
        if own is not None:
            ended = replace(header, status=own.status, ended_at=time.time())
            own.deviations = _store_run(store, ended, world)
            own.run_id = plan.run_id


def asks_servers(plan: ProgramPlan, world: World | None) -> bool:
    """True if the real servers are used: in a recording, and in a live world without recorded MCP calls."""
    if plan.mode is Mode.RECORD or world is None:
        return plan.mode is Mode.RECORD
    return world.tools.get("*") is ToolMode.LIVE and not any(map(is_mcp_event, world.calls))


def shim_name(name: str) -> str:
    """Return the name of the log of a server's shim."""
    return f"{SHIM}{_UNUSUAL.sub('_', name)}"


@contextmanager
def _open_session(name: str, plan: ProgramPlan, world: World | None, names: Iterator[str]) -> Iterator[ShimSession]:
    world = None if world is None else _with_siblings(world, name)
    process_log = ProcessLog.open(plan, None if world is None else client_calls_only(world, [name]), names)
    recorded = () if world is None else calls_of_process(world, process_log.name)
    recorded_server = RecordedServer(name, recorded, process_log.add_deviation)
    own = ShimSession(process_log.session, plan, recorded_server, asks_servers(plan, world))
    try:
        yield own
    except BaseException as error:
        own.status = RunStatus.CANCELLED if isinstance(error, SystemExit) else status_of(error)
        raise
    finally:
        process_log.end(own.status)


def _store_run(store: Path, header: RunHeader, world: World | None) -> list[Deviation]:
    """Merge the one process log into a run; return its deviations from the tape."""
    with SQLiteStore.open(store) as opened:
        logs = load_process_logs(opened, header.id)
        run = merge_in_store(opened, header)
        if world is None:
            return []
        deviations = all_deviations(logs, run, world)
        metadata = raw({"deviations": msgspec.to_builtins(deviations)})  # redacted below: they quote the client
        opened.replace([opened.cleaned(replace(run, metadata_json=metadata))])
    return deviations


def _world(name: str, store: Path, run_id: str) -> World:
    """Return a world of the calls that a run recorded of one server, as if a single shim had recorded them."""
    with SQLiteStore.open(store, read_only=True) as opened:
        run = opened.load(run_id)
    place = path_segment(_instance(name))
    calls: list[Call] = []
    known: set[str] = set()
    for call in run.calls:
        if call.name.startswith((f"MCP {name} ", f"{name}.")):
            calls.append(replace(call, path=place))
        elif call.name.startswith("MCP ") and call.name.count(" ") >= 2:
            known.add(call.name.split(" ")[1])
    if not calls:
        raise UsageError(
            f"run {run.id} says nothing of an MCP server {name!r}",
            hint=f"It knows: {', '.join(sorted(known))}. Choose with --name."
            if known
            else "It was recorded without MCP.",
        )
    return World(case_id=run.name or run.id, calls=tuple(calls), run_id=run.id)  # type: ignore[arg-type]


def client_calls_only(world: World, names: Collection[str]) -> World:
    """Return the world without messages of the server's own, which are sent along with the answers."""
    calls = []
    for event in world.calls:
        if not isinstance(event, Call) or all(is_client_call(name, event) for name in names):
            calls.append(event)
    return replace(world, calls=tuple(calls))


def _with_siblings(world: World, name: str) -> World:
    """Return a world in which each process of a server also knows the calls of the others, after its own. Chance
    decides which of them starts first."""
    if world.rules.mode is MatchMode.STRICT:
        return world
    begins = re.compile(rf"/!{re.escape(shim_name(name))}#(\d+)(?=/|$)")
    placed = [(int(match[1]), call) for call in world.calls if (match := begins.match(call.path))]
    processes = max((place for place, _ in placed), default=-1) + 1 + _MORE_OFTEN
    calls = list(world.calls)
    for number in range(processes):
        own = path_segment(f"{shim_name(name)}#{number}")
        for place, call in placed:
            if place != number:
                path = f"{own}/~{call.path.removeprefix('/!')}"
                calls.append(replace(call, path=path))
    return replace(world, calls=tuple(calls))


def _instance(name: str) -> str:
    return f"{shim_name(name)}#0"
