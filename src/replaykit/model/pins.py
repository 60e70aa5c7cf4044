"""Pins: what a replay holds constant so that the agent sees the same world again."""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from enum import StrEnum

from msgspec import Struct

SECRETS, HASHES = "secrets", "hashes"
"""The names of chance that a recording does not hold: what `secrets` and `os.urandom` gave, and what `hash` did."""
LIBRARY_SECRETS, LIBRARY_HASHES = "library_secrets", "library_hashes"
"""The same, given to a library: for its keys and tables, and hardly to decide what the agent does."""
SETS = "sets"
"""The name of the order of a set that got into an argument."""
NOW, UUID4, RANDOM = MACHINE = ("rk.now", "rk.uuid4", "rk.random")
"""The names of the calls that give time and chance of this machine; no tool and no request has such a name."""


class Clock(StrEnum):
    """The clock of a replay."""

    FROZEN = "frozen"  # it stands still at the recorded start
    TICK = "tick"  # it starts at the recorded start and runs
    LIVE = "live"  # the real time


def is_harmless(variable: str) -> bool:
    """Return whether a file may set this variable: it affects how things are formatted, never what is run."""
    return variable in ("TZ", "LANG", "LANGUAGE", "PYTHONHASHSEED") or variable.startswith("LC_")


class Pins(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values a replay pins, as a recording noted them."""

    started_at: float = 0.0
    """The start of the recorded run, in seconds since the epoch; 0 if unknown."""
    clock: Clock = Clock.FROZEN
    seed: int | str | None = None
    """The seed for `random`, `uuid4`, NumPy and `os.urandom`; None leaves them alone. A text comes from `rk.record` and
    applies from the start of the run; a number applies from the start of the process."""
    draw: int = 0
    """Selects the bytes of `os.urandom` and `secrets`: each number gives different ones."""
    environment: dict[str, str] = {}
    """Environment variables with their recorded values."""
