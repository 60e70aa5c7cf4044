"""Stored judgements: one file beside the case, with one entry per question, so that a diff reads well.

The file is read as a whole or not at all, and one process at a time writes it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from replaykit.cases.case import JUDGEMENTS_FILE
from replaykit.checks.questions import Answer, Judgement, KnownAnswer, Question
from replaykit.checks.rule import CannotTell
from replaykit.documents.document import confined_file
from replaykit.documents.struct_files import read_struct
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.judges.judge import PERSON, Judge, JudgeId, key_of
from replaykit.model.values import canonical, encode_pretty
from replaykit.redaction.files import clean_struct, file_redactor, refuse_leaks, replace_file, writing

MAX_BYTES = 16 * 1024 * 1024
T = TypeVar("T", bound=Struct)


class AnswerFile(Struct, frozen=True):
    """A file of answers: its name, the newest version that can be read, and a word for its content."""

    name: str
    format: int
    holds: str


def read_answers(directory: Path, answer_file: AnswerFile, content_type: type[T]) -> T | None:
    """Return the content of the file; None if it does not exist. Raise `InvalidFile` if its format is unknown."""
    file = confined_file(directory, answer_file.name)
    if not os.path.lexists(file):
        return None
    return read_struct(
        file,
        content_type,
        newest=answer_file.format,
        noun=f"format {{}} of {answer_file.holds}",
        limit_bytes=MAX_BYTES,
        hint="Repair it from git, or delete it and ask again.",
    )


def change_answers(directory: Path, answer_file: AnswerFile, change: Callable[[], Struct]) -> None:
    """Replace the file with the result of `change`. Writers take turns, so none loses another one's answers."""
    file = confined_file(directory, answer_file.name)
    with writing(file), _DirectoryLock(directory):
        redactor = file_redactor()
        # `change` reads the file again under the lock, so it starts from what the last writer left.
        text = encode_pretty(clean_struct(change(), redactor))
        refuse_leaks({str(file): text}, redactor)
        replace_file(file, text)


class _DirectoryLock:
    """A lock that one process at a time can hold; no lock at all on systems without `flock`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        self._handle = os.open(self._directory, os.O_RDONLY)
        try:
            import fcntl  # noqa: PLC0415 (not available on Windows)
        except ImportError:
            return
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


FORMAT = 1
"""Version of the file; readers accept every older one."""
_FILE = AnswerFile(JUDGEMENTS_FILE, FORMAT, "judgements")
_EXCERPT_CHARS = 300


class StoredJudgement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer of a judge."""

    key: str
    rubric: str
    answer: Answer
    by: str
    reason: str = ""
    score: float | None = None
    label: str | None = None
    output: str = ""
    """The beginning of the output that was judged, for people."""

    def look_up(self, question: Question) -> KnownAnswer:
        """Return the answer as an assertion sees it; one that does not fit the question counts as unjudged."""
        if self.answer is Answer.UNSURE:
            return KnownAnswer(status="unjudged", by=self.by, reason=f"unsure: {self.reason}")
        if not Judgement(self.answer, self.reason, self.score, self.label).is_answer_to(question):
            return KnownAnswer(status="unjudged", by=self.by, reason="the stored answer is not what was asked for")
        return KnownAnswer(status=self.answer.value, by=self.by, reason=self.reason, score=self.score, label=self.label)


class Judgements(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stored answers, and the judge to ask if there is none."""

    replaykit: int
    judge: JudgeId | None = None
    judgements: tuple[StoredJudgement, ...] = ()

    def find(self, question: Question, judge: JudgeId | None = None) -> StoredJudgement | None:
        """Return the answer to a question; a person's goes before a judge's."""
        known = {entry.key: entry for entry in self.judgements}
        by_person = known.get(key_of(question, PERSON))
        judge_id = judge or self.judge
        if by_person is not None or judge_id is None:
            return by_person
        return known.get(key_of(question, judge_id))

    def look_up(self, question: Question) -> KnownAnswer:
        """Return the stored answer to a question; without a judge, a new question waits for a person."""
        entry = self.find(question)
        if entry is not None:
            return entry.look_up(question)
        if self.judge is None and not self.knows(question.rubric):
            return KnownAnswer(status="needs_human")
        return KnownAnswer(status="unjudged", reason="nobody has judged this output")

    def knows(self, rubric: str) -> bool:
        """True if this sentence was judged before, for this output or another one."""
        return any(entry.rubric == rubric for entry in self.judgements)

    def plus(self, question: Question, judgement: Judgement, by: JudgeId) -> Judgements:
        """Return these judgements and one more. A judge that answers becomes the default judge."""
        entry = StoredJudgement(
            key=key_of(question, by),
            rubric=question.rubric,
            answer=judgement.answer,
            by=str(by),
            reason=judgement.reason,
            score=judgement.score,
            label=judgement.label,
            output=canonical(question.output).decode()[:_EXCERPT_CHARS],
        )
        by_key = {old.key: old for old in self.judgements} | {entry.key: entry}
        # Sorted by question, so that judgements from two branches rarely conflict.
        entries = tuple(sorted(by_key.values(), key=lambda stored: (stored.rubric, stored.by, stored.key)))
        return Judgements(replaykit=FORMAT, judge=self.judge if by == PERSON else by, judgements=entries)


NONE = Judgements(replaykit=FORMAT)


def read_judgements(directory: Path) -> Judgements:
    """Return the judgements beside a case; empty if there is no file."""
    return read_answers(directory, _FILE, Judgements) or NONE


def add_judgement(directory: Path, question: Question, judgement: Judgement, by: JudgeId) -> None:
    """Store one answer."""
    change_answers(directory, _FILE, lambda: read_judgements(directory).plus(question, judgement, by))


class StoredAnswers:
    """The answers beside a case or a configuration; `where` is how a command line names it."""

    def __init__(self, directory: Path, where: str) -> None:
        self._directory = directory
        self._where = where

    @property
    def hint(self) -> str:
        where = self._where
        return f"Ask the judge: replaykit judge {where} --ask-judge\nOr answer it:  replaykit judge review {where}"

    def look_up(self, question: Question) -> KnownAnswer:
        return self._known.look_up(question)

    @cached_property
    def _known(self) -> Judgements:
        try:
            return read_judgements(self._directory)
        except (InvalidFile, FormatTooNew) as error:
            raise CannotTell(error.message, hint=error.hint) from None


class ProjectAnswers(StoredAnswers):
    """The answers beside a configuration. With a judge, it asks and stores whatever is unanswered."""

    def __init__(self, directory: Path, command: str, judge: Judge | None = None) -> None:
        super().__init__(directory, "")
        self._command = command
        self._judge = judge
        self._lock = threading.Lock()

    @property
    def hint(self) -> str:
        return f"Ask the judge: replaykit {self._command} --ask-judge"

    def look_up(self, question: Question) -> KnownAnswer:
        if self._judge is None:
            return super().look_up(question)
        with self._lock:  # two runs may bring the same question: ask it once
            known = read_judgements(self._directory).find(question, self._judge.identity)
            if known is None:
                add_judgement(self._directory, question, self._judge.judge(question), self._judge.identity)
            return read_judgements(self._directory).look_up(question)
