"""Sandboxes for the child processes of an agent that is replayed in the caller's own process.

The caller's process cannot be confined; every process that the agent starts is. The sandboxes of one replay share a
network and the files they write. Linux only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from replaykit.handlers.replay.world import World
from replaykit.isolation import Common, IsolationFailed, Level, Policy, Report, Sandbox, Stopped, Written
from replaykit.model.isolation import CHANNELS, Isolation, IsolationLevel
from replaykit.model.result import Deviation
from replaykit.programs.isolation_level import deviations_in, isolation_of
from replaykit.seam.processes import own_forks

if TYPE_CHECKING:
    import socket

# Directories of caches, whose contents can be recreated.
_CACHES = {"__pycache__", ".cache"}
_SHOWN = 3
# Sandboxes of pool workers that an agent keeps: they stay open for as long as this process lives.
_outliving: list[Sandbox] = []


@dataclass(slots=True)
class _SandboxedChild:
    sandbox: Sandbox
    outlives: bool
    is_started: bool = False

    def has_ended(self) -> bool:
        """Return True for a started process that has ended, or that could not be isolated."""
        try:
            return self.is_started and self.sandbox.has_ended()
        except IsolationFailed:
            return True


class ChildSandboxes:
    """The sandboxes of one replay."""

    def __init__(self, level: IsolationLevel, world: World) -> None:
        self._level = Level(level.value)
        self._world = world
        self._lock = threading.Lock()
        self._children: list[_SandboxedChild] = []
        self._reports: list[Report] = []
        self._written: dict[str, Written] = {}
        self._failures: list[str] = []
        self.notes: list[str] = []
        """Remarks about processes that are in no sandbox."""
        self._common: Common | None = None
        if self._level is Level.FULL:
            with own_forks():
                self._common = Common()

    @property
    def listener(self) -> socket.socket | None:
        """The socket on which this process serves the children; None if they share its network."""
        return None if self._common is None else self._common.listener

    def entrance(self, own_paths: Iterable[str], ports: Sequence[int], *, outlives: bool) -> SandboxEntrance:
        """Prepare the sandbox of a process that is about to start. `own_paths` are written for real."""
        policy = Policy(
            project=Path.cwd(),
            scratch=tuple(map(Path, dict.fromkeys(own_paths))),
            allow_write=tuple(map(Path, self._world.writable)),
            allow_connect=self._world.rules.network,
            ports=tuple(ports),
        )
        with own_forks():
            sandbox = Sandbox(policy, level=self._level, common=self._common)
        with self._lock:
            self._gather([child for child in self._children if child.has_ended()])
            entering = _SandboxedChild(sandbox, outlives)
            self._children.append(entering)
        return SandboxEntrance(self, entering)

    def forget(self, child: _SandboxedChild) -> None:
        """Forget a process that was not started after all."""
        with self._lock:
            self._children.remove(child)
        child.sandbox.close()

    def fail(self, child: _SandboxedChild, text: str) -> None:
        """Note a process that was not started because it could not be isolated."""
        self.forget(child)
        self._failures.append(text)

    def close(self, others: Sequence[Deviation]) -> tuple[Isolation, list[Deviation]]:
        """End the remaining processes, and return what was stopped; `others` are known deviations."""
        with self._lock:
            self._gather([*self._children])
        isolation = _combined_isolation(self._reports, self._written, self.notes)
        deviations = [*deviations_in(isolation, others), *_unshared_files(self._written)]
        deviations += [Deviation(kind="outside", text=text) for text in self._failures]
        if self._common is not None:
            self._common.close()
        return isolation, deviations

    def _gather(self, children: Sequence[_SandboxedChild]) -> None:
        """Collect the reports of children, and close their sandboxes, each of which holds descriptors."""
        for child in children:
            self._children.remove(child)
            try:
                report = child.sandbox.report()
            except IsolationFailed as error:
                self._failures.append(f"a child process was not started: {error.message}")
            else:
                for file in report.written:
                    self._written[file.path] = file
                self._reports.append(report._replace(written=()))
            if child.outlives and not child.has_ended():
                _outliving.append(child.sandbox)
            else:
                child.sandbox.close()


class SandboxEntrance(msgspec.Struct):
    """The entry of one child process into its sandbox."""

    _sandboxes: ChildSandboxes
    _child: _SandboxedChild

    def enter(self) -> None:
        """Enter the sandbox; call it in the child, right after the fork."""
        with own_forks():
            self._child.sandbox.enter()

    def begin(self) -> None:
        """Note that the process was started."""
        self._child.is_started = True

    def abandon(self) -> None:
        """Note that no process was started."""
        self._sandboxes.forget(self._child)

    def failed(self) -> IsolationFailed:
        """Return the error for a process that ended because it could not be isolated."""
        try:
            self._child.sandbox.report()
        except IsolationFailed as error:
            text = error.message
        else:
            text = "its first function failed"
        self._sandboxes.fail(self._child, f"a child process was not started: {text}")
        return IsolationFailed(text)


def _combined_isolation(reports: Sequence[Report], written: Mapping[str, Written], notes: Sequence[str]) -> Isolation:
    """Combine the reports of all children; the agent's own process has the level `process`."""
    if not reports:
        return Isolation(level=IsolationLevel.PROCESS, notes=tuple(dict.fromkeys(notes)))
    all_notes, all_stopped = list(notes), list[Stopped]()
    for report in reports:
        all_notes += report.notes
        all_stopped += report.stopped
    whole = isolation_of(
        reports[0]._replace(
            stopped=tuple(all_stopped),
            more_stopped=sum(report.more_stopped for report in reports),
            written=tuple(written.values()),
            written_count=max(len(written), *(report.written_count for report in reports)),
            notes=tuple(dict.fromkeys(all_notes)),
        )
    )
    return msgspec.structs.replace(
        whole,
        level=IsolationLevel.PROCESS,
        channels=dict.fromkeys(CHANNELS, IsolationLevel.PROCESS),
        children=whole.channels,
    )


def _unshared_files(paths: Iterable[str]) -> list[Deviation]:
    """Report files that children wrote in their layer, because the agent's own process cannot see them."""
    missing = [path for path in paths if _CACHES.isdisjoint(Path(path).parts)]
    if not missing:
        return []
    shown = ", ".join(missing[:_SHOWN])
    if len(missing) > _SHOWN:
        shown += ", …"
    text = (
        f"child processes wrote files that the agent's own process could not see: {shown}\n"
        f"To have them written for real, allow it (`allow_write`): {Path(missing[0]).parent}"
    )
    return [Deviation(kind="unshared", text=text)]
