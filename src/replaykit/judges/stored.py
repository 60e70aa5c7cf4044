"""Judgements at rest: one file beside the case, one entry per question, so that a diff reads well."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.confine import inside
from replaykit.cases.document import read_bytes
from replaykit.errors import FormatTooNew, InvalidFile, StoreError
from replaykit.judges.judge import PERSON, About, Answer, Judgement, Question, key_of
from replaykit.model.lines import line_of, split_where
from replaykit.model.values import canonical

FILE = "judgements.json"
FORMAT = 1
"""Version of the file; readers accept every older one."""
MAX_BYTES = 16 * 1024 * 1024
_EXCERPT_CHARS = 300


class Entry(Struct, frozen=True, kw_only=True):
    """One answer that was given."""

    key: str
    """See `key_of`."""
    rubric: str
    answer: Answer
    by: str
    reason: str = ""
    output: str = ""
    """The beginning of what was judged, for people."""


class Judgements(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answers that are known, and the judge that is asked where there is none."""

    replaykit: int
    judge: About | None = None
    judgements: tuple[Entry, ...] = ()

    def find(self, question: Question, judge: About | None = None) -> Entry | None:
        """The answer to a question: a person's before a judge's."""
        known = {entry.key: entry for entry in self.judgements}
        whom = judge or self.judge
        by_person = known.get(key_of(question, PERSON))
        return by_person or (known.get(key_of(question, whom)) if whom is not None else None)

    def knows(self, rubric: str) -> bool:
        """True when somebody has judged this sentence before, of this output or another."""
        return any(entry.rubric == rubric for entry in self.judgements)

    def plus(self, question: Question, judgement: Judgement, by: About) -> Judgements:
        """These and one more; a judge that answers is the one that is asked from then on."""
        entry = Entry(
            key=key_of(question, by),
            rubric=question.rubric,
            answer=judgement.answer,
            by=str(by),
            reason=judgement.reason,
            output=canonical(question.output).decode()[:_EXCERPT_CHARS],
        )
        kept = {old.key: old for old in self.judgements} | {entry.key: entry}
        entries = tuple(sorted(kept.values(), key=lambda one: (one.rubric, one.by, one.key)))
        return Judgements(replaykit=FORMAT, judge=self.judge if by == PERSON else by, judgements=entries)


NONE = Judgements(replaykit=FORMAT)


def read_judgements(directory: Path) -> Judgements:
    """What is stored beside a case; nothing when there is no file, and `InvalidFile` when it is none of ours."""
    file = _place(directory)
    if not os.path.lexists(file):
        return NONE
    text = read_bytes(file, limit_bytes=MAX_BYTES)
    try:
        version = msgspec.json.decode(text, type=_Version).replaykit
        if version > FORMAT:
            raise FormatTooNew(
                f"{file}: format {version} of judgements, this version reads up to {FORMAT}",
                hint="Update ReplayKit: pip install --upgrade agent-replaykit",
            )
        return msgspec.json.decode(text, type=Judgements)
    except (msgspec.MsgspecError, RecursionError) as error:
        message, path = split_where(str(error))
        hint = "Repair it from git, or delete it and judge again."
        raise InvalidFile(message, file=str(file), line=line_of(text, path) if path else None, hint=hint) from None


def add_judgement(directory: Path, question: Question, judgement: Judgement, by: About) -> None:
    """Store one answer. Whoever else writes meanwhile loses nothing: they take turns."""
    file = _place(directory)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with _turn(directory):
            found = read_judgements(directory).plus(question, judgement, by)
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
            draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StoreError(f"{file} cannot be written: {error.strerror}") from None


class _Version(Struct):
    replaykit: int


class _turn:
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


def _place(directory: Path) -> Path:
    try:
        return inside(directory, FILE)
    except ValueError as error:
        raise InvalidFile(str(error), file=str(directory / FILE)) from None
