"""Confinement: run a candidate's processes in a sandbox, and report what it stopped.

The level is the highest that the machine offers and the user has not lowered. Without a sandbox, only the guards inside
Python and Node keep a candidate from the outside, and the result says so.
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
from replaykit.private_files import remove_tree
from replaykit.programs.isolation_level import deviations_in, isolation_of, level_of_environment, sandbox_level
from replaykit.seam.variables import SANDBOX

if TYPE_CHECKING:
    from replaykit.cases.case import ReplayCase
    from replaykit.isolation import Sandbox, Stopped

# Large directories that an agent reads but does not write.
_NOT_COPIED = (".git", ".replaykit", ".venv", "venv", "node_modules")


class Confined:
    """One run of a candidate, sandboxed if possible."""

    def __init__(self, sandbox: Sandbox | None, isolation: Isolation) -> None:
        """`isolation` applies if nothing is started in a sandbox."""
        self._sandbox = sandbox
        self._isolation = isolation
        self.directory: Path | None = None
        """The candidate's working directory, if it differs from this process's."""
        self.temporary: Path | None = None
        """The candidate's directory for temporary files, if it differs from the default."""
        self._is_started = False
        self._earlier: Counter[Stopped] = Counter()
        self._more_earlier = 0

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start the candidate. `options` are passed to `subprocess.Popen`."""
        if self._sandbox is None:
            return subprocess.Popen(command, **options)
        variables = {SANDBOX: f"{self._sandbox.level.value}:{os.urandom(8).hex()}"}
        if self.temporary is not None:
            variables["TMPDIR"] = str(self.temporary)
        if self.directory is not None:
            # Shells and many programs trust PWD more than getcwd().
            variables["PWD"] = str(self.directory)
        options["env"] = {**options["env"], **variables}
        process = self._sandbox.start(command, cwd=self.directory, **options)
        self._is_started = True
        return process

    def let_serve(self, serve_inside: Callable[[Sandbox], None] | None) -> None:
        """Call a function that serves the candidate inside its sandbox. Call this after `start`."""
        if self._sandbox is not None and serve_inside is not None:
            serve_inside(self._sandbox)

    def isolation(self, *, lists_written: bool = True) -> Isolation:
        """Return the isolation with what was stopped since the last call and, with `lists_written`, written files."""
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
        """Copy the files that the candidate wrote in its own layer to a directory."""
        if self._sandbox is not None and self._is_started:
            self._sandbox.keep_writes(directory)


@contextlib.contextmanager
def confined(case: ReplayCase, *, scratch: Sequence[Path] = (), ports: Sequence[int] = ()) -> Iterator[Confined]:
    """Confine one run of a candidate like `confined_tree`, and copy the files it wrote if the user asked for them."""
    consent = case.scenario.consent
    with confined_tree(consent, scratch=scratch, ports=ports) as inside:
        yield inside
        if consent.keep_writes:
            inside.keep_writes(new_workspace(Path(consent.keep_writes), case.id))


@contextlib.contextmanager
def confined_tree(consent: Consent, *, scratch: Sequence[Path] = (), ports: Sequence[int] = ()) -> Iterator[Confined]:
    """Confine one process tree.

    It really writes to the directories in `scratch`, and this process serves it on `ports` of the loopback interface.
    """
    level = level_for(consent)
    if level is None:
        yield Confined(None, without_sandbox(consent))
        return
    from replaykit.isolation import Level, Policy, Sandbox  # noqa: PLC0415 (Linux only)

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
    """Return what distinguishes one sandbox from another: level, and what is reachable from it.

    None means no sandbox.
    """
    level = level_for(consent)
    if level is None:
        return None
    return (level, consent.connect, (*consent.write, consent.keep_writes))


def level_for(consent: Consent) -> IsolationLevel | None:
    """Return the sandbox level of a candidate; None if it runs without one."""
    return sandbox_level(consent.highest_level)


def without_sandbox(consent: Consent) -> Isolation:
    """Return the isolation of a candidate without a sandbox, and why it has none."""
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
    from replaykit.isolation import support  # noqa: PLC0415 (Linux only)

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
    """Copy the project below `home`, and return the copy to start in.

    If the project is too large, return None and a note: the candidate then starts in the project itself, where it
    cannot write. Directories in `writable` become links in the copy.
    """
    from replaykit.isolation import copy_project  # noqa: PLC0415 (Linux only)

    project = Path.cwd()
    if any(project.is_relative_to(place) for place in writable):
        return None, ()  # the whole project may be written
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
    """Replace the copy of a directory with a link to the original."""
    import shutil  # noqa: PLC0415 (slow to import, and few candidates may write anywhere)

    if copied.resolve() == place.resolve():
        return  # a parent directory is already a link
    if copied.is_dir():
        shutil.rmtree(copied)
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.symlink_to(place, target_is_directory=True)


def with_isolation(attempt: Attempt, isolation: Isolation) -> Attempt:
    """Return the attempt with what the isolation stopped among its deviations."""
    deviations = (*attempt.deviations, *deviations_in(isolation, attempt.deviations))
    return msgspec.structs.replace(attempt, deviations=deviations, isolation=isolation)
