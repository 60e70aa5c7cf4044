"""Scores: sum up the checks of a contract."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

from msgspec import Struct, structs

from replaykit.contracts.contract import Severity
from replaykit.errors import ExitCode, NothingSelected, gravest

RESULT_FORMAT = 1
"""Version of a contract's result as JSON."""


class InvariantCheck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One invariant in one run of the agent."""

    scenario: str
    """The name of the scenario."""
    invariant: str
    """The id of the invariant."""
    type: str
    """The type of the invariant."""
    severity: Severity
    probe: str = ""
    """The input; values other than texts as JSON."""
    holds: bool | None = None
    """None if it was not checked, or the check is inconclusive."""
    skipped: str = ""
    """The reason why it was not checked."""
    unjudged: str = ""
    """The reason why it is inconclusive."""
    text: str = ""
    """The observation in words."""
    expected: str = ""
    """What the invariant asks for, in words."""
    actual: str = ""
    """What was observed instead, in words."""
    seq: int | None = None
    """The sequence number of the event it points at."""
    run: int | None = None
    """The number of the run that holds the event, if the invariant needs several runs."""
    output: str = ""
    """The beginning of the agent's answer."""
    error: str = ""
    """The error of the agent's run, or the reason why it did not run."""
    evidence: str = ""
    """The directory with the files of the run, if they were kept."""
    where: str = ""
    """The file and line of the invariant, as `replaykit.yaml:12`."""

    @property
    def was_asked(self) -> bool:
        """True if the invariant applied to the world of this run."""
        return self.holds is not None or bool(self.unjudged)


class ContractResult(Struct, frozen=True, kw_only=True):
    """The checks of a contract, and their score."""

    replaykit: int = RESULT_FORMAT
    contract: str
    """The name of the contract."""
    agent: str = ""
    """The agent as the command named it."""
    passed: bool
    """True if no critical invariant failed, the score is reached, and nothing is unjudged or untested."""
    score: float
    """The weight of the invariants that hold, from 0 to 100."""
    min_score: float = 100.0
    """The score that is needed to pass."""
    checks: tuple[InvariantCheck, ...]
    """Every invariant in every run of the agent."""
    untested: tuple[str, ...] = ()
    """Scenarios in which no fault was triggered, so they show nothing."""
    reason: str = ""
    """The reason why the agent could not be run, if any."""
    duration_s: float = 0.0

    @property
    def failures(self) -> tuple[InvariantCheck, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if check.holds is False)

    @property
    def unjudged(self) -> tuple[InvariantCheck, ...]:
        """The inconclusive checks."""
        return tuple(check for check in self.checks if check.unjudged)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that prints this result."""
        reasons = (self.is_broken, self.reason or self.unjudged, self.untested)
        return gravest(compress((ExitCode.FAILED, ExitCode.CANNOT, ExitCode.NOTHING), reasons))

    @property
    def is_broken(self) -> bool:
        """True if it fails however the unjudged checks turn out: a critical failure, or a score out of reach."""
        # Unjudged checks count as held: this is the best score that is still possible.
        best = score_of((check.severity, check.holds is not False) for check in self.checks if check.was_asked)
        return best < self.min_score or any(check.severity is Severity.CRITICAL for check in self.failures)


def score_of(checks: Iterable[tuple[Severity, bool]]) -> float:
    """Return the weight of the checks that hold, as a percentage of the total weight."""
    total = held = 0
    for severity, holds in checks:
        total += severity.weight
        held += severity.weight * holds
    if not total:
        raise NothingSelected("no invariant was checked, so there is no score")
    return round(100 * held / total, 2)


def result_of(
    contract: str, checks: Sequence[InvariantCheck], *, min_score: float = 100.0, **rest: Any
) -> ContractResult:
    """Return the result of the checks; raise `NothingSelected` if no invariant was checked."""
    outcomes = [(check.severity, check.holds is True) for check in checks if check.was_asked]
    if not outcomes:
        reasons = "; ".join(dict.fromkeys(f"{check.invariant}: {check.skipped}" for check in checks))
        raise NothingSelected(
            f"no invariant of {contract!r} was checked" + (f": {reasons}" if reasons else ""),
            hint="Add a scenario that calls for one of them, or an invariant with `when: always`.",
        )
    result = ContractResult(
        contract=contract, passed=False, score=score_of(outcomes), min_score=min_score, checks=tuple(checks), **rest
    )
    return structs.replace(result, passed=result.exit_code is ExitCode.PASSED)
