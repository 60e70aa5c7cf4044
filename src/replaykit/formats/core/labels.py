"""Labels: judgements of a run made afterwards, such as a reward, a score, or feedback.

A label can mark a run as failed, whatever the run's own status is: the error then names the judge and the judgement,
and the metadata keeps the labels, with the expected calls and answers that they state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, encode, raw
from replaykit.wire.json_fields import as_object

LABELS = "labels"
"""The metadata key of a run's labels."""
JUDGED = "Judged"
"""The error type of a run that only a label marks as failed."""
_SHORT = 200
_READING = re.compile(
    r"(get|find|list|search|look|lookup|read|fetch|show|view|check|verify|count|describe|query|track|calculate|compute"
    r"|think|plan)(?=[_A-Z-]|$)"
)


class ExpectedCall(Struct, frozen=True, kw_only=True):
    """A tool call that a good run makes."""

    name: str
    arguments: JsonObject = field(default_factory=dict)


class Label(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One judgement."""

    name: str
    value: Json = None
    failed: bool = False
    why: str = ""
    """The judge's comment."""
    expected_calls: tuple[ExpectedCall, ...] | None = None
    """Calls that a good run makes, with at least these arguments; None if the label does not state them."""
    changing_tools: tuple[str, ...] = ()
    """Tools that change something: a good run calls them exactly as expected."""
    expected_output: tuple[str, ...] = ()
    """Texts in the answer of a good run."""
    expected_answer: str = ""
    """The answer of a good run, from a dataset's reference or a target."""
    said_anywhere: bool = False
    """The expected output may be in any message of the agent, not only in its answer."""
    criteria: tuple[str, ...] = ()
    """Sentences about a good run that only a judge can check."""

    @property
    def text(self) -> str:
        """The judgement in one line."""
        why = " ".join(self.why.split())
        statement = f"{self.name} is {encode(self.value).decode()[:_SHORT]}"
        if why:
            return f"{statement}: {why[:_SHORT]}"
        return statement


def labelled(run: TraceRun, labels: Sequence[Label]) -> TraceRun:
    """Return the run with its labels, marked as failed if one of them says so and the run itself did not fail."""
    if not labels:
        return run
    metadata = as_object(run.metadata) | {LABELS: msgspec.to_builtins(labels)}
    run = replace(run, metadata_json=raw(metadata))
    reasons = [label.text for label in labels if label.failed]
    if not reasons or run.status not in (RunStatus.SUCCESS, RunStatus.RUNNING):
        return run
    error = run.error or ErrorInfo(type=JUDGED, message="; ".join(reasons))
    return replace(run, status=RunStatus.ERROR, error=error)


def as_it_ended(run: TraceRun) -> TraceRun:
    """Return the run as it ended, without a failure that only a label states."""
    if run.error is None or run.error.type != JUDGED:
        return run
    return replace(run, status=RunStatus.SUCCESS, error=None)


def only_reads(tool: str) -> bool:
    """Return whether a tool changes nothing, judged by the verb in its name: `get_user`, `searchFlights`, `think`."""
    return _READING.match(tool) is not None


def labels_of(run: TraceRun) -> tuple[Label, ...]:
    """Return a run's labels; none if its metadata uses that key for something else."""
    try:
        return msgspec.convert(as_object(run.metadata).get(LABELS, []), tuple[Label, ...])
    except msgspec.ValidationError:
        return ()


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FAULTS = frozenset(
    words_of(
        "hallucination hallucinations hallucinated toxicity toxic harmful harmfulness harm bias biased error "
        "errors fault faults failure failed fail unsafe jailbreak injection leak leakage pii profanity "
        "refusal refused violation violations incorrect incorrectness wrong contradiction frustration "
        "frustrated abusive hate"
    )
)
_MEASURES = frozenset(
    words_of(
        "latency duration time ms seconds cost price token tokens length count size number temperature turns "
        "steps retries index perplexity id version"
    )
)
_NOT = frozenset(("no", "non", "not", "free", "without"))
_BAD = frozenset(
    words_of(
        "bad wrong incorrect fail failed failure error poor negative rejected reject unacceptable unsafe "
        "harmful unhelpful irrelevant ungrounded hallucinated thumbs_down thumbsdown dislike disliked no "
        "false unsatisfied frustrated incomplete"
    )
)
_THERE = frozenset(("yes", "true", "present", "detected", "high", "severe"))
_MIDDLE = 0.5


def says_failure(name: str, value: Json) -> bool:
    """Return whether the score can only mean that the run failed."""
    words = set(map(str.lower, _WORDS.findall(name)))
    if words & _MEASURES:
        return False
    of_fault = bool(words & _FAULTS) and not words & _NOT
    if isinstance(value, bool):
        return value is of_fault
    if isinstance(value, int | float):
        if of_fault:
            return value >= _MIDDLE
        return value <= 0
    if isinstance(value, str):
        word = re.sub(r"[\s-]+", "_", value.strip().lower())
        return word in (_THERE if of_fault else _BAD)
    return False
