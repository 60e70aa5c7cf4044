"""The level of isolation that a replay asks for: what the machine offers, unless somebody has asked for less."""

from __future__ import annotations

import os
import sys

from replaykit.errors import UsageError
from replaykit.model.isolation import IsolationLevel, weaker

ISOLATION = "REPLAYKIT_ISOLATION"
"""The environment variable that lowers the level of everything this process runs."""


def level_of_environment() -> IsolationLevel:
    """Return the highest level that the environment allows."""
    level_name = os.environ.get(ISOLATION) or IsolationLevel.FULL.value
    try:
        return IsolationLevel(level_name)
    except ValueError:
        raise UsageError(f"${ISOLATION} is {level_name!r}", hint=f"Use one of: {', '.join(IsolationLevel)}") from None


def sandbox_level(highest: IsolationLevel) -> IsolationLevel | None:
    """Return the level of the sandboxes to use, up to the given one; None for no sandboxes."""
    requested = weaker(highest, level_of_environment())
    if sys.platform != "linux" or requested.strength <= IsolationLevel.PROCESS.strength:
        return None
    from replaykit.isolation import support  # noqa: PLC0415 (for Linux alone)

    level = weaker(requested, IsolationLevel(support().level.value))
    if level is IsolationLevel.PROCESS:
        return None
    return level
