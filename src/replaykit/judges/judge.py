"""Judge: somebody or something that answers a question about a run."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from replaykit.errors import ReplayKitError
from replaykit.judges.prompt import SYSTEM
from replaykit.model.run import TraceRun
from replaykit.model.values import NULL, Json, Raw, canonical, decode


class Answer(StrEnum):
    """What a judge says."""

    PASS = "pass"
    FAIL = "fail"
    UNSURE = "unsure"  # or an answer that could not be read: never a pass


class Question(Struct, frozen=True, kw_only=True):
    """One sentence, and the run that it is asked about: the input, how it ended, and the output."""

    rubric: str
    input_json: Raw = NULL
    status: str = "success"
    output_json: Raw = NULL

    @property
    def input(self) -> Json:
        return decode(self.input_json)

    @property
    def output(self) -> Json:
        return decode(self.output_json)


class Judgement(Struct, frozen=True):
    """An answer, and why."""

    answer: Answer
    reason: str = ""


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


def question_of(rubric: str, run: TraceRun) -> Question:
    """The question whether this sentence is true of the run."""
    return Question(
        rubric=rubric,
        input_json=run.input_json,
        status=run.status.value,
        output_json=run.output_json or NULL,
    )


def key_of(question: Question, about: About) -> str:
    """The hash of everything an answer depends on: equal keys are the same question to the same judge."""
    asked = {
        "judge": about.name,
        "model": about.model,
        "parameters": about.parameters,
        "prompt": "" if about == PERSON else SYSTEM,
        "rubric": question.rubric,
        "input": question.input,
        "status": question.status,
        "output": question.output,
    }
    return hashlib.sha256(canonical(asked)).hexdigest()
