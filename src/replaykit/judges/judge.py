"""Judge: somebody or something that answers a question about a run."""

from __future__ import annotations

import hashlib
from typing import Protocol, runtime_checkable

from msgspec import Struct

from replaykit.checks.questions import Answer, Asks, Judgement, Question, question_of
from replaykit.errors import ReplayKitError
from replaykit.judges.prompt import system_of
from replaykit.model.values import Json, canonical

__all__ = [
    "PERSON",
    "About",
    "Answer",
    "Asks",
    "Judge",
    "JudgeFailed",
    "Judgement",
    "Question",
    "key_of",
    "question_of",
]


class About(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which judge it is: everything but the question that its answer depends on."""

    name: str
    """openai, anthropic, python, or person."""
    model: str = ""
    parameters: dict[str, Json] = {}

    def __str__(self) -> str:
        return f"{self.name}:{self.model}" if self.model else self.name


PERSON = About(name="person")


@runtime_checkable
class Judge(Protocol):
    """Whoever answers questions."""

    @property
    def about(self) -> About:
        """Which judge it is."""

    def judge(self, question: Question) -> Judgement:
        """The answer; `JudgeFailed` when there is none to be had."""


class JudgeFailed(ReplayKitError):
    """The judge could not be asked, or gave no answer at all."""


def key_of(question: Question, about: About) -> str:
    """The hash of everything an answer depends on: equal keys are the same question to the same judge."""
    asked = {
        "judge": about.name,
        "model": about.model,
        "parameters": about.parameters,
        "prompt": "" if about == PERSON else system_of(question),
        "rubric": question.rubric,
        "input": question.input,
        "status": question.status,
        "output": question.output,
        **_further(question),
    }
    return hashlib.sha256(canonical(asked)).hexdigest()


def _further(question: Question) -> dict[str, Json]:
    """What only some questions have: the others are known by the same keys without it."""
    found: dict[str, Json] = {}
    if question.asks is not Asks.VERDICT:
        found["asks"] = question.asks.value
    if question.steps:
        found["steps"] = list(question.steps)
    if question.labels:
        found["labels"] = list(question.labels)
    if question.reference_json:
        found["reference"] = question.reference
    if question.calls_json:
        found["calls"] = question.calls
    return found
