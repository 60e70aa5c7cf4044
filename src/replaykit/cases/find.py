"""Find cases and sessions: a file, a case's directory, or a directory that contains any of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import CASE_FILE, MAX_CASE_BYTES
from replaykit.cases.fixtures import FIXTURES
from replaykit.cases.proof import is_proof
from replaykit.cases.session_shape import looks_like_session
from replaykit.cases.takes import holds_takes
from replaykit.documents.document import Document, load_document
from replaykit.errors import InvalidFile, NothingSelected, ReplayKitError, UsageError
from replaykit.model.values import Json

SUFFIXES = (".yaml", ".yml", ".json")
_WORDS_OF_OTHERS = frozenset({"agent", "contracts", "invariants", "replays", "chaos", "chaos_matrix"})


class Unusable(Struct, frozen=True, kw_only=True):
    """A file or directory in the place of a case that cannot be used as one."""

    id: str
    file: Path
    error: ReplayKitError
    command: str = ""
    """The command that shows more, if it is not `lint`."""

    @property
    def reason(self) -> str:
        """The error, with file and line."""
        return str(self.error)


class CaseFile(Struct, frozen=True):
    """A file that holds a case."""

    file: Path


class SessionFile(Struct, frozen=True):
    """A session file and its content."""

    document: Document


class FoundCases(Struct, frozen=True, kw_only=True):
    """The cases at some paths, in order; `passed_over` are other files."""

    files: tuple[CaseFile | SessionFile | Unusable, ...]
    passed_over: tuple[Path, ...] = ()


def find_files(paths: Iterable[Path]) -> FoundCases:
    """Return the cases and sessions at these paths, without duplicates; directories are searched by name."""
    files: dict[Path, CaseFile | SessionFile | Unusable] = {}
    passed_over: list[Path] = []
    for path in paths:
        for file, sort in files_at(path):
            if sort is None:
                passed_over.append(file)
            else:
                files[file] = sort
    return FoundCases(files=tuple(files.values()), passed_over=tuple(passed_over))


def files_at(path: Path) -> Iterator[tuple[Path, CaseFile | SessionFile | Unusable | None]]:
    """Yield each candidate file at a path with what it is; None for one that is neither a case nor a session."""
    if path.is_dir():
        is_empty = True
        for file, sort in _below(path):
            is_empty = is_empty and sort is None
            yield file, sort
        if is_empty:
            raise NothingSelected(f"{str(path)!r} contains no case and no session", hint=_HOW_TO_MAKE.format(path=path))
    elif path.exists():
        yield path, _named(path)
    else:
        hint = "A CASE is a case.yaml, a session file, or a directory of them."
        raise UsageError(f"{str(path)!r} does not exist", hint=hint)


_HOW_TO_MAKE = "Make one: replaykit scaffold TRACE --out {path}/NAME"


def find_case_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files of `find_files`, good or bad."""
    return list(map(file_of, find_files(paths).files))


def file_of(source: CaseFile | SessionFile | Unusable) -> Path:
    """Return the path of a case or session."""
    if isinstance(source, SessionFile):
        return Path(source.document.file)
    return source.file


def unusable(file: Path, error: ReplayKitError) -> Unusable:
    """Return the entry for an invalid file."""
    return Unusable(id=file.parent.name if file.name == CASE_FILE else file.stem, file=file, error=error)


def _walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the directories of a tree, without hidden ones and takes, with their sorted file names."""
    for directory, inner, files in os.walk(root):
        beside_case = CASE_FILE in files
        hidden = [name for name in inner if name.startswith(".") or holds_takes(name, beside_case=beside_case)]
        inner[:] = sorted(set(inner).difference(hidden))
        yield Path(directory), sorted(files)


def _below(root: Path) -> Iterator[tuple[Path, CaseFile | SessionFile | Unusable | None]]:
    """Yield each candidate file below a directory with what it is; None if it is neither a case nor a session."""
    if (root / CASE_FILE).is_file():
        yield root / CASE_FILE, CaseFile(root / CASE_FILE)
        return
    cases: set[Path] = set()
    for directory, files in _walk(root):
        if CASE_FILE in files:
            cases.add(directory)
            yield directory / CASE_FILE, CaseFile(directory / CASE_FILE)
        elif directory.name == FIXTURES and directory.parent in cases:
            continue
        else:
            for name in files:
                if name.lower().endswith(SUFFIXES) and not is_proof(name):
                    yield from _sessions_in(directory / name)


def _sessions_in(file: Path) -> Iterator[tuple[Path, SessionFile | Unusable | None]]:
    """Yield what a file in a directory holds, judged by its keys."""
    try:
        document = load_document(file, limit_bytes=MAX_CASE_BYTES)
    except InvalidFile as error:
        yield file, unusable(file, error)
        return
    if looks_like_session(document.value):
        yield file, SessionFile(document)
    elif document.value is None:
        yield file, unusable(file, InvalidFile("the file is empty", file=str(file)))
    elif not _is_known(document.value):
        yield file, None


def _is_known(value: Json) -> bool:
    """True for a configuration or a contract, which may lie beside sessions."""
    return isinstance(value, dict) and bool(value.keys() & _WORDS_OF_OTHERS)


def _named(file: Path) -> CaseFile | SessionFile | Unusable:
    """Return what a file is that the user named."""
    if file.name == CASE_FILE:
        return CaseFile(file)
    try:
        document = load_document(file, limit_bytes=MAX_CASE_BYTES)
    except InvalidFile as error:
        return unusable(file, error)
    value = document.value
    if looks_like_session(value):
        return SessionFile(document)
    if isinstance(value, dict) and "replaykit" in value and not _is_known(value):
        return CaseFile(file)
    hint = "A session has an id, an input and a contract; a case begins with `replaykit: 2`."
    problem = "the file is empty" if value is None else "neither a case nor a session"
    return unusable(file, document.error(problem, hint=hint))
