"""The launcher: prepare the environment in which a program is recorded or replayed.

It sets up everything that comes from outside of the program's processes: variables, files, and servers such as the
proxy. `process_startup` does what happens inside them.

A tape is checked before anything starts, because fixtures are files that people edit and share. What cannot be served
is reported now, with its call, rather than in the middle of a replay, and no header can be smuggled into a response.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import Unreplayable
from replaykit.handlers.replay.world import World, is_closed
from replaykit.model.events import Call, WireInfo
from replaykit.model.values import decode
from replaykit.programs.file_swap import swapped_file
from replaykit.programs.launch_options import LaunchExtension, LaunchOptions, replace_in_command, replace_in_environment
from replaykit.programs.plan import (
    INJECT_DIRECTORY,
    RECORDING,
    SESSION,
    Mode,
    ProgramPlan,
    variables_of_pins,
    write_plan,
)
from replaykit.programs.process_log import PROXY, is_recorded_at_proxy_only, path_segment, recorded_calls
from replaykit.programs.proxy import ServeSandbox, address_of, open_port, running_proxy
from replaykit.programs.proxy_addresses import UPSTREAM, base_address, forward_address, new_token
from replaykit.programs.sdk_variables import (
    find_upstreams,
    placeholder_keys,
    proxy_variables,
    recorded_upstreams,
)
from replaykit.seam.sockets import is_loopback

PROXY_ADDRESS = "REPLAYKIT_PROXY"
"""Tells a program the address of the proxy, with the credentials for it."""
NETWORK = "REPLAYKIT_NETWORK"
"""Tells the guard in Node which hosts may be reached; see `MatchRules.network`."""

_FORWARD_PROXY = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_NO_PROXY = ("no_proxy", "NO_PROXY")
_THIS_MACHINE = "127.0.0.1,localhost,::1"


class LaunchEnvironment(Struct, frozen=True, kw_only=True):
    """The environment in which a program is started."""

    environment: dict[str, str]
    """The program's environment variables."""
    serve_inside: ServeSandbox | None = None
    """Lets the proxy serve a program that was started in a sandbox."""
    files: dict[Path, Path] = {}
    ports: tuple[int, ...] = ()
    """Ports of this machine on which the program is served."""

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command with its replaced files."""
        return replace_in_command(words, self.files)


@contextmanager
def launch_environment(
    plan: ProgramPlan,
    world: World | None,
    directory: Path,
    launch_options: LaunchOptions,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[LaunchEnvironment]:
    """Prepare an environment for the length of the block; the plan is written to the directory."""
    changed = dict(environment)
    ports: tuple[int, ...] = ()
    serve_inside: ServeSandbox | None = None
    if world is not None:
        check_tape(recorded_calls(world))
    with ExitStack() as stack:
        if launch_options.proxy:
            used = [] if world is None else recorded_upstreams(recorded_calls(world))
            upstreams = find_upstreams(environment, launch_options.upstreams, used)
            port = stack.enter_context(open_port())
            ports = (port.getsockname()[1],)
            plan = replace(
                plan,
                proxy=address_of(port),
                token=new_token(),
                upstreams={upstream.name: upstream.base for upstream in upstreams},
            )
            changed |= proxy_variables(upstreams, base_address(plan.proxy, plan.token))
            changed |= _bypass_user_proxies(environment)
            changed[PROXY_ADDRESS] = forward_address(plan.proxy, plan.token)
        # The extension comes between the port and the server: its files contain the proxy's address, and the proxy
        # serves its endpoints.
        extension = LaunchExtension()
        if launch_options.extension is not None:
            extension = launch_options.extension(plan, world, directory)
        plan = replace(plan, upstreams={**plan.upstreams, **extension.upstreams}, endpoints=tuple(extension.upstreams))
        changed |= replace_in_environment(environment, extension.files) | extension.variables
        if launch_options.proxy:
            serving = running_proxy(
                port, plan, extension.world or world, endpoints=extension.endpoints, directory=directory
            )
            serve_inside = stack.enter_context(serving)
        if world is not None:
            changed |= _replay_variables(world, environment, forward_address(plan.proxy, plan.token))
        # Processes that did not record themselves are not served inside themselves either.
        plan = replace(plan, in_process=world is None or not is_recorded_at_proxy_only(world))
        if launch_options.inject:
            places = (str(INJECT_DIRECTORY), environment.get("PYTHONPATH"))
            changed["PYTHONPATH"] = os.pathsep.join(filter(None, places))
        if plan.mode is Mode.RECORD:
            changed[RECORDING] = plan.run_id
        changed |= variables_of_pins(plan.pins)
        changed[SESSION] = str(directory.absolute())
        # Processes that are started with a fresh environment get these variables, but none of the user's own.
        own = {name: value for name, value in changed.items() if environment.get(name) != value}
        own.pop("PYTHONPATH", None)  # prepended to whatever a process is given
        write_plan(directory, replace(plan, variables=own), world)
        if extension.in_place:
            for file, other in extension.files.items():
                stack.enter_context(swapped_file(file, other))
        yield LaunchEnvironment(environment=changed, files=extension.files, ports=ports, serve_inside=serve_inside)


def _replay_variables(world: World, environment: Mapping[str, str], proxy: str) -> dict[str, str]:
    """Return variables for a replay: keys for SDKs, and settings that keep the program from the network."""
    variables = placeholder_keys(recorded_calls(world), environment)
    if proxy and is_closed(world):
        variables |= dict.fromkeys(_FORWARD_PROXY, proxy)
        if not _used_proxy_for_loopback(world):
            variables |= dict.fromkeys(_NO_PROXY, _THIS_MACHINE)
        variables["NODE_USE_ENV_PROXY"] = "1"
    if proxy and not world.is_live:
        variables |= {"NODE_OPTIONS": _node_options(environment), NETWORK: ",".join(world.rules.network)}
    return variables


def _bypass_user_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Exclude this machine from the user's own proxies."""
    if not any(environment.get(name) for name in (*_FORWARD_PROXY, "all_proxy", "ALL_PROXY")):
        return {}
    return {name: ",".join(filter(None, (environment.get(name), _THIS_MACHINE))) for name in _NO_PROXY}


def _used_proxy_for_loopback(world: World) -> bool:
    """True if the recorded program used the proxy as a forward proxy even for servers on this machine. If it bypassed
    the proxy, it would reach the real ones; its own servers are reachable through the proxy as well."""
    for call in recorded_calls(world):
        wire = call.wire
        if wire is None or not wire.status or not call.path.startswith(path_segment(PROXY)):
            continue
        if UPSTREAM not in dict(wire.headers) and is_loopback(urlsplit(wire.url).hostname or ""):
            return True
    return False


def _node_options(environment: Mapping[str, str]) -> str:
    """Make Node load the guard, before anything that the user has it load."""
    quoted = str(INJECT_DIRECTORY / "guard.cjs").replace("\\", "\\\\").replace('"', '\\"')
    return " ".join(filter(None, (f'--require "{quoted}"', environment.get("NODE_OPTIONS"))))


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_STATUSES = range(200, 600)


def check_tape(calls: Iterable[Call]) -> None:
    """Raise `Unreplayable` for the first recorded response that cannot be sent."""
    for call in calls:
        if call.wire is not None and (wrong := _wrong_head(call.wire) or _wrong_chunks(call)):
            raise Unreplayable(
                f"the recorded call {call.seq}, `{call.name}`, cannot be served: {wrong}",
                hint="Mend its fixture, or record it again.",
            )


def _wrong_head(wire: WireInfo) -> str:
    if wire.status and wire.status not in _STATUSES:
        return f"{wire.status} is not a valid response status"
    if _CONTROL.search(wire.reason):
        return "a control character is in its reason"
    for name, value in wire.headers:
        if not _TOKEN.fullmatch(name):
            return f"{name!r} is not a valid header name"
        if _CONTROL.search(value):
            return f"a control character is in its header {name!r}"
    return ""


def _wrong_chunks(call: Call) -> str:
    for number, item in enumerate(call.items_json or ()):
        try:
            chunk = decode(item)
        except ValueError as error:
            return f"chunk {number} cannot be read ({error})"
        if isinstance(chunk, dict) and any(name.startswith("$") for name in chunk):
            return f"chunk {number} is damaged: {str(chunk)[:40]}"
    return ""
