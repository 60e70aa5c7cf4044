"""The result of `ci`, as a value with a JSON form, from which reports and session exports are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct, field

from replaykit.cases.run_session import SeenCall
from replaykit.contracts.contract import Severity
from replaykit.errors import ExitCode, gravest
from replaykit.model.result import Deviation, Evidence, Finding
from replaykit.model.values import ABSENT, Raw, decode

CI_FORMAT = 1
"""The version of the JSON form. Readers accept all older ones."""


class CiPartName(StrEnum):
    """The parts of `ci`; the names are those of the weights in a configuration."""

    MUTATION = "mutation"  # the project's inputs, rephrased
    CONTRACT = "contract"  # its contracts, in all their worlds
    CHAOS = "chaos"  # its faults
    REPLAY = "replay"  # its cases and sessions

    @property
    def score_name(self) -> str:
        return _SCORE_NAMES[self]


_SCORE_NAMES = {
    CiPartName.MUTATION: "mutation_robustness",
    CiPartName.CONTRACT: "contract_compliance",
    CiPartName.CHAOS: "chaos_resilience",
    CiPartName.REPLAY: "replay_regression",
}


class CiOutcome(StrEnum):
    """The outcome of an item."""

    PASSED = "passed"
    FAILED = "failed"  # the agent did not do what it must
    ERROR = "error"  # inconclusive: no usable answer, or an invalid file
    UNTESTED = "untested"  # nothing was checked, or no fault occurred


class CiItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the agent, or one thing that could not be run."""

    part: CiPartName
    id: str
    """The case, the session, the invariant or the scenario."""
    outcome: CiOutcome
    verdict: str = ""
    """The part's own word: that of a replay (fixed, diverged, ...), held, broke, kept, broken."""
    reason: str = ""
    """Why it did not pass; empty if it did."""
    expected_failure: str = ""
    """The failure of a session's incident, in words."""
    tape: Evidence | None = None
    """The share of its tape that a replay used."""
    offline: bool = True
    """False when a replay did a call for real."""
    isolation: str = ""
    """The level at which a replay was kept shut in; see `IsolationLevel`."""
    divergence: Deviation | None = None
    """The first call that did not follow the tape."""
    failures: tuple[Finding, ...] = ()
    faults: tuple[str, ...] = ()
    """The injected faults and their places."""
    contract: str = ""
    """The contract that was checked."""
    scenario: str = ""
    """The scenario in which the contract was checked."""
    input_json: Raw = field(default=ABSENT, name="input")
    """What the agent was asked."""
    context_json: Raw = field(default=ABSENT, name="context")
    """The session's context."""
    output_json: Raw = field(default=ABSENT, name="output")
    """What the agent answered."""
    error: str = ""
    """The agent's own."""
    calls: tuple[SeenCall, ...] = ()
    """The agent's tool calls."""
    duration_s: float = 0.0
    evidence: str = ""
    """The directory with the files of its run."""
    file: str = ""
    """The file of the case, the session, or the part of the configuration."""
    line: int | None = None
    """The line in that file."""
    command: str = ""
    """The command to look closer."""
    is_wrong_file: bool = False
    """True when the file is wrong, and nothing was run."""
    unproven: str = ""
    """The reason why a replay that passed proves little: its case was never seen red, or has changed since."""

    @property
    def is_regression(self) -> bool:
        """Whether the item fails the run whatever the score."""
        critical = any(finding.severity == Severity.CRITICAL for finding in self.failures)
        return self.outcome is CiOutcome.FAILED and (self.part is CiPartName.REPLAY or critical)


class CiPart(Struct, frozen=True, kw_only=True):
    """The score of one part."""

    part: CiPartName
    name: str
    """The name of the part's score."""
    score: float | None = None
    """From 0 to 100; None when nothing can be said."""
    weight: float
    """The weight of the part in the overall score."""
    total: int
    """The number of items that count."""
    passed: int
    """The number of items that passed."""
    duration_s: float = 0.0


class CiResult(Struct, frozen=True, kw_only=True):
    """The overall result."""

    replaykit: int = CI_FORMAT
    passed: bool
    """True when the exit code is 0."""
    exit_code: int
    """The exit code of the command."""
    score: float | None
    """The weighted mean of the parts' scores; None when there is none."""
    min_score: float | None = None
    """The score that passes; None if nothing may fail."""
    verdict: str
    """The reason why it passed or not, in one sentence."""
    agent: str = ""
    """The agent that was run, as it was named."""
    config: str = ""
    """The configuration file."""
    config_from: str = ""
    """The revision that the configuration was read from; nothing for the working tree."""
    seed: int = 0
    """The seed of faults and mutations."""
    parts: tuple[CiPart, ...] = ()
    items: Sequence[CiItem] = ()
    """Every run of the agent, and everything that could not be run; read from the records of a run each time."""
    notices: tuple[str, ...] = ()
    """Remarks about the configuration."""
    duration_s: float = 0.0
    started_at: float = 0.0
    """When the run began, in seconds since 1970; 0 if unknown."""
    revision: str = ""
    """The commit of the agent's code; empty if it is unknown, or if files differ from it."""
    settings: str = ""
    """A digest of the configuration and of the options that affect results."""

    @property
    def failures(self) -> list[CiItem]:
        """All items that did not pass."""
        return [item for item in self.items if item.outcome is not CiOutcome.PASSED]


def overall(parts: Sequence[CiPart]) -> float | None:
    """Return the weighted mean of the scores, or their plain mean if all weights are 0."""
    scored = [(part.score, part.weight) for part in parts if part.score is not None]
    if not scored:
        return None
    largest = max(weight for _, weight in scored)
    points = whole = 0.0
    for score, weight in scored:
        # Scale weights by the largest, because products with subnormal weights would lose precision.
        share = weight / largest if largest else 1.0
        points += score * share
        whole += share
    return round(points / whole, 2)


def exit_code_of(items: Iterable[CiItem], score: float | None, best: float | None, min_score: float | None) -> ExitCode:
    """Return the exit code for items. `best` is the score if all inconclusive items had passed."""
    codes = [_code_of(item, is_scored=min_score is not None) for item in items] or [ExitCode.NOTHING]
    if min_score is not None and best is not None and best < min_score:
        codes.append(ExitCode.FAILED)
    if score != best:
        codes.append(ExitCode.CANNOT)
    return gravest(codes)


def _code_of(item: CiItem, *, is_scored: bool) -> ExitCode:
    if item.is_wrong_file:
        return ExitCode.USAGE
    if item.outcome is CiOutcome.FAILED:
        if item.is_regression or not is_scored:
            return ExitCode.FAILED
        return ExitCode.PASSED
    return _CODES[item.outcome]


_CODES = {
    CiOutcome.PASSED: ExitCode.PASSED,
    CiOutcome.ERROR: ExitCode.CANNOT,
    CiOutcome.UNTESTED: ExitCode.NOTHING,
}


def payload_text(value: Raw) -> str:
    """Return a payload for display: a text unquoted, anything else as JSON."""
    plain = decode(value) if bytes(value)[:1] == b'"' else None
    if isinstance(plain, str):
        return plain
    return bytes(value).decode()
