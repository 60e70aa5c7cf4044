"""The result of comparing two runs, as values."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import Struct

from replaykit.model.diff import Difference
from replaykit.model.run import RunStatus
from replaykit.model.values import Json


class DivergenceKind(StrEnum):
    """The kind of difference at which two runs diverge."""

    INPUT = "input"  # the input of the agent or of a model
    MODEL_ANSWER = "model_answer"  # an answer of a model, or a message or decision based on it
    TOOL_ARGUMENTS = "tool_arguments"
    TOOL_RESULT = "tool_result"
    ORDER = "order"  # the same call in another place
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
    MOVED = "moved"  # in both, in another place


class FirstDivergence(Struct, frozen=True, kw_only=True):
    """The earliest place where the second run differs from the first."""

    kind: DivergenceKind
    text: str
    """On one line: "tool result of search_docs"."""
    event: str = ""
    """The kind of the event, such as `tool_call`; empty for the run as a whole, as is the name."""
    name: str = ""
    """The tool, the model or the request."""
    a_seq: int | None = None
    """The number of the event in the first run."""
    b_seq: int | None = None
    """The number of the event in the second run; for a missing event, of the one instead of it."""
    a_step: str | None = None
    """Its step in the first run."""
    b_step: str | None = None
    """Its step in the second run."""
    a_text: str = ""
    """The event in the first run, on one line; empty if it has none."""
    b_text: str = ""
    """The event in the second run, on one line; empty if it has none."""
    differences: tuple[Difference, ...] = ()
    """What differs in the event."""

    @property
    def where(self) -> str:
        """`at step_3 (event 5)`; the number is the one that `replaykit show --event` takes."""
        missing = self.kind is DivergenceKind.MISSING or self.b_seq is None
        seq, step = (self.a_seq, self.a_step) if missing else (self.b_seq, self.b_step)
        if seq is None:
            if self.kind is DivergenceKind.OUTCOME:
                return "at the end"
            return "at the start"
        if step:
            return f"at {step} (event {seq})"
        return f"at event {seq}"


class EventEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of either run, or two corresponding ones."""

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
    """The call on one line, cut off if it is long; the second run's if both have it."""
    a_text: str = ""
    """The first run's call, if its line differs."""
    arguments: tuple[Difference, ...] = ()
    """What differs in its arguments."""
    outcome: tuple[Difference, ...] = ()
    """What differs in its result or error."""


class StateEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step after which the states differ; a kept state holds until the next one."""

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
    """Consecutive calls of one tool, in both runs or only in one."""

    kind: EntryKind
    name: str
    """The tool."""
    count: int
    """The number of consecutive calls."""


class ToolComparison(Struct, frozen=True, kw_only=True):
    """The tools that the two agents called, in order, without calls inside other tools."""

    a: tuple[str, ...] = ()
    """The tools of the first run."""
    b: tuple[str, ...] = ()
    """The tools of the second run."""
    counts: tuple[ToolCount, ...] = ()
    unified: tuple[ToolStretch, ...] = ()
    """Both sequences merged; a changed call counts as the same, because it is the same tool."""


class RunEnding(Struct, frozen=True, kw_only=True):
    """The outcome of one run."""

    status: RunStatus
    output: Json = None
    """The agent's answer; null if there is none."""
    error: str | None = None
    """The error that ended the run."""


class OutcomeComparison(Struct, frozen=True, kw_only=True):
    """The outcomes of both runs."""

    a: RunEnding
    b: RunEnding
    equal: bool
    """True if status, output and error are the same."""
    differences: tuple[Difference, ...] = ()


class UsageTotals(Struct, frozen=True, kw_only=True):
    """The resources of a run; None if its log does not tell."""

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    """Input and output tokens together."""
    cost_usd: float | None = None
    """The price in US dollars."""
    duration_s: float | None = None


class UsageComparison(Struct, frozen=True, kw_only=True):
    """The resources of both runs, and how much more the second one used."""

    a: UsageTotals
    b: UsageTotals
    difference: UsageTotals


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs, aligned. Resources, ids, numbers, times and tracebacks never count as differences."""

    replaykit: int = 1
    """Version of this format."""
    a: str
    """The id of the first run."""
    b: str
    """The id of the second run."""
    identical: bool
    """True when nothing differs."""
    first: FirstDivergence | None
    """The first divergence; None if there is none."""
    entries: tuple[EventEntry, ...]
    """All aligned events in the second run's order; those it lacks are placed where they are missing."""
    states: tuple[StateEntry, ...]
    """The first steps after which the states differ: up to a hundred, fewer if the states are large."""
    tools: ToolComparison
    outcome: OutcomeComparison
    usage: UsageComparison
    unknown_states: int = 0
    """The number of steps whose states could not be compared, because a run did not keep its own."""

    @property
    def counts(self) -> dict[EntryKind, int]:
        """The number of entries of each kind."""
        counted_kinds = Counter(entry.kind for entry in self.entries)
        return {kind: counted_kinds[kind] for kind in EntryKind}
