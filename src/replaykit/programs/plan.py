"""The plan of a recording or replay: instructions for the processes of a program, in a file that all of them find.

$REPLAYKIT_SESSION/plan.json      this
$REPLAYKIT_SESSION/world.json     in a replay: the recorded calls and the rules

The pins of a plan are what a recording notes and a replay sets again: start time, seed, time zone and chosen variables.
The clock and randomness are pinned inside Python processes (`process_startup`). Variables are set for all processes, in
any language; the order of Python's sets and its time zone depend on two of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.errors import StoreError, UsageError
from replaykit.handlers.replay.world import World
from replaykit.model.pins import Pins
from replaykit.seam.variables import RECORDED_TREE, SESSION

__all__ = [
    "INJECT_DIRECTORY",
    "PROCESS_NAME",
    "RECORDED_TREE",
    "RECORDING",
    "SESSION",
    "Mode",
    "ProgramPlan",
    "read_plan",
    "write_plan",
]

INJECT_DIRECTORY = Path(__file__).parent / "inject"
"""The directory of the start-up file that Python processes find first."""
PROCESS_NAME = "REPLAYKIT_PART"
"""The environment variable that names a process's log, if the process that started it chose a name."""
RECORDING = "REPLAYKIT_RECORDING"
"""The environment variable with the id of the run that a program is recorded as."""
_FORMAT = 1


class Mode(StrEnum):
    """Whether calls are recorded or served."""

    RECORD = "record"  # they happen and are recorded
    REPLAY = "replay"  # they are served from the tape


class ProgramPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The instructions that all processes of one program share."""

    replaykit: int = _FORMAT
    mode: Mode
    run_id: str
    store: str
    """The absolute path of the store for the process logs."""
    durability: str = "process"
    redact: bool | None = None
    """True to redact the process logs; None leaves it to the environment."""
    redact_as: str = ""
    """The store whose redaction rules and key apply, if it is another one."""
    proxy: str = ""
    """The proxy's address, such as `http://127.0.0.1:40123`; empty without a proxy."""
    token: str = ""
    """The token that gives access to the proxy; empty if none is needed."""
    upstreams: dict[str, str] = {}
    """The proxy's upstreams: name in its paths to real address."""
    endpoints: tuple[str, ...] = ()
    """The upstreams that endpoints of the proxy answer for; processes leave these requests to it."""
    in_process: bool = True
    """False in a replay whose recording was made at the proxy alone: then only the proxy serves, and Python processes
    just apply the pins and the guard."""
    is_tree: bool = False
    """True for the processes that an agent starts, rather than for a program from its first process on."""
    variables: dict[str, str] = {}
    """Variables for every process of the program, even one that is started with a fresh environment."""
    working_directory: str = ""
    """The program's working directory: changed files are named relative to it."""
    pins: Pins = Pins()
    speed: float = 0.0
    """The pace of recorded responses; see `RunSession.speed`."""


def write_plan(directory: Path, plan: ProgramPlan, world: World | None = None) -> None:
    """Write the plan where the processes of the program look for it."""
    if world is not None:
        (directory / "world.json").write_bytes(msgspec.json.encode(world))
    partial = directory / "plan.partial"
    partial.write_bytes(msgspec.json.encode(plan))
    partial.replace(directory / "plan.json")


def session_directory() -> Path:
    """Return the directory that the environment names."""
    named = os.environ.get(SESSION)
    if not named:
        raise UsageError("no recording or replay is under way here", hint=f"${SESSION} names its directory.")
    return Path(named)


def read_plan(directory: Path | None) -> tuple[ProgramPlan, World | None]:
    """Read the plan in a directory, or in the one that the environment names."""
    directory = directory or session_directory()
    try:
        plan = msgspec.json.decode((directory / "plan.json").read_bytes(), type=ProgramPlan)
        if plan.mode is Mode.RECORD:
            return plan, None
        return plan, msgspec.json.decode((directory / "world.json").read_bytes(), type=World)
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"the plan in {directory} cannot be read: {error}") from None


_SECRET = re.compile(r"(?i)key|token|secret|passw|credential|auth|cookie|session|dsn|private")
_HASHES = "PYTHONHASHSEED"
_ZONE = "TZ"
_ZONES = "/zoneinfo/"
_SEED_BITS = 32  # a longer number would sometimes look like a card's, and be redacted
_MOST_HASHES = 2**32


def new_pins(environment: Mapping[str, str], names: Iterable[str] = ()) -> Pins:
    """Return the pins that a recording starting now has to note."""
    import secrets  # noqa: PLC0415 (slow to import, and a replay needs no new seed)

    variables_of_pins = {name: environment[name] for name in _checked_names(names, environment)}
    zone, hashes = environment.get(_ZONE) or _zone(), environment.get(_HASHES, "")
    if zone:
        variables_of_pins[_ZONE] = zone
    if hashes.isdecimal():
        variables_of_pins[_HASHES] = hashes
    return Pins(started_at=time.time(), seed=secrets.randbits(_SEED_BITS), environment=variables_of_pins)


def variables_of_pins(pins: Pins) -> dict[str, str]:
    """Return the variables to set for the program. Without a seed, the order of sets stays unpinned."""
    if pins.seed is None:
        return pins.environment
    seed = pins.seed if isinstance(pins.seed, int) else 0
    return {_HASHES: str(seed % _MOST_HASHES), **pins.environment}


def hash_seed(pins: Pins, environment: Mapping[str, str]) -> str:
    """Return the PYTHONHASHSEED for a process that runs an agent.

    If the recording had none, the order of its sets cannot be recovered; any order will do that is the same in every
    replay.
    """
    known = pins.environment.get(_HASHES) or environment.get(_HASHES)
    return known or variables_of_pins(pins).get(_HASHES, "0")


def _checked_names(names: Iterable[str], environment: Mapping[str, str]) -> Iterable[str]:
    for name in names:
        if _SECRET.search(name):
            raise UsageError(f"{name} looks like a secret: its value is not written down", hint="Leave it out.")
        if name not in environment:
            raise UsageError(f"{name} is not set here, so there is no value to pin")
        yield name


def _zone() -> str:
    """Return the name of the system's time zone, if it is known."""
    try:
        return os.readlink("/etc/localtime").partition(_ZONES)[2]
    except OSError:
        return ""
