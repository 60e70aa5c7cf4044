"""The result of comparing two runs, as values."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import Struct

from replaykit.model.diff import Difference
from replaykit.model.run import RunStatus
from replaykit.model.values import Json

_CALLS = ("tool_call", "llm_call", "exchange")


class DivergenceKind(StrEnum):
    """In what two runs part."""

    INPUT = "input"  # what the agent was asked, or what it asked a model
    MODEL_ANSWER = "model_answer"  # what a model said, or what the agent made of it
    TOOL_ARGUMENTS = "tool_arguments"
    TOOL_RESULT = "tool_result"
    ORDER = "order"  # the same call, made at another place
    EXTRA = "extra"  # only the second run has it
    MISSING = "missing"  # only the first run has it
    STATE = "state"
    OUTCOME = "outcome"  # status, output or error of the run


class EntryKind(StrEnum):
    """The relation of an event of one run to the other run."""

    SAME = "same"
    CHANGED = "changed"  # other arguments, or another outcome
    INSERTED = "inserted"  # only in the second run
    DELETED = "deleted"  # only in the first run
    MOVED = "moved"  # in both, at another place


class FirstDivergence(Struct, frozen=True, kw_only=True):
    """The earliest place where the second run is not the first."""

    kind: DivergenceKind
    text: str
    """On one line: "tool result of search_docs"."""
    event: str = ""
    """`tool_call`, `message`, `state`, …; nothing for the run as a whole, as is the name."""
    name: str = ""
    """The tool, the model or the request."""
    a_seq: int | None = None
    """The number of the event in the first run."""
    b_seq: int | None = None
    """The event; of what is missing here, the one that came instead, or None."""
    a_step: str | None = None
    """Its step in the first run."""
    b_step: str | None = None
    """Its step in the second run."""
    a_text: str = ""
    """The event of the first run there, on one line; empty where it has none."""
    b_text: str = ""
    """The event of the second run there, on one line; empty where it has none."""
    differences: tuple[Difference, ...] = ()
    """What differs in the event."""

    @property
    def where(self) -> str:
        """`at step_3 (call 5)`: the number is what `replaykit show --step` takes."""
        missing = self.kind is DivergenceKind.MISSING or self.b_seq is None
        seq, step = (self.a_seq, self.a_step) if missing else (self.b_seq, self.b_step)
        if seq is None:
            if self.kind is DivergenceKind.OUTCOME:
                return "at the end"
            return "at the start"
        number = f"{'call' if self.event in _CALLS else 'event'} {seq}"
        if step:
            return f"at {step} ({number})"
        return f"at {number}"


class EventEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of either run, or one of each that are the same."""

    kind: EntryKind
    event: str
    """`tool_call`, `llm_call`, `exchange`, `message`, `decision` or `error`."""
    name: str = ""
    """The tool, the model or the request."""
    a_seq: int | None = None
    """The number of the event in the first run."""
    b_seq: int | None = None
    """The number of the event in the second run."""
    text: str = ""
    """The call as one would write it, cut where it is long; as the second run made it, where it did."""
    a_text: str = ""
    """The same as the first run made it, where that is another text."""
    arguments: tuple[Difference, ...] = ()
    """What differs in its arguments."""
    outcome: tuple[Difference, ...] = ()
    """What differs in its result or error."""


class StateEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step after which the states differ; a state that was kept before holds until there is another."""

    a_seq: int | None = None
    """The number of the state's event in the first run."""
    b_seq: int | None = None
    """The number of the state's event in the second run."""
    a_step: str | None = None
    """The step in the first run."""
    b_step: str | None = None
    """The step in the second run."""
    differences: tuple[Difference, ...] = ()


class ToolCount(Struct, frozen=True, kw_only=True):
    """The number of calls of a tool in each run."""

    name: str
    a: int = 0
    """The number of calls in the first run."""
    b: int = 0
    """The number of calls in the second run."""


class ToolStretch(Struct, frozen=True, kw_only=True):
    """Calls of one tool in a row: in both runs, or only in one."""

    kind: EntryKind
    name: str
    """The tool."""
    count: int
    """The number of calls in a row."""


class ToolComparison(Struct, frozen=True, kw_only=True):
    """The tools the two agents called, in order; calls inside another tool are that tool's business."""

    a: tuple[str, ...] = ()
    """The tools of the first run."""
    b: tuple[str, ...] = ()
    """The tools of the second run."""
    counts: tuple[ToolCount, ...] = ()
    unified: tuple[ToolStretch, ...] = ()
    """Both sequences as one: a changed call counts as the same, for it is the same tool."""


class RunEnding(Struct, frozen=True, kw_only=True):
    """The outcome of one run."""

    status: RunStatus
    output: Json = None
    """What the agent answered; null if it did not."""
    error: str | None = None
    """The error that ended the run."""


class OutcomeComparison(Struct, frozen=True, kw_only=True):
    """The outcomes of both runs."""

    a: RunEnding
    b: RunEnding
    equal: bool
    """True when status, output and error are the same."""
    differences: tuple[Difference, ...] = ()


class UsageTotals(Struct, frozen=True, kw_only=True):
    """The resources a run used; None where its log does not say."""

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    """Tokens of input and output together."""
    cost_usd: float | None = None
    """The price in US dollars."""
    duration_s: float | None = None


class UsageComparison(Struct, frozen=True, kw_only=True):
    """The resources both runs used, and how much more the second one did."""

    a: UsageTotals
    b: UsageTotals
    difference: UsageTotals


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs, aligned. What they took never makes them different, nor do ids, numbers, times and tracebacks."""

    replaykit: int = 1
    """Version of this form."""
    a: str
    """The first run's id."""
    b: str
    """The second run's id."""
    identical: bool
    """True when nothing differs."""
    first: FirstDivergence | None
    """The earliest place where they differ; None if they do not."""
    entries: tuple[EventEntry, ...]
    """Every event that was aligned, in the second run's order; what it lacks stands where it is missing."""
    states: tuple[StateEntry, ...]
    """The first steps after which the states differ: up to a hundred, fewer where the states are large."""
    tools: ToolComparison
    outcome: OutcomeComparison
    usage: UsageComparison
    unknown_states: int = 0
    """After how many steps the states could not be compared, because a run had one and did not keep it."""

    @property
    def counts(self) -> dict[EntryKind, int]:
        """The number of entries of each kind."""
        found = Counter(entry.kind for entry in self.entries)
        return {kind: found[kind] for kind in EntryKind}
