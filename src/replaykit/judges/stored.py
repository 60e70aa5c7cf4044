"""Judgements at rest: one file beside the case, one entry per question, so that a diff reads well."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from replaykit.checks.questions import Answer, Judgement, Question, Told
from replaykit.checks.rule import CannotTell
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.judges.judge import PERSON, About, Judge, key_of
from replaykit.judges.keeping import Kept, change_kept, read_kept
from replaykit.model.values import canonical

FILE = "judgements.json"
FORMAT = 1
"""Version of the file; readers accept every older one."""
_KEPT = Kept(FILE, FORMAT, "judgements")
_EXCERPT_CHARS = 300


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer that was given."""

    key: str
    """See `key_of`."""
    rubric: str
    answer: Answer
    by: str
    reason: str = ""
    score: float | None = None
    label: str | None = None
    output: str = ""
    """The beginning of what was judged, for people."""

    def told(self, question: Question) -> Told:
        """The answer, as whoever asks is told it; one that is no answer to this question is none."""
        if self.answer is Answer.UNSURE:
            return Told(status="unjudged", by=self.by, reason=f"unsure: {self.reason}")
        if not Judgement(self.answer, self.reason, self.score, self.label).is_answer_to(question):
            return Told(status="unjudged", by=self.by, reason="the stored answer is not what was asked for")
        return Told(status=self.answer.value, by=self.by, reason=self.reason, score=self.score, label=self.label)


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

    def told(self, question: Question) -> Told:
        """What is known about a question; without a judge it waits for a person, unless one has answered it before."""
        entry = self.find(question)
        if entry is not None:
            return entry.told(question)
        if self.judge is None and not self.knows(question.rubric):
            return Told(status="needs_human")
        return Told(status="unjudged", reason="nobody has judged this output")

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
            score=judgement.score,
            label=judgement.label,
            output=canonical(question.output).decode()[:_EXCERPT_CHARS],
        )
        kept = {old.key: old for old in self.judgements} | {entry.key: entry}
        entries = tuple(sorted(kept.values(), key=lambda one: (one.rubric, one.by, one.key)))
        return Judgements(replaykit=FORMAT, judge=self.judge if by == PERSON else by, judgements=entries)


NONE = Judgements(replaykit=FORMAT)


def read_judgements(directory: Path) -> Judgements:
    """What is stored beside a case; nothing when there is no file, and `InvalidFile` when it is none of ours."""
    return read_kept(directory, _KEPT, Judgements) or NONE


def add_judgement(directory: Path, question: Question, judgement: Judgement, by: About) -> None:
    """Store one answer. Whoever else writes meanwhile loses nothing: they take turns."""
    change_kept(directory, _KEPT, lambda: read_judgements(directory).plus(question, judgement, by))


class StoredAnswers:
    """The answers beside a case or a configuration, looked up for assertions; `where` names it on a command line."""

    def __init__(self, directory: Path, where: str) -> None:
        self._directory = directory
        self._where = where

    @property
    def hint(self) -> str:
        return f"Ask the judge: replaykit judge {self._where} --record\nOr answer it:  replaykit review {self._where}"

    def told(self, question: Question) -> Told:
        return self._known.told(question)

    @cached_property
    def _known(self) -> Judgements:
        try:
            return read_judgements(self._directory)
        except (InvalidFile, FormatTooNew) as error:
            raise CannotTell(error.message, hint=error.hint) from None


class ProjectAnswers(StoredAnswers):
    """The answers beside a configuration. With a judge, what nobody has answered is asked, and stored."""

    def __init__(self, directory: Path, command: str, judge: Judge | None = None) -> None:
        super().__init__(directory, "")
        self._command = command
        self._judge = judge
        self._lock = threading.Lock()

    @property
    def hint(self) -> str:
        return f"Ask the judge: replaykit {self._command} --ask-judge"

    def told(self, question: Question) -> Told:
        if self._judge is None:
            return super().told(question)
        with self._lock:  # the same question from two runs is asked once
            known = read_judgements(self._directory).find(question, self._judge.about)
            if known is None:
                add_judgement(self._directory, question, self._judge.judge(question), self._judge.about)
            return read_judgements(self._directory).told(question)
