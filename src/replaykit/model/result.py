"""ReplayResult: the outcome of running a candidate against a case, and what it is made of."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

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
from replaykit.terminal import visible

RESULT_FORMAT = 2
"""Version of `ReplayResult`; readers accept every older one."""


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
    INCONCLUSIVE = "inconclusive"  # cannot tell; the reason says why


class Effect(StrEnum):
    """The effect of a deviation on the verdict."""

    STANDS = "stands"  # the verdict stands, and the deviation is shown
    LIVE = "live"  # the verdict stands, labelled "with live calls"
    DIVERGED = "diverged"  # the verdict is `diverged`
    UNCERTAIN = "uncertain"  # the verdict is `inconclusive`, unless the failure shows all the same
    INCONCLUSIVE = "inconclusive"  # the verdict is `inconclusive`


EFFECTS: dict[str, Effect] = {
    "moved": Effect.STANDS,  # a recorded call at another place
    "unused": Effect.STANDS,  # a recorded call that was not made
    "repeated": Effect.STANDS,  # the last outcome served again, as the case says
    "fault": Effect.STANDS,  # answered with the fault that the case names
    "arguments": Effect.STANDS,  # served by position, as the case says, with other arguments
    "answer": Effect.STANDS,  # an MCP client answered its server otherwise
    "handshake": Effect.STANDS,  # an MCP client began otherwise
    "context": Effect.STANDS,  # the agent cannot take the session's context
    "unpinned": Effect.STANDS,  # a clock or a seed that a server cannot hold still for all it does
    "unwatched": Effect.STANDS,  # nobody saw whether recorded answers were used: the evidence decides
    "now": Effect.STANDS,  # the current time in an argument, compared as "now"
    "rekeyed": Effect.STANDS,  # placeholders of another key, and exactly one recorded call fits
    "live": Effect.LIVE,  # done for real, with consent
    "missing": Effect.DIVERGED,  # not recorded
    "blocked": Effect.DIVERGED,  # forbidden by the case
    "network": Effect.DIVERGED,  # a connection that no call accounts for, stopped
    "stopped": Effect.DIVERGED,  # stopped by the isolation
    "outside": Effect.DIVERGED,  # a process or a thread that the tape does not reach
    "undecided": Effect.UNCERTAIN,  # an order or a moment that was too close to call
    "unordered": Effect.UNCERTAIN,  # threads that went on after calls that ended at nearly the same moment
    "unshared": Effect.UNCERTAIN,  # files of child processes that the agent's own process could not see
    "mutated": Effect.UNCERTAIN,  # a served call whose tool changed more than its result when it was recorded
    "leftover": Effect.UNCERTAIN,  # a file that the recorded run or a tool of it changed, and the candidate reads
    "ambiguous": Effect.INCONCLUSIVE,  # placeholders of another key, and several recorded calls fit
    "unanswerable": Effect.INCONCLUSIVE,  # recorded without an answer that could be served
    "chance": Effect.INCONCLUSIVE,  # differs by chance alone, which the recording could not hold
    "unwritten": Effect.INCONCLUSIVE,  # a file that could not be written here, and could be elsewhere
    "refused": Effect.INCONCLUSIVE,  # the case asks for something live that nobody has allowed: it was not run
    "unbuilt": Effect.INCONCLUSIVE,  # a served value that could not be rebuilt
}
"""Every kind of deviation, with what it does to the verdict."""


def effect_of(kind: str) -> Effect:
    """Return what a deviation of this kind does; of one that a newer version has written, nothing can be told."""
    return EFFECTS.get(kind, Effect.INCONCLUSIVE)


class EvidenceSource(StrEnum):
    """The source of the fact that recorded answers were used."""

    SERVED = "served"  # ReplayKit did: it served them
    REPORTED = "reported"  # the candidate did: the calls it reports are on the tape
    OUTPUT = "output"  # nobody needs to: a person wrote `evidence: output` into the case
    NONE = "none"  # nobody did


class Evidence(Struct, frozen=True, kw_only=True):
    """The share of the recorded world that the candidate used."""

    used: int = 0
    """Recorded answers that the candidate used."""
    recorded: int = 0
    """Recorded answers that the case has for it."""
    how: EvidenceSource = EvidenceSource.NONE

    @property
    def suffices(self) -> bool:
        """True when a verdict may rest on it: answers were used, there are none to use, or a person said so."""
        return self.used > 0 or self.recorded == 0 or self.how is EvidenceSource.OUTPUT


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one assertion on a run."""

    kind: str
    """The kind of the assertion."""
    holds: bool
    """True when the assertion holds."""
    text: str
    """The observation, in words: "Tool 'lookup_billing' called 5 times"."""
    expected: str = ""
    """What the assertion asks for, in words."""
    actual: str = ""
    """What came instead, in words."""
    seq: int | None = None
    """The event it points at."""
    run: int | None = None
    """The number of the run that the event is in, counted from 1, where the assertion asks for several."""
    id: str = ""
    """Of the invariant that asked, where a contract did."""
    severity: str = ""
    """The severity of the invariant."""
    where: str = ""
    """The file and line of the invariant, as `replaykit.yaml:12`."""

    @property
    def name(self) -> str:
        """Its name: the invariant, or its kind."""
        if self.id:
            return f"{self.id} ({self.severity})"
        return self.kind

    @property
    def gap(self) -> str:
        """What was expected, and what came."""
        return f"expected {self.expected}, got {self.actual}"


class SemanticCheck(Struct, frozen=True, kw_only=True):
    """A sentence that needs judgement; `needs_human` until somebody or something judged it."""

    text: str
    """The sentence or question."""
    status: str = "needs_human"
    """pass, fail, needs_human, or unjudged: there is a judge, and no answer of theirs for this output."""
    by: str = ""
    """The judge that answered."""
    reason: str = ""
    """Why, in the judge's words."""
    kind: str = ""
    """The kind of the assertion that asks; nothing for a sentence of the case."""
    run: int = 1
    """The number of the run it is about."""


_LINE_CHARS = 200
_NEXT_STEPS = {
    Verdict.DIVERGED: "Next: record answers for what it asks now (`replaykit retape CASE --live NAME`), or allow what"
    " may differ in the case (`match.ignore`, `match.on_miss`)",
    Verdict.FLAKY: "Next: freeze what differs (`clock`, `seed`), or write how often it must hold (`repeat:`)",
}
DEVIATION = "replaykit.deviation"
"""Notes of this name say where a candidate left its tape; the content is a `Deviation`."""


class Deviation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One place where the candidate did not follow the tape."""

    kind: str
    """One of `EFFECTS`."""
    text: str
    """What was different, in words."""
    index: int | None = None
    """The number of the call in the candidate's run, counted from 0."""
    name: str | None = None
    """The tool, the model or the request."""
    choices: tuple[int, ...] = ()
    """Of `unordered`: how many things could have come first, for each tie in turn."""


class ReplayResult(Struct, frozen=True, kw_only=True):
    """The outcome of running a candidate against a case."""

    replaykit: int = RESULT_FORMAT
    """Version of this form."""
    case_id: str
    """The id of the case."""
    verdict: Verdict
    candidate: str = ""
    """The agent that was run, as it was named."""
    reproduced: bool | None = None
    """None when the case has no failure signature, or nothing could be told."""
    observed: tuple[Finding, ...] = ()
    desired: tuple[Finding, ...] = ()
    semantic: tuple[SemanticCheck, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    reason: str = ""
    """Why the verdict is what it is, in plain words; empty for `fixed`, and for `reproduced` unless takes disagree."""
    evidence: Evidence = Evidence()
    """The share of the tape that the candidate used."""
    offline: bool = True
    """False when a call was done for real."""
    isolation: Isolation = NOT_ISOLATED
    """The isolation of the candidate."""
    consent: Consent = NO_CONSENT
    """The live actions that the person who ran it allowed."""
    take: str = ""
    """The take that the candidate was served from, where the case has several."""
    uncertain: tuple[str, ...] = ()
    """Why the order or the moment of something in the run could not be told."""
    expected_failure: str = ""
    """The description of a session's incident, in its author's words."""
    unproven: str = ""
    """Why a `fixed` proves little: the case was never seen red, or has changed since. Empty for one that was."""
    run: TraceRun | None = None
    more: tuple[TraceRun, ...] = ()
    """The runs after the first that assertions asked for."""
    duration_s: float = 0.0
    directory: str | None = None
    """The directory with logs and files of this replay."""
    trial: str = ""
    """The kind of trial, if it was not the replay of a case: contract, chaos or mutation."""

    @property
    def passed(self) -> bool:
        """True when the failure is gone and everything desired holds."""
        return self.verdict is Verdict.FIXED

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The desired assertions that do not hold."""
        return tuple(finding for finding in self.desired if not finding.holds)

    @property
    def observation(self) -> str:
        """What the failure signatures look at, as it was in this run."""
        return "; ".join(finding.text for finding in self.observed)

    @property
    def advice(self) -> tuple[str, ...]:
        """The failure that a session describes, to compare with this one, and what to do next."""
        lines = []
        if self.expected_failure and not self.passed:
            lines.append(f"the incident: {one_line(self.expected_failure, _LINE_CHARS)}")
        if self.verdict in _NEXT_STEPS:
            lines.append(_NEXT_STEPS[self.verdict])
        return tuple(lines)

    @property
    def text(self) -> str:
        """The verdict, its reason and each assertion that failed, in a few lines: a message for an `assert`."""
        head = f"case {self.case_id}: {self.verdict.value}"
        if self.passed:
            return visible(head)
        lines = [self.observation, *self.reason.splitlines()]
        if self.verdict is not Verdict.INCONCLUSIVE:
            lines += [f"✗ {finding.name}: {finding.gap}" for finding in self.failures]
        shown = [visible(f"{head}, expected {Verdict.FIXED.value}")]
        for line in filter(None, (*lines, *self.advice)):
            shown.append(f"  {visible(one_line(line, _LINE_CHARS))}")
        return "\n".join(shown)


class _ResultVersion(Struct):
    replaykit: int = 1


class _DeviationKind(Struct):
    kind: str = ""


class _FirstFormat(Struct):
    """The members that the first version of the format wrote differently."""

    verdict: str
    deviations: tuple[_DeviationKind, ...] = ()
    evidence: str | None = None


def read_result(data: bytes) -> ReplayResult:
    """Return the result in the text of a `result.json`, whichever version wrote it."""
    version = decode_json(data, _ResultVersion).replaykit
    if version > RESULT_FORMAT:
        raise FormatTooNew(f"a result of version {version}; this version reads up to {RESULT_FORMAT}")
    if version == 1:
        data = _upgraded(data)
    return msgspec.json.decode(data, type=ReplayResult)


def _upgraded(data: bytes) -> bytes:
    """The text of a result as the second version writes it."""
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
    """Return the verdict for a word of the first version, which had `changed` and `error`."""
    if word == "error":
        return Verdict.INCONCLUSIVE.value
    if word != "changed":
        return word
    left = any(effect_of(kind) is Effect.DIVERGED for kind in kinds)
    if left:
        return Verdict.DIVERGED.value
    return Verdict.BROKEN.value
