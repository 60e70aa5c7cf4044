"""Files of answers: read whole or not at all, written by one process at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from replaykit.documents.confined_path import confined_path
from replaykit.documents.document import read_bytes
from replaykit.errors import FormatTooNew, InvalidFile, StoreError
from replaykit.model.json_positions import line_of, split_where
from replaykit.model.nesting import decode_json
from replaykit.redaction.files import clean_struct, file_redactor, refuse_leaks

MAX_BYTES = 16 * 1024 * 1024
T = TypeVar("T", bound=Struct)


class AnswerFile(Struct, frozen=True):
    """A file of answers: its name, the newest version that can be read, and a word for its content."""

    name: str
    format: int
    holds: str


def read_answers(directory: Path, answer_file: AnswerFile, content_type: type[T]) -> T | None:
    """Return the content of the file; None when there is none, and `InvalidFile` when it is none of ours."""
    file = _place(directory, answer_file)
    if not os.path.lexists(file):
        return None
    text = read_bytes(file, limit_bytes=MAX_BYTES)
    try:
        version = decode_json(text, _AnswerFileVersion).replaykit
        if version > answer_file.format:
            raise FormatTooNew(
                f"{file}: format {version} of {answer_file.holds}, this version reads up to {answer_file.format}"
            )
        return decode_json(text, content_type)
    except msgspec.MsgspecError as error:
        message, path = split_where(str(error))
        hint = "Repair it from git, or delete it and ask again."
        raise InvalidFile(message, file=str(file), line=line_of(text, path) if path else None, hint=hint) from None


def change_answers(directory: Path, answer_file: AnswerFile, change: Callable[[], Struct]) -> None:
    """Write what `change` makes of the file. Whoever else writes meanwhile loses nothing: they take turns."""
    file = _place(directory, answer_file)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with _DirectoryLock(directory):
            redactor = file_redactor()
            text = msgspec.json.format(msgspec.json.encode(clean_struct(change(), redactor)), indent=2) + b"\n"
            refuse_leaks({str(file): text}, redactor)
            draft.write_bytes(text)
            draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StoreError(f"{file} cannot be written: {error.strerror}") from None


class _AnswerFileVersion(Struct):
    replaykit: int


class _DirectoryLock:
    """Only one process at a time is inside; where the system has no such lock, as many as come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        self._handle = os.open(self._directory, os.O_RDONLY)
        try:
            import fcntl  # noqa: PLC0415 (not on every system)
        except ImportError:
            return
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def _place(directory: Path, answer_file: AnswerFile) -> Path:
    try:
        return confined_path(directory, answer_file.name)
    except ValueError as error:
        raise InvalidFile(str(error), file=str(directory / answer_file.name)) from None
