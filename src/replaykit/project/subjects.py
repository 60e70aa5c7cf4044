"""Subjects: what is replayed. Cases and sessions at some paths, or all of a configuration, each with its contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.confine import inside
from replaykit.cases.find import CaseFile, SessionFile, Unusable, find_files, unusable
from replaykit.cases.session import Session, case_of_session, read_session
from replaykit.checks.assertions import Assertion
from replaykit.contracts.conditions import of_session
from replaykit.contracts.contract import Contract
from replaykit.contracts.find import find_contract
from replaykit.errors import FormatTooNew, InvalidFile, NothingSelected, UsageError
from replaykit.project.find import find_project
from replaykit.project.project import Project, load_project

DEFAULT_CONTRACT = "default"
"""The contract of a session that names none, where there is one of this name."""

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


def find_subjects(project: Project | None, paths: Sequence[Path] = ()) -> Subjects:
    """The cases and sessions at these paths; without paths, all that the configuration names."""
    reader = _Reader(project)
    if paths:
        return _with_doubles(reader.at(paths))
    if project is None:
        raise UsageError("nothing to replay", hint="Name a case or a session; or a configuration: -c replaykit.yaml")
    written = [reader.subject_of(session) for session in project.sessions]
    below = reader.at(project.cases) if project.cases else Subjects(all=())
    named = {subject.file.resolve() for subject in written}
    below = Subjects(all=tuple(s for s in below.all if s.file.resolve() not in named), notices=below.notices)
    if not written and not below.all:
        hint = "Add `cases: [cases]`, or sessions under `replays:`."
        raise NothingSelected(f"{project.file} names no case and no session", hint=hint)
    return _with_doubles(Subjects(all=(*written, *below.all), notices=below.notices))


def load_subject(file: Path) -> ReplayCase:
    """The case or session in a file, with the configuration of the working directory; else the error it is."""
    config = find_project()
    (subject,) = find_subjects(None if config is None else load_project(config), [file]).all
    if isinstance(subject, Unusable):
        raise subject.error
    return subject


class _Reader:
    """Reads files as subjects, with the contracts of a configuration; each contract's file is read once."""

    def __init__(self, project: Project | None) -> None:
        self._project = project or Project(file=Path("replaykit.yaml"))
        self._contracts = dict(self._project.contracts)

    def at(self, paths: Iterable[Path]) -> Subjects:
        found = find_files(paths)
        notices = tuple(f"{file} is neither a case nor a session: passed over" for file in found.passed_over)
        return Subjects(all=tuple(map(self._read, found.files)), notices=notices)

    def _read(self, found: CaseFile | SessionFile | Unusable) -> Subject:
        if isinstance(found, Unusable):
            return found
        file = found.file if isinstance(found, CaseFile) else Path(found.document.file)
        try:
            if isinstance(found, CaseFile):
                return load_case(found.file)
            return self.subject_of(read_session(found.document))
        except (UsageError, FormatTooNew) as error:
            return unusable(file, error)

    def subject_of(self, session: Session | InvalidFile) -> Subject:
        """The case of a session; what is wrong with it or its contract makes it unusable."""
        if isinstance(session, InvalidFile):
            return unusable(Path(session.file), session)
        try:
            desired = self._desired(session)
        except UsageError as error:
            return Unusable(id=session.id, file=session.file, error=error)
        agent = self._project.agent
        limit = agent.timeout_s if agent is not None and agent.timeout_s is not None else DEFAULT_TIMEOUT_S
        return case_of_session(session, desired, models=self._project.models, timeout_s=limit)

    def _desired(self, session: Session) -> tuple[Assertion, ...]:
        contract, conditions = self._contract(session), of_session(session.calls)
        asked = contract.assertions(conditions)
        if not asked:
            message = f"no invariant of the contract {contract.name!r} applies: {conditions}"
            raise session.error(message, "contract", hint="Add an invariant with `when: always`.")
        return (*asked, *self._project.checks)

    def _contract(self, session: Session) -> Contract:
        name = session.contract or DEFAULT_CONTRACT
        if name in self._contracts:
            return self._contracts[name]
        if not session.contract:
            hint = "Name the contract that the agent must keep: contract: NAME"
            raise session.error(f"the session {session.id!r} names no contract", "contract", hint=hint)
        try:
            inside(self._project.directory, name)  # a session is data: it leads to no file elsewhere
            found = find_contract(name, self._contracts, self._project.directory)
        except InvalidFile:
            raise
        except (ValueError, UsageError) as error:
            message = getattr(error, "message", None) or f"no contract {name!r}: {error}"
            raise session.error(f"contract: {message}", "contract", hint=getattr(error, "hint", None)) from None
        self._contracts[name] = found
        return found


def _with_doubles(subjects: Subjects) -> Subjects:
    """Ids that several subjects share are told: a report could not tell those apart."""
    return Subjects(all=subjects.all, notices=(*subjects.notices, *_doubles(subjects.all)))


def _doubles(subjects: Iterable[Subject]) -> Iterator[str]:
    files: dict[str, Path] = {}
    for subject in subjects:
        if subject.id in files:
            yield f"the id {subject.id!r} is that of {files[subject.id]} and of {subject.file}"
        files.setdefault(subject.id, subject.file)
