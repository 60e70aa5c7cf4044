"""Questions that no rule can decide: what is asked about a run, what may be said, and who knows what was."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, NULL, Json, Raw, decode, raw


class Answer(StrEnum):
    """The verdict of a judge."""

    PASS = "pass"
    FAIL = "fail"
    GIVEN = "given"  # the number or the label that was asked for
    UNSURE = "unsure"  # or an answer that could not be read: never a pass


class Asks(StrEnum):
    """The kind of answer that a question asks for."""

    VERDICT = "verdict"  # pass or fail
    SCORE = "score"  # a number from 0 to 1
    LABEL = "label"  # one of the labels


class Question(Struct, frozen=True, kw_only=True):
    """One criterion, and the run that it is asked about: the input, how it ended, and the output."""

    rubric: str
    input_json: Raw = NULL
    status: str = "success"
    output_json: Raw = NULL
    asks: Asks = Asks.VERDICT
    steps: tuple[str, ...] = ()
    """Instructions for the judge, one by one; often none."""
    labels: tuple[str, ...] = ()
    """Those to choose from, where it asks for one."""
    reference_json: Raw = ABSENT
    """The reference that the output is compared with, if any."""
    calls_json: Raw = ABSENT
    """The agent's tool calls with their answers, where they are shown."""

    @property
    def input(self) -> Json:
        return decode(self.input_json)

    @property
    def output(self) -> Json:
        return decode(self.output_json)

    @property
    def reference(self) -> Json:
        if self.reference_json:
            return decode(self.reference_json)
        return None

    @property
    def calls(self) -> list[Json]:
        if self.calls_json:
            return list(decode(self.calls_json))
        return []


class Judgement(Struct, frozen=True):
    """An answer, and why."""

    answer: Answer
    reason: str = ""
    score: float | None = None
    label: str | None = None

    def is_answer_to(self, question: Question) -> bool:
        """True when it is of the sort that the question asks for."""
        if question.asks is Asks.VERDICT:
            return self.answer in (Answer.PASS, Answer.FAIL)
        if question.asks is Asks.LABEL:
            return self.answer is Answer.GIVEN and self.label in question.labels
        return self.answer is Answer.GIVEN and self.score is not None and 0 <= self.score <= 1


class KnownAnswer(Struct, frozen=True, kw_only=True):
    """The stored answer to a question."""

    status: str
    """pass, fail or given; unjudged or needs_human where there is no answer to go by."""
    by: str = ""
    reason: str = ""
    score: float | None = None
    label: str | None = None


class Answers(Protocol):
    """A source of stored answers."""

    def look_up(self, question: Question) -> KnownAnswer:
        """Return the stored answer to the question; `CannotTell` when that cannot be read."""

    @property
    def hint(self) -> str:
        """The command to type where there is no answer."""


def question_of(rubric: str, run: TraceRun, *, with_calls: bool = False) -> Question:
    """The question whether this sentence is true of the run."""
    return Question(
        rubric=rubric,
        input_json=run.input_json,
        status=run.status.value,
        output_json=run.output_json or NULL,
        calls_json=raw([_shown(call) for call in run.tool_calls]) if with_calls else ABSENT,
    )


def _shown(call: ToolCall) -> dict[str, Json]:
    answer = {"error": str(call.error)} if call.error is not None else {"result": call.result}
    if call.items_json is not None:
        answer = {"result": call.items, **({} if call.error is None else answer)}
    return {"tool": call.name, "arguments": call.arguments, **answer}
