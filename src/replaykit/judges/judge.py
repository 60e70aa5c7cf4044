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
    "Answer",
    "Asks",
    "Judge",
    "JudgeFailed",
    "JudgeId",
    "Judgement",
    "Question",
    "key_of",
    "question_of",
]


class JudgeId(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of a judge: everything but the question that its answer depends on."""

    name: str
    """openai, anthropic, python, or person."""
    model: str = ""
    parameters: dict[str, Json] = {}

    def __str__(self) -> str:
        if self.model:
            return f"{self.name}:{self.model}"
        return self.name


PERSON = JudgeId(name="person")


@runtime_checkable
class Judge(Protocol):
    """A judge of questions."""

    @property
    def identity(self) -> JudgeId:
        """The identity of the judge."""

    def judge(self, question: Question) -> Judgement:
        """The answer; `JudgeFailed` when there is none to be had."""


class JudgeFailed(ReplayKitError):
    """The judge could not be asked, or gave no answer at all."""


def key_of(question: Question, identity: JudgeId) -> str:
    """The hash of everything an answer depends on: equal keys are the same question to the same judge."""
    content = {
        "judge": identity.name,
        "model": identity.model,
        "parameters": identity.parameters,
        "prompt": "" if identity == PERSON else system_of(question),
        "rubric": question.rubric,
        "input": question.input,
        "status": question.status,
        "output": question.output,
        **_optional_members(question),
    }
    return hashlib.sha256(canonical(content)).hexdigest()


def _optional_members(question: Question) -> dict[str, Json]:
    """Return the members that only some questions have; the keys of other questions do not change by them."""
    members: dict[str, Json] = {}
    if question.asks is not Asks.VERDICT:
        members["asks"] = question.asks.value
    if question.steps:
        members["steps"] = list(question.steps)
    if question.labels:
        members["labels"] = list(question.labels)
    if question.reference_json:
        members["reference"] = question.reference
    if question.calls_json:
        members["calls"] = question.calls
    return members
