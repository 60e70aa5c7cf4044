"""Questions that no rule can decide, their possible answers, and the assertions that ask them.

Checking such an assertion asks nobody: it looks up the stored answer to exactly this question; see `replaykit.judges`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from replaykit.checks.reading import last_seq, one_or_more, short, shown, shown_output
from replaykit.checks.rule import CannotTell, Context, Rule, Seen, Share, register
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw, decode, raw


class Answer(StrEnum):
    """The verdict of a judge."""

    PASS = "pass"
    FAIL = "fail"
    VALUE = "given"  # the requested number or label
    UNSURE = "unsure"  # or an answer that could not be read: never a pass


class Asks(StrEnum):
    """The kind of answer that a question asks for."""

    VERDICT = "verdict"  # pass or fail
    SCORE = "score"  # a number from 0 to 1
    LABEL = "label"  # one of the labels


class Question(Struct, frozen=True, kw_only=True):
    """One criterion about one run: its input, its status, and its output."""

    rubric: str
    input_json: Raw = NULL
    status: str = "success"
    output_json: Raw = NULL
    asks: Asks = Asks.VERDICT
    steps: tuple[str, ...] = ()
    """Instructions for the judge, step by step; often empty."""
    labels: tuple[str, ...] = ()
    """The labels to choose from, if the question asks for one."""
    reference_json: Raw = ABSENT
    """The reference that the output is compared with, if any."""
    calls_json: Raw = ABSENT
    """The agent's tool calls and their results, if they are shown."""

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
    """An answer and the reason for it."""

    answer: Answer
    reason: str = ""
    score: float | None = None
    label: str | None = None

    def is_answer_to(self, question: Question) -> bool:
        """Return whether the answer has the kind that the question asks for."""
        if question.asks is Asks.VERDICT:
            return self.answer in (Answer.PASS, Answer.FAIL)
        if question.asks is Asks.LABEL:
            return self.answer is Answer.VALUE and self.label in question.labels
        return self.answer is Answer.VALUE and self.score is not None and 0 <= self.score <= 1


class KnownAnswer(Struct, frozen=True, kw_only=True):
    """The stored answer to a question."""

    status: str
    """pass, fail or given; unjudged or needs_human without a usable answer."""
    by: str = ""
    reason: str = ""
    score: float | None = None
    label: str | None = None


class Answers(Protocol):
    """A source of stored answers."""

    def look_up(self, question: Question) -> KnownAnswer:
        """Return the stored answer to the question; raise `CannotTell` if it cannot be read."""

    @property
    def hint(self) -> str:
        """The command to run if there is no answer."""


def question_of(rubric: str, run: TraceRun, *, with_calls: bool = False, **parts: Any) -> Question:
    """Return the question whether this sentence is true of the run; `parts` are further fields of it."""
    if with_calls:
        parts["calls_json"] = raw(list(map(_shown, run.tool_calls)))
    output = run.output_json or NULL
    return Question(rubric=rubric, input_json=run.input_json, status=run.status.value, output_json=output, **parts)


def _shown(call: ToolCall) -> JsonObject:
    question = {"tool": call.name, "arguments": call.arguments}
    if call.items_json is not None:
        question["result"] = call.items
    elif call.error is None:
        question["result"] = call.result
    if call.error is not None:
        question["error"] = str(call.error)
    return question


_FACTUAL = (
    "The output agrees with the reference: it gives what the reference says as far as the input asks for it, and "
    "nothing in it contradicts the reference. Other words, another order and more detail do no harm."
)
_FAITHFUL = (
    "Every statement of fact in the output is supported by the input or by what the calls gave back. "
    "Saying that something is not known, and being polite, are no statements of fact."
)
_FITS = "Choose the label that fits the output best."
_CALLS = "true: the judge is shown the tool calls and their answers as well"


class JudgeRule(Rule, frozen=True, kw_only=True):
    """A rule that needs a judge's answer: the question about a run, and the answers that satisfy it."""

    is_judged = True

    def __post_init__(self) -> None:
        for name in ("reference", "rubric"):
            if not getattr(self, name, name).strip():
                raise ValueError(f"expected some text in `{name}`")

    def question(self, run: TraceRun) -> Question:
        """Return the question about the run."""
        raise NotImplementedError

    @property
    def sentence(self) -> str:
        """The sentence that has to be true."""
        raise NotImplementedError

    def is_met(self, answer: KnownAnswer) -> bool:
        """Return whether an answer satisfies the rule."""
        return answer.status == "pass"

    def check(self, run: TraceRun, context: Context) -> Seen:
        answer = _known_answer(self.question(run), context)
        why = f": {short(answer.reason)}" if answer.reason else ""
        return Seen(
            holds=self.is_met(answer),
            text=f"{answer.by} says {answer_text(answer)}{why}",
            expected=f"a judge to find: {short(self.sentence)}",
            actual=f"{answer_text(answer)}{why} ({shown_output(run)})",
            seq=last_seq(run),
        )


@register("judge.rubric")
class JudgeRubric(JudgeRule, frozen=True, kw_only=True):
    """A judge finds this criterion met, like the sentences under `semantic:` in a case.

    [Judges](judges.md) explains who judges, and how answers are stored and looked up. Checking never asks a judge:
    without a stored answer to this question about this output, the verdict is `inconclusive`.
    """

    plain = "rubric"
    notes = {"rubric": "a sentence that is true of a good answer", "calls": _CALLS}
    examples = (
        "judge.rubric: The answer explains the charge without blaming the customer",
        "judge.rubric: {rubric: The goal of the user is reached, calls: true}",
    )
    rubric: str
    calls: bool = False

    @property
    def sentence(self) -> str:
        return self.rubric

    def question(self, run: TraceRun) -> Question:
        return question_of(self.rubric, run, with_calls=self.calls)


@register("judge.score")
class JudgeScore(JudgeRule, frozen=True, kw_only=True):
    """A judge rates how well a criterion is met, from 0 to 1, and the rating is at least this high.

    `steps` tell the judge how to proceed. The rating is stored without the threshold, which may change later.
    """

    notes = {
        "rubric": "what is rated",
        "at_least": "the lowest score that passes",
        "steps": "the steps that lead to the score, in order",
        "calls": _CALLS,
    }
    examples = (
        "judge.score: {rubric: How clear the answer is to a reader who is not an expert, at_least: 0.7}",
        "judge.score: {rubric: Coherence, at_least: 0.6, steps: [List the claims, See which contradict another]}",
    )
    rubric: str
    at_least: Share
    steps: list[str] = []
    calls: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.rubric}: a score of at least {self.at_least:g}"

    def is_met(self, answer: KnownAnswer) -> bool:
        return answer.score is not None and answer.score >= self.at_least - 1e-9

    def question(self, run: TraceRun) -> Question:
        return question_of(self.rubric, run, with_calls=self.calls, asks=Asks.SCORE, steps=tuple(self.steps))


@register("judge.factual")
class JudgeFactual(JudgeRule, frozen=True, kw_only=True):
    """A judge finds that the output agrees with a reference and says nothing that contradicts it."""

    plain = "reference"
    notes = {
        "reference": "the right answer, as text; a plain text sets this",
        "rubric": "your own wording of the question",
    }
    examples = ('judge.factual: "The charge of $49.99 is for the yearly plan"',)
    reference: str
    rubric: str = _FACTUAL

    @property
    def sentence(self) -> str:
        return f"The output agrees with {shown(self.reference)}"

    def question(self, run: TraceRun) -> Question:
        return question_of(self.rubric, run, reference_json=raw(self.reference))


@register("judge.faithful")
class JudgeFaithful(JudgeRule, frozen=True, kw_only=True):
    """True: a judge finds every statement in the output supported by the input and the results of tools.

    False: the judge finds one that is made up. The judge sees the tool calls and their results.
    """

    plain = "faithful"
    notes = {
        "faithful": "true, or false; a plain value sets this",
        "rubric": "your own wording of the question",
    }
    examples = ("judge.faithful: true",)
    faithful: bool = True
    rubric: str = _FAITHFUL

    @property
    def sentence(self) -> str:
        if self.faithful:
            return "The output is supported by what is known"
        return "Something in the output is made up"

    def is_met(self, answer: KnownAnswer) -> bool:
        return (answer.status == "pass") is self.faithful

    def question(self, run: TraceRun) -> Question:
        return question_of(self.rubric, run, with_calls=True)


@register("judge.label")
class JudgeLabel(JudgeRule, frozen=True, kw_only=True):
    """A judge chooses this label, or one of these, for the output."""

    notes = {
        "labels": "the labels to choose from, at least two",
        "is": "the expected label, or a list of those that pass",
        "rubric": "the criterion for the choice; default: the label that fits the output best",
    }
    examples = (
        "judge.label: {labels: [billing, shipping, other], is: billing}",
        "judge.label: {labels: [calm, annoyed, rude], is: [calm, annoyed], rubric: The tone of the output}",
    )
    labels: list[str]
    is_: str | list[str] = msgspec.field(name="is")
    rubric: str = _FITS

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ValueError("expected at least two labels, each once")
        if not self._good_labels or not set(self._good_labels) <= set(self.labels):
            raise ValueError(f"expected `is` to be among the labels {shown(self.labels)}, got {shown(self.is_)}")

    @property
    def _good_labels(self) -> list[str]:
        return one_or_more(self.is_)

    @property
    def sentence(self) -> str:
        rubric = "" if self.rubric == _FITS else f" ({self.rubric})"
        return f"Of the labels {', '.join(self.labels)}, it is {' or '.join(self._good_labels)}{rubric}"

    def is_met(self, answer: KnownAnswer) -> bool:
        return answer.label in self._good_labels

    def question(self, run: TraceRun) -> Question:
        return question_of(self.rubric, run, asks=Asks.LABEL, labels=tuple(self.labels))


def answer_text(answer: KnownAnswer) -> str:
    """Return an answer in one word: the label, the score, or the verdict."""
    if answer.label:
        return answer.label
    if answer.score is not None:
        return f"{answer.score:g}"
    return answer.status


def _known_answer(question: Question, context: Context) -> KnownAnswer:
    """Return the usable answer; raise `CannotTell` with what is missing and how to get it."""
    if context.answers is None:
        message = f"needs_human: {question.rubric!r} is judged, and nothing is stored where this run comes from"
        raise CannotTell(message, hint="Ask it of a case or a contract; see docs/judges.md.")
    answer = context.answers.look_up(question)
    if answer.status in ("unjudged", "needs_human"):
        why = answer.reason or "it was never judged"
        raise CannotTell(f"{answer.status}: {short(question.rubric)!r}, {why}", hint=context.answers.hint)
    return answer
