"""Confinement: a candidate's processes inside a sandbox, and what came of that as part of the result.

The level is the highest one that the machine offers and the person who runs the replay has not lowered. Without a
sandbox, only the guards inside Python and Node stand between a candidate and the world, and the result says so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.evidence import new_workspace
from replaykit.errors import UsageError
from replaykit.model.isolation import CHANNELS, Consent, Isolation, IsolationLevel, weaker
from replaykit.private_directories import remove_tree
from replaykit.programs.isolation_level import deviations_in, isolation_of, level_of_environment, sandbox_level
from replaykit.seam.variables import SANDBOX

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase
    from replaykit.isolation import Sandbox, Stopped

_NOT_COPIED = (".git", ".replaykit", ".venv", "venv", "node_modules")
"""Directories of a project that are large, and that an agent reads and does not write."""


class Confined:
    """One run of a candidate, in a sandbox where there is one."""

    def __init__(self, sandbox: Sandbox | None, isolation: Isolation) -> None:
        """`isolation` is what holds where nothing was started in a sandbox."""
        self._sandbox = sandbox
        self._isolation = isolation
        self.directory: Path | None = None
        """The directory that the candidate starts in, if not this one."""
        self.temporary: Path | None = None
        """The directory of the candidate's temporary files, if not the usual one."""
        self._is_started = False
        self._earlier: Counter[Stopped] = Counter()
        self._more_earlier = 0

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start the candidate; `options` are those of `subprocess.Popen`."""
        if self._sandbox is None:
            return subprocess.Popen(command, **options)
        variables = {SANDBOX: f"{self._sandbox.level.value}:{os.urandom(8).hex()}"}
        if self.temporary is not None:
            variables["TMPDIR"] = str(self.temporary)
        if self.directory is not None:
            variables["PWD"] = str(self.directory)
        options["env"] = {**options["env"], **variables}
        process = self._sandbox.start(command, cwd=self.directory, **options)
        self._is_started = True
        return process

    def let_serve(self, serve_inside: Callable[[Sandbox], None] | None) -> None:
        """Let somebody serve the candidate in its sandbox, now that it was started."""
        if self._sandbox is not None and serve_inside is not None:
            serve_inside(self._sandbox)

    def isolation(self, *, lists_written: bool = True) -> Isolation:
        """Return what holds, what the candidate ran into since this was last asked, and, if listed, what it wrote."""
        if self._sandbox is None or not self._is_started:
            return self._isolation
        report = self._sandbox.report(lists_written=lists_written)
        found = Counter({replace(one, count=0): one.count for one in report.stopped})
        since = found - self._earlier
        self._earlier = found
        stopped = tuple(replace(one, count=count) for one, count in since.items())
        more, self._more_earlier = report.more_stopped - self._more_earlier, report.more_stopped
        notes = (*self._isolation.notes, *report.notes)
        return isolation_of(report._replace(stopped=stopped, more_stopped=more, notes=notes))

    def keep_writes(self, directory: Path) -> None:
        """Copy the files that the candidate wrote in its own layer below a directory."""
        if self._sandbox is not None and self._is_started:
            self._sandbox.keep_writes(directory)


@contextlib.contextmanager
def confined(case: ReplayCase, *, scratch: Sequence[Path] = (), ports: Sequence[int] = ()) -> Iterator[Confined]:
    """Give a confinement for one run of a candidate, as `confined_tree` does, and keep what it wrote if asked to."""
    consent = case.scenario.consent
    with confined_tree(consent, scratch=scratch, ports=ports) as inside:
        yield inside
        if consent.keep_writes:
            inside.keep_writes(new_workspace(Path(consent.keep_writes), case.id))


@contextlib.contextmanager
def confined_tree(consent: Consent, *, scratch: Sequence[Path] = (), ports: Sequence[int] = ()) -> Iterator[Confined]:
    """Give a confinement for one process tree. `scratch` are directories that it really writes to; on `ports` of the
    loopback interface it is served by this process."""
    level = level_for(consent)
    if level is None:
        yield Confined(None, without_sandbox(consent))
        return
    from replaykit.isolation import Level, Policy, Sandbox  # noqa: PLC0415 (for Linux alone)

    with contextlib.ExitStack() as stack:
        places = [place.absolute() for place in scratch]
        home: Path | None = None
        if level is IsolationLevel.LANDLOCK:
            home = stack.enter_context(_temporary_directory())
            places.append(home)
        policy = Policy(
            project=Path.cwd(),
            scratch=tuple(places),
            allow_write=tuple(map(Path, consent.write)),
            allow_connect=consent.connect,
            ports=tuple(ports),
            temporary=home,
        )
        sandbox = stack.enter_context(Sandbox(policy, level=Level(level.value)))
        directory, notes = (None, ()) if home is None else _copied_project(home, policy.allow_write)
        inside = Confined(sandbox, Isolation(level=level, notes=notes))
        inside.directory, inside.temporary = directory, home
        yield inside


def boundary_for(consent: Consent) -> tuple[IsolationLevel, tuple[str, ...], tuple[str, ...]] | None:
    """Return what tells one sandbox from another: its level, and what may be reached from it. None for no sandbox."""
    level = level_for(consent)
    if level is None:
        return None
    return (level, consent.connect, (*consent.write, consent.keep_writes))


def level_for(consent: Consent) -> IsolationLevel | None:
    """Return the level of the sandbox that a candidate runs in; None for one that runs in none."""
    return sandbox_level(consent.highest_level)


def without_sandbox(consent: Consent) -> Isolation:
    """Return what holds for a candidate that runs in no sandbox, and why it does."""
    requested_level = weaker(consent.highest_level, level_of_environment())
    level = weaker(requested_level, IsolationLevel.PROCESS)
    notes: tuple[str, ...] = ()
    if consent.live:
        notes = (f"calls were allowed to happen for real: {', '.join(consent.live)}",)
    elif requested_level.strength > level.strength:
        notes = _reasons()
    return Isolation(level=level, channels=dict.fromkeys(CHANNELS, level), notes=notes)


def _reasons() -> tuple[str, ...]:
    """Return why this machine offers no sandbox."""
    if sys.platform != "linux":
        return ("only Linux offers sandboxes",)
    from replaykit.isolation import support  # noqa: PLC0415 (for Linux alone)

    return support().reasons()


@contextlib.contextmanager
def _temporary_directory() -> Iterator[Path]:
    from tempfile import TemporaryDirectory  # noqa: PLC0415 (slow to import, and most machines have overlays)

    with TemporaryDirectory(prefix="replaykit-", ignore_cleanup_errors=True) as home:
        try:
            yield Path(home)
        finally:
            remove_tree(home)


def _copied_project(home: Path, writable: Sequence[Path]) -> tuple[Path | None, tuple[str, ...]]:
    """Copy the project into a directory. Return the copy, to start in, or None with a note where it is too large: the
    candidate then starts in the project itself, in which it cannot write.

    Directories of the project that may really be written (`writable`) are links in the copy.
    """
    from replaykit.isolation import copy_project  # noqa: PLC0415 (for Linux alone)

    project = Path.cwd()
    if any(project.is_relative_to(place) for place in writable):
        return None, ()  # all of it may be written
    copy = home / "project" / (project.name or "root")
    try:
        copy_project(project, copy, linked=_NOT_COPIED)
    except UsageError as error:
        return None, (str(error),)
    for place in writable:
        if place.is_relative_to(project):
            _link(copy / place.relative_to(project), place)
    return copy, ()


def _link(copied: Path, place: Path) -> None:
    """Put a link to a directory into the place of its copy."""
    import shutil  # noqa: PLC0415 (slow to import, and few candidates may write anywhere)

    if copied.resolve() == place.resolve():
        return  # a directory above it is a link
    if copied.is_dir():
        shutil.rmtree(copied)
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.symlink_to(place, target_is_directory=True)


def with_isolation(attempt: Attempt, isolation: Isolation) -> Attempt:
    """Return the attempt with what the isolation stopped among its deviations."""
    deviations = (*attempt.deviations, *deviations_in(isolation, attempt.deviations))
    return msgspec.structs.replace(attempt, deviations=deviations, isolation=isolation)
