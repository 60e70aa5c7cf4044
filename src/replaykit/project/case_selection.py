"""Select what is replayed: cases and sessions at some paths, or all of a configuration, each with its contract.

Reports, evidence and judgements go by ids, so none of the cases that share one runs.
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
    """A case or a session that was read once, and is read again when its turn comes: a suite may be large."""

    id: str
    path: str
    """Of the file: a text takes a quarter of the memory."""

    @property
    def file(self) -> Path:
        """The file of the case."""
        return Path(self.path)


SelectedCase = ReplayCase | Unusable


class IndexedCases(Struct, frozen=True, kw_only=True):
    """The cases of a project, in order; those in files of their own are not in memory."""

    all: tuple[SelectedCase | FiledCase, ...]
    notices: tuple[str, ...] = ()
    read: Callable[[CaseFile | SessionFile | Unusable], SelectedCase]

    def load(self, indexed: SelectedCase | FiledCase) -> SelectedCase:
        """Return a case, read from its file where it is not in memory."""
        if not isinstance(indexed, FiledCase):
            return indexed
        try:
            ((_, sort),) = files_at(indexed.file)
        except UsageError as error:
            return Unusable(id=indexed.id, file=indexed.file, error=error)
        if sort is not None:
            found = self.read(sort)
            if isinstance(found, Unusable) or found.id == indexed.id:
                return found
        changed = InvalidFile(f"it was the case {indexed.id!r} when it was first read", file=str(indexed.file))
        return Unusable(id=indexed.id, file=indexed.file, error=changed)


class SelectedCases(Struct, frozen=True, kw_only=True):
    """The cases to replay, in order, and notices for the user."""

    all: tuple[SelectedCase, ...]
    notices: tuple[str, ...] = ()

    @property
    def cases(self) -> list[ReplayCase]:
        """Those that can be replayed."""
        return [subject for subject in self.all if isinstance(subject, ReplayCase)]

    @property
    def unusable(self) -> list[Unusable]:
        """Those that cannot, and why."""
        return [subject for subject in self.all if isinstance(subject, Unusable)]


def select_cases(
    project: Project | None, paths: Sequence[Path] = (), *, more: Sequence[Session | Unusable] = ()
) -> SelectedCases:
    """The cases and sessions at these paths; without paths, all that the configuration names.

    `more` are those of its sources: one whose id is there already is the same run, and not replayed twice.
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
    """The cases and sessions that the configuration names, like `select_cases`, without holding them."""
    reader: _CaseReader[FiledCase] = _CaseReader(project, keep=_filed)
    selected, notices = _selected(project, reader, more)
    return IndexedCases(all=refuse_duplicate_ids(selected), notices=notices, read=reader.read)


def _filed(subject: SelectedCase) -> SelectedCase | FiledCase:
    if isinstance(subject, Unusable):
        return subject
    return FiledCase(id=subject.id, path=str(subject.file))


def _real_path(subject: ReplayCase | Unusable | FiledCase) -> str:
    return os.path.realpath(subject.file)


def _selected(
    project: Project, reader: _CaseReader[Entry], more: Sequence[Session | Unusable]
) -> tuple[list[SelectedCase | Entry], tuple[str, ...]]:
    """Return what the configuration names, and notices."""
    selected: list[SelectedCase | Entry] = []
    for index, session in enumerate(project.sessions):
        selected.append(reader.sessions.subject_of(session, f"replays.sessions[{index}]"))
    named = set(map(_real_path, selected))
    found, notices, empty = reader.below(project)
    selected += [subject for file, subject in found.items() if file not in named]
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
    """The case or session in a file, with the configuration of the working directory; else the error it is."""
    from replaykit.project.project import load_project  # noqa: PLC0415 (slow to import, as in `_Reader`)

    config = find_project()
    (subject,) = select_cases(None if config is None else load_project(config), [file]).all
    if isinstance(subject, Unusable):
        raise subject.error
    return subject


Entry = TypeVar("Entry", bound=ReplayCase | Unusable | FiledCase)


class _CaseReader(Generic[Entry]):
    """Reads files as subjects, with the contracts of a configuration; `keep` says what is held of each."""

    def __init__(self, project: Project | None, keep: Callable[[SelectedCase], Any] = lambda subject: subject) -> None:
        self._project = project
        self._keep = keep

    @cached_property
    def sessions(self) -> SessionCases:
        """Those of the configuration; without one each names the file of its contract."""
        from replaykit.project.session_cases import SessionCases  # noqa: PLC0415 (slow to import; cases have no contract)

        return SessionCases(self._project)

    def at(self, paths: Sequence[Path]) -> tuple[list[Entry | Unusable], tuple[str, ...]]:
        """Return the cases at the paths, and notices; a file that several paths lead to is there once."""
        found: dict[str, Entry | Unusable] = {}
        notices = []
        for path in paths:
            for file, sort in files_at(path):
                if sort is None:
                    notices.append(f"{file} is neither a case nor a session: passed over")
                else:
                    found[str(file)] = self._keep(self.read(sort))
        subjects = list(found.values())
        if len(paths) > 1:  # two paths may lead to one file; the first place it has counts
            subjects = list({_real_path(subject): subject for subject in reversed(subjects)}.values())[::-1]
        return subjects, tuple(notices)

    def below(self, project: Project) -> tuple[dict[str, Entry | Unusable], list[str], list[NothingSelected]]:
        """Return the cases at the paths of the configuration, and notices; an empty directory is only a notice."""
        found: dict[str, Entry | Unusable] = {}
        notices: list[str] = []
        empty: list[NothingSelected] = []
        for index, path in enumerate(project.cases):
            if not path.exists():
                hint = "It is looked for beside the configuration: a case, a session, or a directory of them."
                raise project.error(f"cases: {str(path)!r} does not exist", ("cases", index), hint=hint)
            try:
                subjects, notices_at = self.at([path])
            except NothingSelected as error:
                empty.append(error)
                notices_at, subjects = (error.message,), []
            notices += notices_at
            for subject in subjects:
                found.setdefault(_real_path(subject), subject)
        return found, notices, empty

    def read(self, found: CaseFile | SessionFile | Unusable) -> SelectedCase:
        """Return the case or the session in a file; what is wrong with it makes it unusable."""
        if isinstance(found, Unusable):
            return found
        try:
            if isinstance(found, CaseFile):
                return load_case(found.file)
            return self.sessions.read(found.document)
        except (UsageError, FormatTooNew) as error:
            return unusable(file_of(found), error)


_HINT = "Give each an id of its own: reports and evidence go by it."


Subject = TypeVar("Subject", bound=ReplayCase | Unusable | FiledCase)


def refuse_duplicate_ids(subjects: Sequence[Subject]) -> tuple[Subject | Unusable, ...]:
    """The subjects; those that share an id are unusable."""
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
    """Return the errors of cases that share one id."""
    lines: dict[Path, Iterator[int | None]] = {}
    places = [(str(case.file), next(lines.setdefault(case.file, _lines(case)), None)) for case in cases]
    for number, (case, (file, line)) in enumerate(zip(cases, places, strict=True)):
        others = [f"{other}:{at}" if at else other for index, (other, at) in enumerate(places) if index != number]
        message = f"the id {case.id!r} is also that of {', '.join(others)}"
        yield Unusable(id=case.id, file=case.file, error=InvalidFile(message, file=file, line=line, hint=_HINT))


def _lines(case: ReplayCase | Unusable | FiledCase) -> Iterator[int | None]:
    """The lines of its file that say the id: in a configuration as many as there are sessions with it."""
    try:
        document = load_document(case.file, limit_bytes=MAX_CASE_BYTES)
    except ReplayKitError:  # gone meanwhile: the id is told all the same
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
