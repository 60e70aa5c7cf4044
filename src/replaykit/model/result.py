"""ReplayResult: the outcome of running a candidate against a case, and its parts."""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct

from replaykit.errors import FormatTooNew
from replaykit.model.isolation import NO_CONSENT, NOT_ISOLATED, Consent, Isolation
from replaykit.model.nesting import decode_json
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import one_line
from replaykit.model.values import read_members

RESULT_FORMAT = 2
"""The version of `ReplayResult`; readers accept all older ones."""


class Side(StrEnum):
    """The question that an assertion answers."""

    OBSERVED = "observed"  # a failure signature: does it still go wrong this way?
    DESIRED = "desired"  # what a fix must show


class Verdict(StrEnum):
    """The verdict of a replay about the failure."""

    REPRODUCED = "reproduced"  # every observed signature holds, inside the recorded world
    FIXED = "fixed"  # not reproduced, every desired assertion holds, and there is evidence for it
    BROKEN = "broken"  # inside the recorded world, but a desired assertion or the contract fails
    DIVERGED = "diverged"  # the candidate asked for something that was not recorded
    FLAKY = "flaky"  # repeated runs disagree
    INCONCLUSIVE = "inconclusive"  # the reason says why


class Effect(StrEnum):
    """The effect of a deviation on the verdict."""

    STANDS = "stands"  # the verdict stands, and the deviation is shown
    LIVE = "live"  # the verdict stands, labelled "with live calls"
    DIVERGED = "diverged"  # the verdict is `diverged`
    UNCERTAIN = "uncertain"  # the verdict is `inconclusive`, unless the failure shows anyway
    INCONCLUSIVE = "inconclusive"  # the verdict is `inconclusive`


EFFECTS: dict[str, Effect] = {
    "moved": Effect.STANDS,  # a recorded call at another place
    "unused": Effect.STANDS,  # a recorded call that was not made
    "repeated": Effect.STANDS,  # the last outcome served again, as the case says
    "fault": Effect.STANDS,  # answered with the fault that the case declares
    "arguments": Effect.STANDS,  # served by position, as the case says, with other arguments
    "answer": Effect.STANDS,  # an MCP client gave its server another answer
    "handshake": Effect.STANDS,  # an MCP client began differently
    "context": Effect.STANDS,  # the agent cannot accept the session's context
    "unpinned": Effect.STANDS,  # a clock or a seed that a server cannot pin for everything it does
    "unwatched": Effect.STANDS,  # it is unknown whether recorded answers were used: the evidence decides
    "now": Effect.STANDS,  # the current time in an argument, compared as "now"
    "traceback": Effect.STANDS,  # a traceback in an argument, compared without its frames
    "rekeyed": Effect.STANDS,  # placeholders of another key, and exactly one recorded call matches
    "live": Effect.LIVE,  # called for real, with consent
    "missing": Effect.DIVERGED,  # not recorded
    "blocked": Effect.DIVERGED,  # forbidden by the case
    "network": Effect.DIVERGED,  # a stopped connection that belongs to no call
    "stopped": Effect.DIVERGED,  # stopped by the isolation
    "outside": Effect.DIVERGED,  # a process or a thread outside the tape's reach
    "undecided": Effect.UNCERTAIN,  # an order or a moment that was too close to call
    "unordered": Effect.UNCERTAIN,  # threads that continued after calls that ended at nearly the same moment
    "unshared": Effect.UNCERTAIN,  # files of child processes that were invisible to the agent's own process
    "mutated": Effect.UNCERTAIN,  # a served call whose tool changed more than its result when it was recorded
    "leftover": Effect.UNCERTAIN,  # a file that the recorded run or one of its tools changed, and the candidate reads
    "ambiguous": Effect.INCONCLUSIVE,  # placeholders of another key, and several recorded calls match
    "unanswerable": Effect.INCONCLUSIVE,  # recorded without an outcome that could be served
    "chance": Effect.INCONCLUSIVE,  # differs only by randomness that the recording could not pin
    "unwritten": Effect.INCONCLUSIVE,  # a file that could not be written here, but might be elsewhere
    "refused": Effect.INCONCLUSIVE,  # the case asks for something live without consent: it was not run
    "unbuilt": Effect.INCONCLUSIVE,  # a served value that could not be rebuilt
}
"""All kinds of deviations, with their effects on the verdict."""


def effect_of(kind: str) -> Effect:
    """Return the effect of a kind of deviation; an unknown kind, from a newer version, makes the verdict
    inconclusive."""
    return EFFECTS.get(kind, Effect.INCONCLUSIVE)


class EvidenceSource(StrEnum):
    """Who vouches that recorded answers were used."""

    SERVED = "served"  # ReplayKit: it served them
    REPORTED = "reported"  # the candidate: the calls it reports are on the tape
    OUTPUT = "output"  # not needed: a person wrote `evidence: output` into the case
    NONE = "none"  # nobody


class Evidence(Struct, frozen=True, kw_only=True):
    """The share of the recorded world that the candidate used."""

    used: int = 0
    """The number of recorded answers that the candidate used."""
    recorded: int = 0
    """The number of recorded answers that the case has."""
    how: EvidenceSource = EvidenceSource.NONE

    @property
    def suffices(self) -> bool:
        """True if a verdict may rest on it: answers were used, there are none to use, or a person said so."""
        return self.used > 0 or self.recorded == 0 or self.how is EvidenceSource.OUTPUT


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one assertion on a run."""

    kind: str
    """The kind of the assertion."""
    holds: bool
    """True if the assertion holds."""
    text: str
    """The observation, in words: "Tool 'lookup_billing' called 5 times"."""
    expected: str = ""
    """The expectation of the assertion, in words."""
    actual: str = ""
    """The run's actual behavior, in words."""
    seq: int | None = None
    """The event that it is about."""
    run: int | None = None
    """The number of the run with the event, counted from 1, if the assertion asks for several."""
    id: str = ""
    """The id of the contract's invariant, if it comes from one."""
    severity: str = ""
    """The severity of the invariant."""
    where: str = ""
    """The file and line of the invariant, as `replaykit.yaml:12`."""

    @property
    def name(self) -> str:
        """The invariant, or the kind of assertion."""
        if self.id:
            return f"{self.id} ({self.severity})"
        return self.kind

    @property
    def gap(self) -> str:
        """The expectation and the actual behavior, in words."""
        return f"expected {self.expected}, got {self.actual}"


class SemanticCheck(Struct, frozen=True, kw_only=True):
    """A sentence that needs judgement; `needs_human` until a person or a judge has decided."""

    text: str
    """The sentence or question."""
    status: str = "needs_human"
    """pass, fail, needs_human, or unjudged: there is a judge, but it has not judged this output."""
    by: str = ""
    """The judge that answered."""
    reason: str = ""
    """The reason, in the judge's words."""
    kind: str = ""
    """The kind of assertion that asks; empty for a sentence of the case."""
    run: int = 1
    """The number of the run it is about."""


_LINE_CHARS = 200
_NEXT_STEPS = {
    Verdict.DIVERGED: "Next: record answers for what it asks now (`replaykit retape CASE --live NAME`), or allow what"
    " may differ in the case (`match.ignore`, `match.on_miss`)",
    Verdict.FLAKY: "Next: freeze what differs (`clock`, `seed`), or write how often it must hold (`repeat:`)",
}
DEVIATION = "replaykit.deviation"
"""The name of the notes about deviations; their content is a `Deviation`."""


class Deviation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place where the candidate did not follow the tape."""

    kind: str
    """One of `EFFECTS`."""
    text: str
    """The difference, in words."""
    index: int | None = None
    """The number of the call in the candidate's run, counted from 0."""
    name: str | None = None
    """The tool, the model or the request."""
    choices: tuple[int, ...] = ()
    """For `unordered`: the number of candidates for coming first, for each tie in turn."""


class ReplayResult(Struct, frozen=True, kw_only=True):
    """The outcome of running a candidate against a case."""

    replaykit: int = RESULT_FORMAT
    """The version of this format."""
    case_id: str
    """The id of the case."""
    verdict: Verdict
    candidate: str = ""
    """The candidate, as the user named it."""
    reproduced: bool | None = None
    """None if the case has no failure signature, or if the replay was inconclusive."""
    observed: tuple[Finding, ...] = ()
    desired: tuple[Finding, ...] = ()
    semantic: tuple[SemanticCheck, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    reason: str = ""
    """The reason for the verdict; empty for `fixed`, and for `reproduced` unless takes disagree."""
    evidence: Evidence = Evidence()
    """The share of the tape that the candidate used."""
    offline: bool = True
    """False if a call was made for real."""
    isolation: Isolation = NOT_ISOLATED
    """The isolation of the candidate."""
    consent: Consent = NO_CONSENT
    """The live actions that the user allowed."""
    take: str = ""
    """The take that the candidate was served from, if the case has several."""
    uncertain: tuple[str, ...] = ()
    """Why the order or the moment of an event in the run is uncertain."""
    expected_failure: str = ""
    """The description of a session's incident, in its author's words."""
    unproven: str = ""
    """Why a `fixed` proves little: the case was never seen failing, or has changed since. Empty otherwise."""
    run: TraceRun | None = None
    more: tuple[TraceRun, ...] = ()
    """The further runs that assertions asked for."""
    duration_s: float = 0.0
    directory: str | None = None
    """The directory with logs and files of this replay."""
    trial: str = ""
    """The kind of trial, if it was not the replay of a case: contract, chaos or mutation."""

    @property
    def passed(self) -> bool:
        """True if the failure is gone and every desired assertion holds."""
        return self.verdict is Verdict.FIXED

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The desired assertions that do not hold."""
        return tuple(finding for finding in self.desired if not finding.holds)

    @property
    def observation(self) -> str:
        """The findings of the failure signatures in this run."""
        return "; ".join(finding.text for finding in self.observed)

    @property
    def advice(self) -> tuple[str, ...]:
        """The failure that a session describes, for comparison, and what to do next."""
        lines = []
        if self.expected_failure and not self.passed:
            lines.append(f"the incident: {one_line(self.expected_failure, _LINE_CHARS)}")
        if self.verdict in _NEXT_STEPS:
            lines.append(_NEXT_STEPS[self.verdict])
        return tuple(lines)

    @property
    def text(self) -> str:
        """The verdict, its reason and each failed assertion in a few lines: a message for an `assert`."""
        from replaykit.terminal import visible  # noqa: PLC0415 (the process of an agent shows no results)

        head = f"case {self.case_id}: {self.verdict.value}"
        if self.passed:
            return visible(head)
        lines = [self.observation, *self.reason.splitlines()]
        if self.verdict is not Verdict.INCONCLUSIVE:
            lines += [f"✗ {finding.name}: {finding.gap}" for finding in self.failures]
        message = visible(f"{head}, expected {Verdict.FIXED.value}")
        for line in filter(None, (*lines, *self.advice)):
            message += f"\n  {visible(one_line(line, _LINE_CHARS))}"
        return message


class _ResultVersion(Struct):
    replaykit: int = 1


class _DeviationKind(Struct):
    kind: str = ""


class _FirstFormat(Struct):
    """The members that version 1 wrote differently."""

    verdict: str
    deviations: tuple[_DeviationKind, ...] = ()
    evidence: str | None = None


def read_result(data: bytes) -> ReplayResult:
    """Read a `result.json` written by any version."""
    version = decode_json(data, _ResultVersion).replaykit
    if version > RESULT_FORMAT:
        raise FormatTooNew(f"a result of version {version}; this version reads up to {RESULT_FORMAT}")
    if version == 1:
        data = _upgraded(data)
    return msgspec.json.decode(data, type=ReplayResult)


def _upgraded(data: bytes) -> bytes:
    """Convert a result from version 1 to version 2."""
    fields = read_members(data)
    first = msgspec.json.decode(data, type=_FirstFormat)
    del fields["verdict"]
    fields.pop("evidence", None)
    fields.pop("replaykit", None)
    changed = {
        "verdict": upgraded_verdict(first.verdict, (deviation.kind for deviation in first.deviations)),
        "directory": first.evidence,
    }
    return msgspec.json.encode({**fields, **changed})


def upgraded_verdict(word: str, kinds: Iterable[str]) -> str:
    """Return the verdict for a word of version 1, which had `changed` and `error`."""
    if word == "error":
        return Verdict.INCONCLUSIVE.value
    if word != "changed":
        return word
    has_diverged = any(effect_of(kind) is Effect.DIVERGED for kind in kinds)
    if has_diverged:
        return Verdict.DIVERGED.value
    return Verdict.BROKEN.value
