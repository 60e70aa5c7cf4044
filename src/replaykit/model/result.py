"""ReplayResult: the outcome of running a candidate against a case, and what it is made of."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from enum import StrEnum

from msgspec import Struct

from replaykit.model.run import TraceRun


class Side(StrEnum):
    """Which question an assertion answers."""

    OBSERVED = "observed"  # a failure signature: does it still go wrong this way?
    DESIRED = "desired"  # what a fix must show


class Verdict(StrEnum):
    """What a replay says about the failure."""

    REPRODUCED = "reproduced"  # every observed signature holds
    FIXED = "fixed"  # not reproduced, and every desired assertion holds
    CHANGED = "changed"  # not reproduced, yet a desired assertion fails or the candidate left the tape
    ERROR = "error"  # cannot tell: the candidate gave no usable answer


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one assertion found in a run."""

    kind: str
    holds: bool
    text: str
    """What was seen, in words: "Tool 'lookup_billing' called 5 times"."""
    expected: str = ""
    actual: str = ""
    seq: int | None = None
    """The event it points at."""
    run: int | None = None
    """The number of the run that the event is in, counted from 1, where the assertion asks for several."""
    id: str = ""
    """Of the invariant that asked, where a contract did."""
    severity: str = ""

    @property
    def name(self) -> str:
        """What to call it: the invariant it is, or its kind."""
        return f"{self.id} ({self.severity})" if self.id else self.kind


class SemanticCheck(Struct, frozen=True, kw_only=True):
    """A sentence that needs judgement; `needs_human` until somebody or something judged it."""

    text: str
    status: str = "needs_human"
    """pass, fail, needs_human, or unjudged: there is a judge, and no answer of theirs for this output."""
    by: str = ""
    """Who answered."""
    reason: str = ""
    kind: str = ""
    """The kind of the assertion that asks; nothing for a sentence of the case."""
    run: int = 1
    """The number of the run it is about."""


class Deviation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place where the candidate did not follow the tape."""

    kind: str
    """missing, unanswerable, blocked, network, moved, arguments, repeated, live, fault, answer, handshake, unused,
    context (a session's context that the agent cannot take), unwatched (tools that nobody answered) or unpinned (a
    clock or a seed that a server cannot hold still for all it does)"""
    text: str
    index: int | None = None
    name: str | None = None


class ReplayResult(Struct, frozen=True, kw_only=True):
    """The outcome of running a candidate against a case."""

    replaykit: int = 1
    """Version of this form."""
    case_id: str
    verdict: Verdict
    candidate: str = ""
    reproduced: bool | None = None
    """None when the case has no failure signature, or nothing could be told."""
    observed: tuple[Finding, ...] = ()
    desired: tuple[Finding, ...] = ()
    semantic: tuple[SemanticCheck, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    reason: str = ""
    """Why the verdict is `error` or `changed`, in one sentence."""
    run: TraceRun | None = None
    more: tuple[TraceRun, ...] = ()
    """The runs after the first that assertions asked for."""
    duration_s: float = 0.0
    evidence: str | None = None
    """The directory with logs and files of this replay."""
    trial: str = ""
    """What asked, where it was no replay of a case: contract, chaos or mutation."""

    @property
    def passed(self) -> bool:
        """True when the failure is gone and everything desired holds."""
        return self.verdict is Verdict.FIXED
