"""The plan of a recording or a replay: what the processes of a program are told, in a file that all of them find.

$REPLAYKIT_SESSION/plan.json      this
$REPLAYKIT_SESSION/world.json     in a replay: the recorded calls and the rules
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.errors import StoreError, UsageError
from replaykit.model.pins import Pins
from replaykit.replayer.world import World
from replaykit.seam.processes import RECORDED_TREE, SESSION

__all__ = ["INJECTED", "PART", "RECORDED_TREE", "RECORDING", "SESSION", "Mode", "Plan", "read_plan", "write_plan"]

INJECTED = Path(__file__).parent / "inject"
"""The directory of the start-up file that Python processes find first."""
PART = "REPLAYKIT_PART"
"""The environment variable that names a process's part, where whoever started it has given it a name."""
RECORDING = "REPLAYKIT_RECORDING"
"""The environment variable that names the run that a program is recorded as."""
_FORMAT = 1


class Mode(StrEnum):
    """What is done with the calls of a program."""

    RECORD = "record"  # they happen, and are written down
    REPLAY = "replay"  # they are served from the tape


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the processes of one program do together."""

    replaykit: int = _FORMAT
    mode: Mode
    run_id: str
    store: str
    """The file of the store that the parts are written to; absolute."""
    durability: str = "process"
    redact: bool | None = None
    """Whether the parts are redacted; None leaves it to the environment."""
    redact_as: str = ""
    """The store whose project's rules and key hold for the parts, where it is another one."""
    proxy: str = ""
    """Where the proxy is, such as `http://127.0.0.1:40123`; nothing when there is none."""
    token: str = ""
    """What the processes of the program are handed to use the proxy; nothing when it asks for none."""
    upstreams: dict[str, str] = {}
    """What the proxy stands in front of: the name in its paths, and the address behind it."""
    endpoints: tuple[str, ...] = ()
    """Those of them that the proxy answers for in another way than by HTTP: the processes leave them to it."""
    in_process: bool = True
    """False in a replay whose recording was made at the proxy alone: then only that serves, and in Python processes
    nothing but the pins and the guard holds."""
    is_tree: bool = False
    """True when it is for the processes that an agent starts, and not for a program from its first process on."""
    variables: dict[str, str] = {}
    """What every process of the program has among its variables, also one that is started with others."""
    pins: Pins = Pins()
    speed: float = 0.0
    """The pace at which recorded responses are given; see `Session.speed`."""


def write_plan(directory: Path, plan: Plan, world: World | None = None) -> None:
    """Leave the plan where the processes of the program look for it."""
    if world is not None:
        (directory / "world.json").write_bytes(msgspec.json.encode(world))
    partial = directory / "plan.partial"
    partial.write_bytes(msgspec.json.encode(plan))
    partial.replace(directory / "plan.json")


def session_directory() -> Path:
    """The directory that the environment names."""
    named = os.environ.get(SESSION)
    if not named:
        raise UsageError("no recording or replay is under way here", hint=f"${SESSION} names its directory.")
    return Path(named)


def read_plan(directory: Path | None = None) -> tuple[Plan, World | None]:
    """The plan in a directory, or in the one that the environment names."""
    directory = directory or session_directory()
    try:
        plan = msgspec.json.decode((directory / "plan.json").read_bytes(), type=Plan)
        if plan.mode is Mode.RECORD:
            return plan, None
        return plan, msgspec.json.decode((directory / "world.json").read_bytes(), type=World)
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"the plan in {directory} cannot be read: {error}") from None
