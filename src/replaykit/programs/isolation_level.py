"""The isolation level of a replay, and the reports of its sandboxes as a part of its result.

The level is the highest that the machine supports, unless a lower one is requested.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from replaykit.errors import UsageError
from replaykit.model.isolation import Isolation, IsolationLevel, StoppedAccess, WrittenFile, weaker
from replaykit.model.result import Deviation
from replaykit.model.values import sayable

if TYPE_CHECKING:
    from replaykit.isolation import Report, Stopped


ISOLATION = "REPLAYKIT_ISOLATION"
"""The environment variable that limits the level of everything this process runs."""


def level_of_environment() -> IsolationLevel:
    """Return the highest level that the environment allows."""
    level_name = os.environ.get(ISOLATION) or IsolationLevel.FULL.value
    try:
        return IsolationLevel(level_name)
    except ValueError:
        raise UsageError(f"${ISOLATION} is {level_name!r}", hint=f"Use one of: {', '.join(IsolationLevel)}") from None


def sandbox_level(highest: IsolationLevel) -> IsolationLevel | None:
    """Return the level for sandboxes, up to the given one; None for no sandboxes."""
    requested = weaker(highest, level_of_environment())
    if sys.platform != "linux" or requested.strength <= IsolationLevel.PROCESS.strength:
        return None
    from replaykit.isolation import support  # noqa: PLC0415 (Linux only)

    level = weaker(requested, IsolationLevel(support().level.value))
    if level is IsolationLevel.PROCESS:
        return None
    return level


_MAX_LISTED = 100
_ATTEMPTS = {"tcp": "a connection to", "udp": "a message to", "unix": "a connection to the unix socket"}


def isolation_of(report: Report) -> Isolation:
    """Return a sandbox's report as a part of a result."""
    channels = {channel: IsolationLevel(level.value) for channel, level in report.levels.items()}
    # The kinds of sockets come last, since they do not affect the verdict, and the list is cut off.
    stopped = sorted(report.stopped, key=lambda attempt: attempt.channel == "socket")
    written = [WrittenFile(path=sayable(file.path), change=file.how) for file in report.written[:_MAX_LISTED]]
    return Isolation(
        level=IsolationLevel(report.level.value),
        channels=channels,
        stopped=tuple(map(_access, stopped[:_MAX_LISTED])),
        more_stopped=sum(attempt.count for attempt in stopped[_MAX_LISTED:]) + report.more_stopped,
        written=tuple(written),
        written_count=report.written_count,
        notes=report.notes,
    )


def deviations_in(isolation: Isolation, others: Sequence[Deviation]) -> list[Deviation]:
    """Return what the isolation stopped as deviations, without those that `others` name already.

    A refused kind of socket is only listed: by itself it reaches nobody, and some runtimes probe several.
    """
    deviations = []
    for access in isolation.stopped:
        if access.channel == "files":
            deviations.append(Deviation(kind="unwritten", text=_denied(access)))
        elif access.channel in _ATTEMPTS and not _is_named(access, others):
            deviations.append(Deviation(kind="stopped", text=_in_words(access)))
    if isolation.more_stopped:  # these may include connections
        text = f"{isolation.more_stopped} more attempts to reach something outside were stopped"
        deviations.append(Deviation(kind="stopped", text=text))
    return deviations


def _access(stopped: Stopped) -> StoppedAccess:
    return StoppedAccess(
        channel=stopped.channel,
        target=sayable(stopped.target),
        program=sayable(stopped.program),
        count=stopped.count,
        reason=stopped.reason,
    )


def _is_named(access: StoppedAccess, deviations: Sequence[Deviation]) -> bool:
    """Return True if a guard inside the candidate has reported the same place."""
    texts = [f"{deviation.text} " for deviation in deviations if deviation.kind == "network"]
    return any(f"{access.target} " in text for text in texts)


def _in_words(access: StoppedAccess) -> str:
    times = "" if access.count == 1 else f", {access.count} times"
    by = f" by `{access.program}`" if access.program else ""
    return f"{_ATTEMPTS[access.channel]} {access.target}{by} was stopped{times}"


def _denied(access: StoppedAccess) -> str:
    why = f": {access.reason}" if access.reason else "; where the kernel offers overlays it could be"
    return (
        f"{access.target} could not be written here{why}\nTo allow it: --allow-write {os.path.dirname(access.target)}"
    )
