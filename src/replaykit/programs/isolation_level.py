"""The level of isolation that a replay asks for: what the machine offers, unless somebody has asked for less."""

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


_MAX_LISTED = 100
_ATTEMPTS = {"tcp": "a connection to", "udp": "a message to", "unix": "a connection to the unix socket"}


def isolation_of(report: Report) -> Isolation:
    """Return what a sandbox reports as a part of a result."""
    channels = {channel: IsolationLevel(level.value) for channel, level in report.levels.items()}
    found = sorted(report.stopped, key=lambda one: one.channel == "socket")  # what decides a verdict comes first
    stopped = tuple(map(_access, found[:_MAX_LISTED]))
    unlisted = sum(one.count for one in found[_MAX_LISTED:]) + report.more_stopped
    written = tuple(WrittenFile(path=sayable(one.path), change=one.how) for one in report.written[:_MAX_LISTED])
    return Isolation(
        level=IsolationLevel(report.level.value),
        channels=channels,
        stopped=stopped,
        more_stopped=unlisted,
        written=written,
        written_count=report.written_count,
        notes=report.notes,
    )


def deviations_in(isolation: Isolation, others: Sequence[Deviation]) -> list[Deviation]:
    """Return what the isolation stopped as deviations, but for what the others name already.

    A kind of socket that is refused is only listed: by itself it reaches nobody, and some runtimes try several.
    """
    deviations = []
    for access in isolation.stopped:
        if access.channel == "files":
            deviations.append(Deviation(kind="unwritten", text=_denied(access)))
        elif access.channel in _ATTEMPTS and not _is_named(access, others):
            deviations.append(Deviation(kind="stopped", text=_in_words(access)))
    if isolation.more_stopped:  # a connection may be among them
        text = f"{isolation.more_stopped} more attempts to reach something outside were stopped"
        deviations.append(Deviation(kind="stopped", text=text))
    return deviations


def _access(stopped: Stopped) -> StoppedAccess:
    target, program = sayable(stopped.target), sayable(stopped.program)
    return StoppedAccess(
        channel=stopped.channel, target=target, program=program, count=stopped.count, reason=stopped.reason
    )


def _is_named(access: StoppedAccess, deviations: Sequence[Deviation]) -> bool:
    """Return True when a guard inside the candidate has named the same place already."""
    return any(one.kind == "network" and f"{access.target} " in f"{one.text} " for one in deviations)


def _in_words(access: StoppedAccess) -> str:
    times = "" if access.count == 1 else f", {access.count} times"
    by = f" by `{access.program}`" if access.program else ""
    return f"{_ATTEMPTS[access.channel]} {access.target}{by} was stopped{times}"


def _denied(access: StoppedAccess) -> str:
    if access.reason:
        why = f": {access.reason}"
    else:
        why = "; where the kernel offers overlays it could be"
    return (
        f"{access.target} could not be written here{why}\nTo allow it: --allow-write {os.path.dirname(access.target)}"
    )
