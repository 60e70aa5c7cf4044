"""The environment that a recording notes and a replay sets again: start time, seed, time zone, chosen variables.

The clock and randomness are pinned inside Python processes (`process_startup`). Variables are set for all processes,
in any language; the order of Python's sets and the zone of its clock depend on two of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping

from replaykit.errors import UsageError
from replaykit.model.pins import Pins

_SECRET = re.compile(r"(?i)key|token|secret|passw|credential|auth|cookie|session|dsn|private")
_HASHES = "PYTHONHASHSEED"
_ZONE = "TZ"
_ZONES = "/zoneinfo/"
_SEED_BITS = 32  # a longer number would look like that of a card now and then, and be redacted
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
    """The variables that the program is to have. Without a seed nothing holds the order of sets."""
    if pins.seed is None:
        return pins.environment
    seed = pins.seed if isinstance(pins.seed, int) else 0
    return {_HASHES: str(seed % _MOST_HASHES), **pins.environment}


def hash_seed(pins: Pins, environment: Mapping[str, str]) -> str:
    """Return the PYTHONHASHSEED for a process that runs an agent.

    Where the recording had none, the order of its sets cannot be recovered: any order will do that is the same in
    every replay.
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
    """The name of the system's time zone, where it says it."""
    try:
        return os.readlink("/etc/localtime").partition(_ZONES)[2]
    except OSError:
        return ""
