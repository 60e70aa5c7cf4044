"""The stage: what stands around a program while it is recorded or replayed, and how its processes find it.

Both verbs put their programs on this one stage. What else is to hold in a program's processes belongs here when it is
set up from outside (variables, files, servers such as the proxy), and into `start` when it happens inside of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from replaykit.model.events import Call
from replaykit.programs.access import base_address, forward_address, new_token
from replaykit.programs.checking import check_tape
from replaykit.programs.environment import Upstream, pointers, upstreams
from replaykit.programs.keys import keys_for, used_by
from replaykit.programs.naming import UPSTREAM
from replaykit.programs.part import PROXY, is_at_proxy_alone, segment
from replaykit.programs.pinning import held
from replaykit.programs.plan import INJECTED, RECORDING, SESSION, Mode, Plan, write_plan
from replaykit.programs.props import Props, in_command, in_environment
from replaykit.programs.proxy import ServeInside, address_of, open_port, proxying
from replaykit.programs.swapping import swapped
from replaykit.programs.wanted import Staging
from replaykit.replayer.world import World, is_closed
from replaykit.seam.guard import is_loopback

PROXY_ADDRESS = "REPLAYKIT_PROXY"
"""Tells a program where the proxy is, with the credentials for it, should it want to know."""
NETWORK = "REPLAYKIT_NETWORK"
"""Tells the guard in Node which hosts may be reached; see `MatchRules.network`."""

_FORWARD_PROXY = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_PAST_IT = ("no_proxy", "NO_PROXY")
_THIS_MACHINE = "127.0.0.1,localhost,::1"


class Stage(Struct, frozen=True, kw_only=True):
    """A stage that is set."""

    environment: dict[str, str]
    """What the program is to be started with."""
    serve_inside: ServeInside | None = None
    """Lets the proxy serve a program that was started in a sandbox."""
    files: dict[Path, Path] = {}
    ports: tuple[int, ...] = ()
    """Ports of this machine that the program is served on."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command as it is run here: with other files in the place of some."""
        return in_command(words, self.files)


@contextmanager
def staged(
    plan: Plan, world: World | None, directory: Path, staging: Staging, environment: Mapping[str, str] = os.environ
) -> Iterator[Stage]:
    """The stage for the program, which may run inside of the block. The plan is left in the directory."""
    changed = dict(environment)
    ports: tuple[int, ...] = ()
    serve_inside: ServeInside | None = None
    if world is not None:
        check_tape(_calls(world))
    with ExitStack() as stack:
        if staging.proxy:
            found = _upstreams(environment, staging, world)
            port = stack.enter_context(open_port())
            ports = (port.getsockname()[1],)
            plan = msgspec.structs.replace(
                plan,
                proxy=address_of(port),
                token=new_token(),
                upstreams={upstream.name: upstream.base for upstream in found},
            )
            changed |= pointers(found, base_address(plan.proxy, plan.token)) | _past_other_proxies(environment)
            changed[PROXY_ADDRESS] = forward_address(plan.proxy, plan.token)
        props = Props() if staging.props is None else staging.props(plan, world, directory)
        plan = msgspec.structs.replace(
            plan, upstreams={**plan.upstreams, **props.upstreams}, endpoints=tuple(props.upstreams)
        )
        changed |= in_environment(environment, props.files) | props.variables
        if staging.proxy:
            serving = proxying(port, plan, props.world or world, endpoints=props.endpoints, directory=directory)
            serve_inside = stack.enter_context(serving)
        if world is not None:
            changed |= keys_for(_calls(world), environment)
            if plan.proxy and is_closed(world):
                changed |= dict.fromkeys(_FORWARD_PROXY, changed[PROXY_ADDRESS])
                if not _was_asked_for_this_machine(world):
                    changed |= dict.fromkeys(_PAST_IT, _THIS_MACHINE)
                changed["NODE_USE_ENV_PROXY"] = "1"
            if plan.proxy and not world.is_live:
                changed |= {"NODE_OPTIONS": _node_options(environment), NETWORK: ",".join(world.rules.network)}
        # A program whose processes did not record themselves is not served in them either.
        plan = msgspec.structs.replace(plan, in_process=world is None or not is_at_proxy_alone(world))
        if staging.inject:
            changed["PYTHONPATH"] = os.pathsep.join(filter(None, (str(INJECTED), environment.get("PYTHONPATH"))))
        if plan.mode is Mode.RECORD:
            changed[RECORDING] = plan.run_id
        changed |= held(plan.pins)
        changed[SESSION] = str(directory.absolute())
        own = {name: value for name, value in changed.items() if environment.get(name) != value}
        own.pop("PYTHONPATH", None)  # put before whatever a process is given
        write_plan(directory, msgspec.structs.replace(plan, variables=own), world)
        for file, other in props.files.items() if props.in_place else ():
            stack.enter_context(swapped(file, other))
        yield Stage(environment=changed, files=props.files, ports=ports, serve_inside=serve_inside)


def _upstreams(environment: Mapping[str, str], staging: Staging, world: World | None) -> list[Upstream]:
    used = used_by(_calls(world)) if world is not None else []
    return upstreams(environment, staging.upstreams, used)


def _past_other_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """A proxy of the user's own must not be asked for this machine."""
    if not any(environment.get(name) for name in (*_FORWARD_PROXY, "all_proxy", "ALL_PROXY")):
        return {}
    return {name: ",".join(filter(None, (environment.get(name), _THIS_MACHINE))) for name in _PAST_IT}


def _was_asked_for_this_machine(world: World) -> bool:
    """True when the recorded program took the proxy for its forward proxy to servers of this machine. Led past it, the
    program would reach them; its own are reached through the proxy as well."""
    return any(
        call.wire is not None
        and call.wire.status
        and call.path.startswith(segment(PROXY))
        and UPSTREAM not in dict(call.wire.headers)
        and is_loopback(urlsplit(call.wire.url).hostname or "")
        for call in _calls(world)
    )


def _node_options(environment: Mapping[str, str]) -> str:
    """Node loads the guard, before whatever else the user has it load."""
    quoted = str(INJECTED / "guard.cjs").replace("\\", "\\\\").replace('"', '\\"')
    return " ".join(filter(None, (f'--require "{quoted}"', environment.get("NODE_OPTIONS"))))


def _calls(world: World) -> list[Call]:
    return [event for event in world.calls if isinstance(event, Call)]
