"""Which recording or replay a shim takes part in: the one that is under way, or one of its own."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from replaykit.checks.verdict import LEFT_THE_TAPE, SPOILT
from replaykit.errors import UsageError
from replaykit.mcp.backstage import Backstage
from replaykit.mcp.calls import is_asked_for
from replaykit.model.events import Call
from replaykit.model.matching import MatchMode, ToolMode
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.programs.merge import all_deviations, parts_of, put_together
from replaykit.programs.naming import address_behind
from replaykit.programs.part import SHIM, Part, is_of_server, numbered, own_calls, segment
from replaykit.programs.plan import INJECTED, RECORDING, SESSION, Mode, Plan, read_plan
from replaykit.programs.staging import PROXY_ADDRESS
from replaykit.programs.start import ALONE
from replaykit.recording.run import new_run_id
from replaykit.replayer.world import World
from replaykit.seam.failures import status_of
from replaykit.seam.scope import Session
from replaykit.store.sqlite import SQLiteStore

_LAUNCHERS = re.compile(
    r"(?:python|pypy|node|deno|bun|ruby|java)[\d.]*|npx|pnpx|bunx|uvx|uv|pipx|npm|run|exec|x|tool|cmd"
)
_MORE_OFTEN = 3  # a server may be started so many times more than it was
CONFIGS = "REPLAYKIT_MCP_CONFIG"
"""Tells a program where the configurations are that it is to use."""
_UNUSUAL = re.compile(r"[^\w.@-]+")


class Joined:
    """A shim's share of a recording or a replay."""

    def __init__(self, session: Session, plan: Plan, backstage: Backstage, *, has_server: bool) -> None:
        self.session = session
        self.plan = plan
        self.backstage = backstage
        self.has_server = has_server
        """True when the real server is asked."""
        self.status = RunStatus.SUCCESS
        """How it ended."""
        self.run_id = ""
        """Of a run of its own, once it has ended."""
        self.deviations: list[Deviation] = []
        """Where a replay of its own left the recording, once it has ended."""

    def left_the_tape(self) -> list[Deviation]:
        """Deviations after which the client was in another world than the recorded one."""
        return [told for told in self.deviations if told.kind in LEFT_THE_TAPE | SPOILT]


def outside(environment: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """The environment of a server: it is a part of the world, so it is as if nobody recorded anything."""
    kept = {
        name: address_behind(value, plan.proxy, plan.upstreams)
        for name, value in environment.items()
        if name not in (SESSION, RECORDING, PROXY_ADDRESS, CONFIGS, ALONE)
    }
    if "PYTHONPATH" in kept:
        paths = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != str(INJECTED))
    return kept


def server_name(command: list[str]) -> str:
    """What to call a server that nobody named: the first word of its command that is no launcher and no option."""
    words = [word.replace("\\", "/").rpartition("/")[2] for word in command if word[:1] != "-"]
    words = [re.sub(r"\.(?:py|js|mjs|cjs|ts|exe|sh|rb|jar)$", "", word) for word in words if word]
    named = (word for word in words if not _LAUNCHERS.fullmatch(word))
    return next(named, words[0] if words else "server")


@contextmanager
def joined(name: str, directory: Path | None = None) -> Iterator[Joined]:
    """Take part in the recording or replay whose directory this is, or the environment names."""
    plan, world = read_plan(directory)
    with _part(name, plan, world, numbered(part_name(name))) as own:
        yield own


@contextmanager
def alone(name: str, store: Path, *, replay: str | None = None) -> Iterator[Joined]:
    """A run of its own in a store; with `replay`, served from what that run says of the server."""
    world = None if replay is None else _world(name, store, replay)
    origin = Origin() if world is None else Origin(kind="replayed", run=world.run_id)
    mode = Mode.RECORD if world is None else Mode.REPLAY
    plan = Plan(mode=mode, run_id=new_run_id(), store=str(store.absolute()))
    header = RunHeader(id=plan.run_id, name=f"MCP {name}", started_at=time.time(), origin=origin)
    own: Joined | None = None
    try:
        with _part(name, plan, world, iter([_instance(name)])) as own:
            yield own
    finally:
        if own is not None:
            ended = msgspec.structs.replace(header, status=own.status, ended_at=time.time())
            own.deviations = _put_away(store, ended, world)
            own.run_id = plan.run_id


def asks_servers(plan: Plan, world: World | None) -> bool:
    """True when the real servers are asked: in a recording, and in a live world, of which there is no recording."""
    if plan.mode is Mode.RECORD or world is None:
        return plan.mode is Mode.RECORD
    return world.tools.get("*") is ToolMode.LIVE and not any(map(is_of_server, world.calls))


def part_name(name: str) -> str:
    """What the parts of a server are called."""
    return f"{SHIM}{_UNUSUAL.sub('_', name)}"


@contextmanager
def _part(name: str, plan: Plan, world: World | None, names: Iterator[str]) -> Iterator[Joined]:
    world = None if world is None else _with_siblings(world, name)
    part = Part(plan, None if world is None else asked_for(world, [name]), names)
    recorded = () if world is None else own_calls(world, part.name)
    backstage = Backstage(name, recorded, part.tell)
    own = Joined(part.session, plan, backstage, has_server=asks_servers(plan, world))
    try:
        yield own
    except BaseException as error:
        own.status = RunStatus.CANCELLED if isinstance(error, SystemExit) else status_of(error)
        raise
    finally:
        part.end(own.status)


def _put_away(store: Path, header: RunHeader, world: World | None) -> list[Deviation]:
    """Make a run of the one part; gives where it left the tape."""
    with SQLiteStore.open(store) as opened:
        parts = parts_of(opened, header.id)
        run = put_together(opened, header)
        if world is None:
            return []
        told = all_deviations(parts, run, world)
        metadata = raw({"deviations": msgspec.to_builtins(told)})  # they quote what the client said
        opened.replace([opened.cleaned(msgspec.structs.replace(run, metadata_json=metadata))])
    return told


def _world(name: str, store: Path, run_id: str) -> World:
    """What a recorded run says of one server, as if it all had come from one shim."""
    with SQLiteStore.open(store, read_only=True) as opened:
        run = opened.load(run_id)
    place = segment(_instance(name))
    calls = tuple(msgspec.structs.replace(call, path=place) for call in run.calls if _is_about(call, name))
    if not calls:
        known = sorted(_servers(run))
        raise UsageError(
            f"run {run.id} says nothing of an MCP server {name!r}",
            hint=f"It knows: {', '.join(known)}. Choose with --name." if known else "It was recorded without MCP.",
        )
    return World(case_id=run.name or run.id, calls=calls, run_id=run.id)  # type: ignore[arg-type]


def asked_for(world: World, names: Collection[str]) -> World:
    """The world without what nobody asks these servers for: that is given along with the answers."""
    calls = (
        call for call in world.calls if not isinstance(call, Call) or all(is_asked_for(name, call) for name in names)
    )
    return msgspec.structs.replace(world, calls=tuple(calls))


def _with_siblings(world: World, name: str) -> World:
    """The world in which each process of a server knows what the others of its name were asked: which one is started
    first is a matter of chance. What it was asked itself is found first."""
    if world.rules.mode is MatchMode.STRICT:
        return world
    begins = re.compile(rf"/!{re.escape(part_name(name))}#(\d+)(?=/|$)")
    placed = [(int(found[1]), call) for call in world.calls if (found := begins.match(call.path))]
    others = [
        msgspec.structs.replace(call, path=f"{segment(f'{part_name(name)}#{number}')}/~{call.path.removeprefix('/!')}")
        for number in range(max((place for place, _ in placed), default=-1) + 1 + _MORE_OFTEN)
        for place, call in placed
        if place != number
    ]
    return msgspec.structs.replace(world, calls=(*world.calls, *others))


def _is_about(call: Call, name: str) -> bool:
    return call.name.startswith((f"MCP {name} ", f"{name}."))


def _servers(run: TraceRun) -> set[str]:
    return {call.name.split(" ")[1] for call in run.calls if call.name.startswith("MCP ") and call.name.count(" ") >= 2}


def _instance(name: str) -> str:
    return f"{part_name(name)}#0"
