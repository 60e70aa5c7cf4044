"""Subjects: what is replayed. Cases and sessions at some paths, or all of a configuration, each with its contract."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.find import CaseFile, SessionFile, Unusable, find_files, unusable
from replaykit.errors import FormatTooNew, NothingSelected, UsageError
from replaykit.project.doubles import without_doubles
from replaykit.project.find import find_project

if TYPE_CHECKING:
    from replaykit.cases.session import Session
    from replaykit.project.contracted import Contracted
    from replaykit.project.project import Project

Subject = ReplayCase | Unusable


class Subjects(Struct, frozen=True, kw_only=True):
    """What is replayed, in order, and what to tell whoever asked."""

    all: tuple[Subject, ...]
    notices: tuple[str, ...] = ()

    @property
    def cases(self) -> list[ReplayCase]:
        """Those that can be replayed."""
        return [subject for subject in self.all if isinstance(subject, ReplayCase)]

    @property
    def unusable(self) -> list[Unusable]:
        """Those that cannot, and why."""
        return [subject for subject in self.all if isinstance(subject, Unusable)]


def find_subjects(
    project: Project | None, paths: Sequence[Path] = (), *, more: Sequence[Session | Unusable] = ()
) -> Subjects:
    """The cases and sessions at these paths; without paths, all that the configuration names.

    `more` are those of its sources: one whose id is there already is the same run, and not replayed twice.
    """
    reader = _Reader(project)
    if paths:
        at_paths, told = reader.at(paths)
        return Subjects(all=without_doubles(at_paths), notices=told)
    if project is None:
        raise UsageError("nothing to replay", hint="Name a case or a session; or a configuration: -c replaykit.yaml")
    written = [
        reader.sessions.subject_of(session, f"replays.sessions[{index}]")
        for index, session in enumerate(project.sessions)
    ]
    named = {subject.file.resolve() for subject in written}
    found, notices, empty = reader.below(project)
    below = [subject for file, subject in found.items() if file not in named]
    ids = {subject.id for subject in (*written, *below)}
    for one in more:
        if one.id not in ids:
            ids.add(one.id)
            below.append(one if isinstance(one, Unusable) else reader.sessions.subject_of(one))
    if not written and not below:
        if empty:
            raise empty[0]
        hint = "Add `cases: [cases]`, or sessions under `replays:`."
        raise NothingSelected(f"{project.file} names no case and no session", hint=hint)
    return Subjects(all=without_doubles((*written, *below)), notices=tuple(notices))


def load_subject(file: Path) -> ReplayCase:
    """The case or session in a file, with the configuration of the working directory; else the error it is."""
    from replaykit.project.project import load_project  # noqa: PLC0415 (slow to import, as in `_Reader`)

    config = find_project()
    (subject,) = find_subjects(None if config is None else load_project(config), [file]).all
    if isinstance(subject, Unusable):
        raise subject.error
    return subject


class _Reader:
    """Reads files as subjects, with the contracts of a configuration."""

    def __init__(self, project: Project | None) -> None:
        self._project = project

    @cached_property
    def sessions(self) -> Contracted:
        """Those of the configuration; without one each names the file of its contract."""
        from replaykit.project.contracted import Contracted  # noqa: PLC0415 (slow to import; cases have no contract)

        return Contracted(self._project)

    def at(self, paths: Sequence[Path]) -> tuple[list[Subject], tuple[str, ...]]:
        """What is at the paths, and notices; a file that several of them lead to is there once."""
        found = find_files(paths)
        notices = tuple(f"{file} is neither a case nor a session: passed over" for file in found.passed_over)
        subjects = list(map(self._read, found.files))
        if len(paths) > 1:
            subjects = list({subject.file.resolve(): subject for subject in reversed(subjects)}.values())[::-1]
        return subjects, notices

    def below(self, project: Project) -> tuple[dict[Path, Subject], list[str], list[NothingSelected]]:
        """What is at the paths of the configuration, and notices; a directory that is empty is no more than one."""
        found: dict[Path, Subject] = {}
        notices: list[str] = []
        empty: list[NothingSelected] = []
        for index, path in enumerate(project.cases):
            if not path.exists():
                hint = "It is looked for beside the configuration: a case, a session, or a directory of them."
                raise project.error(f"cases: {str(path)!r} does not exist", ("cases", index), hint=hint)
            try:
                subjects, told = self.at([path])
            except NothingSelected as error:
                empty.append(error)
                told, subjects = (error.message,), []
            notices += told
            for subject in subjects:
                found.setdefault(subject.file.resolve(), subject)
        return found, notices, empty

    def _read(self, found: CaseFile | SessionFile | Unusable) -> Subject:
        if isinstance(found, Unusable):
            return found
        file = found.file if isinstance(found, CaseFile) else Path(found.document.file)
        try:
            if isinstance(found, CaseFile):
                return load_case(found.file)
            return self.sessions.read(found.document)
        except (UsageError, FormatTooNew) as error:
            return unusable(file, error)
