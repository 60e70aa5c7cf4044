"""Pins: what is held still around an agent, so that it sees the same world again."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

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

    FROZEN = "frozen"  # it stands at the recorded start
    TICK = "tick"  # it starts at the recorded start and runs
    LIVE = "live"  # it is today's


def is_harmless(variable: str) -> bool:
    """True for a variable that a file may set: it says how things are written, and never what is run."""
    return variable in ("TZ", "LANG", "LANGUAGE", "PYTHONHASHSEED") or variable.startswith("LC_")


class Pins(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values a replay pins, as a recording noted them."""

    started_at: float = 0.0
    """The start of the recorded run, in seconds since the epoch; 0 if unknown."""
    clock: Clock = Clock.FROZEN
    seed: int | str | None = None
    """For `random`, `uuid4`, NumPy and `os.urandom`; None leaves them alone. A text is that of a run which `rk.record`
    recorded: it holds from where the run begins, a number from the beginning of the process."""
    draw: int = 0
    """The number of the draw of what `os.urandom` and `secrets` give: each number has another one."""
    environment: dict[str, str] = {}
    """Variables with the values they had."""
