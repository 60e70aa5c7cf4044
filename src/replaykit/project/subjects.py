"""Subjects: what is replayed. Cases and sessions at some paths, or all of a configuration, each with its contract."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S
from replaykit.cases.confine import inside
from replaykit.cases.find import CaseFile, SessionFile, Unusable, find_files, unusable
from replaykit.cases.session import Session, case_of_session, read_session
from replaykit.checks.assertions import Assertion
from replaykit.contracts.conditions import conditions_of
from replaykit.contracts.contract import Contract
from replaykit.contracts.find import find_contract
from replaykit.errors import FormatTooNew, InvalidFile, NothingSelected, UsageError
from replaykit.project.doubles import without_doubles
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
        reader.subject_of(session, f"replays.sessions[{index}]") for index, session in enumerate(project.sessions)
    ]
    named = {subject.file.resolve() for subject in written}
    found, notices, empty = reader.below(project.cases)
    below = [subject for file, subject in found.items() if file not in named]
    ids = {subject.id for subject in (*written, *below)}
    for one in more:
        if one.id not in ids:
            ids.add(one.id)
            below.append(reader.subject_of(one) if isinstance(one, Session) else one)
    if not written and not below:
        if empty:
            raise empty[0]
        hint = "Add `cases: [cases]`, or sessions under `replays:`."
        raise NothingSelected(f"{project.file} names no case and no session", hint=hint)
    return Subjects(all=without_doubles((*written, *below)), notices=tuple(notices))


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

    def at(self, paths: Sequence[Path]) -> tuple[list[Subject], tuple[str, ...]]:
        """What is at the paths, and notices; a file that several of them lead to is there once."""
        found = find_files(paths)
        notices = tuple(f"{file} is neither a case nor a session: passed over" for file in found.passed_over)
        subjects = list(map(self._read, found.files))
        if len(paths) > 1:
            subjects = list({subject.file.resolve(): subject for subject in reversed(subjects)}.values())[::-1]
        return subjects, notices

    def below(self, paths: Iterable[Path]) -> tuple[dict[Path, Subject], list[str], list[NothingSelected]]:
        """What is at the paths of a configuration, and notices; a directory that is empty is no more than one."""
        found: dict[Path, Subject] = {}
        notices: list[str] = []
        empty: list[NothingSelected] = []
        for index, path in enumerate(paths):
            if not path.exists():
                hint = "It is looked for beside the configuration: a case, a session, or a directory of them."
                raise self._project.error(f"cases: {str(path)!r} does not exist", ("cases", index), hint=hint)
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
            return self.subject_of(read_session(found.document))
        except (UsageError, FormatTooNew) as error:
            return unusable(file, error)

    def subject_of(self, session: Session | InvalidFile, place: str = "") -> Subject:
        """The case of a session; what is wrong with it or its contract makes it unusable. `place` names one that
        stands in the configuration, and cannot be read so far that it has an id."""
        if isinstance(session, InvalidFile):
            file = Path(session.file)
            if place and file == self._project.file:
                return Unusable(id=place, file=file, error=session)
            return unusable(file, session)
        try:
            desired = self._desired(session)
        except UsageError as error:
            return Unusable(id=session.id, file=session.file, error=error)
        agent = self._project.agent
        limit = agent.timeout_s if agent is not None and agent.timeout_s is not None else DEFAULT_TIMEOUT_S
        after = partial(self._desired, session)
        return case_of_session(session, desired, desired_after=after, models=self._project.models, timeout_s=limit)

    def _desired(self, session: Session, faults: Iterable[str] = ()) -> tuple[Assertion, ...]:
        contract, conditions = self._contract(session), conditions_of(faults, session.calls)
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
