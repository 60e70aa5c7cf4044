"""Reports of sandboxes as parts of results, and the nested sandboxes of workers. Workers import this: it is small."""

from __future__ import annotations

from pathlib import Path

from replaykit.isolation import Level, Policy, Report, Sandbox, Stopped, support
from replaykit.model.isolation import Isolation, IsolationLevel, StoppedAccess, WrittenFile
from replaykit.model.values import sayable

_MAX_LISTED = 100


def nested_sandbox() -> Sandbox:
    """Return a sandbox for one task of a worker that is in a sandbox itself."""
    return Sandbox(Policy(project=Path.cwd()), nested=True)


def can_nest() -> bool:
    """Return True in a sandbox in which each task can have one of its own."""
    return support().nested_level is Level.FULL


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


def _access(stopped: Stopped) -> StoppedAccess:
    target, program = sayable(stopped.target), sayable(stopped.program)
    return StoppedAccess(channel=stopped.channel, target=target, program=program, count=stopped.count)
