"""Select what to replay: cases and sessions at some paths, or all of a configuration, each with its contract.

Reports, evidence and judgements are filed by id, so cases that share an id do not run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from replaykit.cases.case import MAX_CASE_BYTES, ReplayCase, load_case
from replaykit.cases.config_files import find_project
from replaykit.cases.find import CaseFile, SessionFile, Unusable, file_of, files_at, unusable
from replaykit.documents.document import Document, load_document
from replaykit.errors import FormatTooNew, InvalidFile, NothingSelected, ReplayKitError, UsageError
from replaykit.model.json_positions import DocumentPath
from replaykit.wire.json_fields import as_object

if TYPE_CHECKING:
    from replaykit.cases.session import Session
    from replaykit.project.project import Project
    from replaykit.project.session_cases import SessionCases


class FiledCase(Struct, frozen=True):
    """A case or session that is read again when its turn comes: a large suite need not fit into memory."""

    id: str
    path: str
    """The path of its file; a string takes a quarter of the memory of a `Path`."""

    @property
    def file(self) -> Path:
        return Path(self.path)


SelectedCase = ReplayCase | Unusable


class IndexedCases(Struct, frozen=True, kw_only=True):
    """The cases of a project, in order; those with files of their own are not held in memory."""

    all: tuple[SelectedCase | FiledCase, ...]
    notices: tuple[str, ...] = ()
    read: Callable[[CaseFile | SessionFile | Unusable], SelectedCase]

    def load(self, indexed: SelectedCase | FiledCase) -> SelectedCase:
        """Return a case, reading its file if it is not in memory."""
        if not isinstance(indexed, FiledCase):
            return indexed
        try:
            ((_, sort),) = files_at(indexed.file)
        except UsageError as error:
            return Unusable(id=indexed.id, file=indexed.file, error=error)
        if sort is not None:
            subject = self.read(sort)
            if isinstance(subject, Unusable) or subject.id == indexed.id:
                return subject
        changed = InvalidFile(f"it was the case {indexed.id!r} when it was first read", file=str(indexed.file))
        return Unusable(id=indexed.id, file=indexed.file, error=changed)


class SelectedCases(Struct, frozen=True, kw_only=True):
    """The cases to replay, in order, and notices for the user."""

    all: tuple[SelectedCase, ...]
    notices: tuple[str, ...] = ()

    @property
    def cases(self) -> list[ReplayCase]:
        """The cases that can be replayed."""
        return [subject for subject in self.all if isinstance(subject, ReplayCase)]

    @property
    def unusable(self) -> list[Unusable]:
        """The cases that cannot be replayed, with their errors."""
        return [subject for subject in self.all if isinstance(subject, Unusable)]


def select_cases(
    project: Project | None, paths: Sequence[Path] = (), *, more: Sequence[Session | Unusable] = ()
) -> SelectedCases:
    """Return the cases and sessions at these paths; without paths, all that the configuration selects.

    `more` are sessions of its sources; one whose id is already selected is the same run, and not replayed twice.
    """
    reader: _CaseReader[SelectedCase] = _CaseReader(project)
    if paths:
        at_paths, notices_at = reader.at(paths)
        return SelectedCases(all=refuse_duplicate_ids(at_paths), notices=notices_at)
    if project is None:
        raise UsageError("nothing to replay", hint="Name a case or a session; or a configuration: -c replaykit.yaml")
    selected, notices = _selected(project, reader, more)
    return SelectedCases(all=refuse_duplicate_ids(selected), notices=notices)


def index_cases(project: Project, *, more: Sequence[Session | Unusable] = ()) -> IndexedCases:
    """Return what `select_cases` would for the whole configuration, without holding the cases in memory."""
    reader: _CaseReader[FiledCase] = _CaseReader(project, keep=_filed)
    selected, notices = _selected(project, reader, more)
    return IndexedCases(all=refuse_duplicate_ids(selected), notices=notices, read=reader.read)


def case_loader(project: Project | None) -> Callable[[FiledCase], SelectedCase]:
    """Return what reads cases and sessions that were selected elsewhere, also sessions in the configuration itself."""
    reader: _CaseReader[FiledCase] = _CaseReader(project)
    files = IndexedCases(all=(), read=reader.read)
    sessions: dict[tuple[str, str], Session] = {}
    for session in () if project is None else project.sessions:
        if not isinstance(session, InvalidFile):
            sessions[session.id, str(session.file)] = session

    def load(filed: FiledCase) -> SelectedCase:
        session = sessions.get((filed.id, filed.path))
        if session is None:
            return files.load(filed)
        return reader.sessions.subject_of(session)

    return load


def _filed(subject: SelectedCase) -> SelectedCase | FiledCase:
    if isinstance(subject, Unusable):
        return subject
    return FiledCase(id=subject.id, path=str(subject.file))


def _real_path(subject: ReplayCase | Unusable | FiledCase) -> str:
    return os.path.realpath(subject.file)


def _selected(
    project: Project, reader: _CaseReader[Entry], more: Sequence[Session | Unusable]
) -> tuple[list[SelectedCase | Entry], tuple[str, ...]]:
    """Return the cases that the configuration selects, and notices."""
    selected: list[SelectedCase | Entry] = []
    for index, session in enumerate(project.sessions):
        selected.append(reader.sessions.subject_of(session, f"replays.sessions[{index}]"))
    named = set(map(_real_path, selected))
    by_file, notices, empty = reader.below(project)
    selected += [subject for file, subject in by_file.items() if file not in named]
    ids = {subject.id for subject in selected}
    for source in more:
        if source.id not in ids:
            ids.add(source.id)
            selected.append(source if isinstance(source, Unusable) else reader.sessions.subject_of(source))
    if not selected:
        if empty:
            raise empty[0]
        hint = "Add `cases: [cases]`, or sessions under `replays:`."
        raise NothingSelected(f"{project.file} names no case and no session", hint=hint)
    return selected, tuple(notices)


def load_case_or_session(file: Path) -> ReplayCase:
    """Load the case or session in a file, with the configuration of the working directory."""
    from replaykit.project.project import load_project  # noqa: PLC0415 (slow to import, as in `_Reader`)

    config = find_project()
    (subject,) = select_cases(None if config is None else load_project(config), [file]).all
    if isinstance(subject, Unusable):
        raise subject.error
    return subject


Entry = TypeVar("Entry", bound=ReplayCase | Unusable | FiledCase)


class _CaseReader(Generic[Entry]):
    """Reads files as cases, with the contracts of a configuration; `keep` decides what is held of each case."""

    def __init__(self, project: Project | None, keep: Callable[[SelectedCase], Any] = lambda subject: subject) -> None:
        self._project = project
        self._keep = keep

    @cached_property
    def sessions(self) -> SessionCases:
        """The sessions of the configuration; without one, each session names its contract's file."""
        from replaykit.project.session_cases import SessionCases  # noqa: PLC0415 (slow to import; cases have no contract)

        return SessionCases(self._project)

    def at(self, paths: Sequence[Path]) -> tuple[list[Entry | Unusable], tuple[str, ...]]:
        """Return the cases at the paths, and notices. A file appears once, even if several paths lead to it."""
        by_path: dict[str, Entry | Unusable] = {}
        notices = []
        for path in paths:
            for file, sort in files_at(path):
                if sort is None:
                    notices.append(f"{file} is neither a case nor a session: passed over")
                else:
                    by_path[str(file)] = self._keep(self.read(sort))
        subjects = list(by_path.values())
        if len(paths) > 1:  # different paths can lead to one file: keep the first
            subjects = list({_real_path(subject): subject for subject in reversed(subjects)}.values())[::-1]
        return subjects, tuple(notices)

    def below(self, project: Project) -> tuple[dict[str, Entry | Unusable], list[str], list[NothingSelected]]:
        """Return the cases at the configuration's paths by file, notices, and the errors of empty directories."""
        by_file: dict[str, Entry | Unusable] = {}
        notices: list[str] = []
        empty: list[NothingSelected] = []
        for index, path in enumerate(project.cases):
            if not path.exists():
                hint = "Paths are relative to the configuration: name a case, a session, or a directory of them."
                raise project.error(f"cases: {str(path)!r} does not exist", ("cases", index), hint=hint)
            try:
                subjects, notices_at = self.at([path])
            except NothingSelected as error:
                empty.append(error)
                notices_at, subjects = (error.message,), []
            notices += notices_at
            for subject in subjects:
                by_file.setdefault(_real_path(subject), subject)
        return by_file, notices, empty

    def read(self, source: CaseFile | SessionFile | Unusable) -> SelectedCase:
        """Read the case or session in a file; any flaw makes it unusable."""
        if isinstance(source, Unusable):
            return source
        try:
            if isinstance(source, CaseFile):
                return load_case(source.file)
            return self.sessions.read(source.document)
        except (UsageError, FormatTooNew) as error:
            return unusable(file_of(source), error)


_HINT = "Give each an id of its own: reports and evidence go by it."


Subject = TypeVar("Subject", bound=ReplayCase | Unusable | FiledCase)


def refuse_duplicate_ids(subjects: Sequence[Subject]) -> tuple[Subject | Unusable, ...]:
    """Return the cases, with those that share an id made unusable."""
    indexes_by_id: dict[str, list[int]] = {}
    for index, subject in enumerate(subjects):
        if not isinstance(subject, Unusable):
            indexes_by_id.setdefault(subject.id, []).append(index)
    checked: list[Subject | Unusable] = list(subjects)
    for indexes in indexes_by_id.values():
        if len(indexes) > 1:
            for index, wrong in zip(indexes, _unusable([subjects[index] for index in indexes]), strict=True):
                checked[index] = wrong
    return tuple(checked)


def _unusable(cases: Sequence[Subject]) -> Iterator[Unusable]:
    """Yield an error for each of the cases that share one id; it names the others."""
    lines: dict[Path, Iterator[int | None]] = {}
    places = [(str(case.file), next(lines.setdefault(case.file, _lines(case)), None)) for case in cases]
    for number, (case, (file, line)) in enumerate(zip(cases, places, strict=True)):
        others = [f"{other}:{at}" if at else other for index, (other, at) in enumerate(places) if index != number]
        message = f"the id {case.id!r} is also that of {', '.join(others)}"
        yield Unusable(id=case.id, file=case.file, error=InvalidFile(message, file=file, line=line, hint=_HINT))


def _lines(case: ReplayCase | Unusable | FiledCase) -> Iterator[int | None]:
    """Yield the lines of a file that hold this id: in a configuration, one for each session with it."""
    try:
        document = load_document(case.file, limit_bytes=MAX_CASE_BYTES)
    except ReplayKitError:  # the file is gone; the error still names the id
        return
    yield from document.lines(list(_places(document, case.id)))


def _places(document: Document, name: str) -> Iterator[DocumentPath]:
    value = as_object(document.value)
    if value.get("id") == name:
        yield ("id",)
    sessions = as_object(value.get("replays")).get("sessions")
    for index, session in enumerate(sessions if isinstance(sessions, list) else ()):
        if as_object(session).get("id") == name:
            yield ("replays", "sessions", index, "id")
