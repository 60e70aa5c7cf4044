"""Retape a whole suite within a budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.candidates.attempt import Candidate
from replaykit.candidates.replay import replay
from replaykit.candidates.retaping import Retaping, add_usage
from replaykit.cases.case import ReplayCase
from replaykit.errors import UsageError
from replaykit.model.events import Usage
from replaykit.model.result import ReplayResult, Verdict

# No commas: 2,50 is two and a half to some readers and 250 to others.
_AMOUNT = re.compile(r"\$\s*({0})|({0})\s*(\$|usd|tokens?|k)".format(r"\d+(?:_\d+)*(?:\.\d+)?"), re.IGNORECASE)

RetapeCase = Callable[[ReplayCase], Retaping]
"""A function that runs the candidate for a new take of a case."""


class Budget(Struct, frozen=True, kw_only=True):
    """The limit of all live calls in dollars or tokens. Calls that report neither are not counted."""

    cost_usd: float | None = None
    tokens: int | None = None

    def is_spent(self, usage: Usage) -> bool:
        """Return whether the budget is used up, so that no further case may start."""
        if self.cost_usd is not None and (usage.cost_usd or 0.0) >= self.cost_usd:
            return True
        return self.tokens is not None and tokens_of(usage) >= self.tokens


NO_BUDGET = Budget()


def parse_budget(text: str) -> Budget:
    """Parse a budget such as `$2.50`, `2.50usd` or `200000 tokens`."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a budget", hint="Write dollars as 2.50usd, or tokens as 200000tokens.")
    number = found[1] or found[2]
    unit = (found[3] or "usd").lower()
    if unit in ("$", "usd"):
        return Budget(cost_usd=float(number))
    if unit == "k":
        return Budget(tokens=round(float(number) * 1000))
    return Budget(tokens=round(float(number)))


def tokens_of(usage: Usage) -> int:
    """Return the number of tokens sent and received."""
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


class Left(Struct, frozen=True, kw_only=True):
    """A case that was not retaped, and the reason."""

    case: ReplayCase
    result: ReplayResult | None = None
    """The candidate's result, if that is the reason."""
    reason: str


def retape_many(
    cases: Sequence[ReplayCase],
    candidate: Candidate,
    retape_case: RetapeCase,
    *,
    only_diverged: bool,
    budget: Budget,
    evidence: Path | None,
    on_done: Callable[[], None],
) -> list[Retaping | Left]:
    """Retape cases one after another, with `only_diverged` just those that the candidate leaves.

    No case starts after the budget is used up.
    """
    outcomes: list[Retaping | Left] = []
    for case in cases:
        outcomes.append(_one(case, candidate, retape_case, outcomes, only_diverged, budget, evidence))
        on_done()
    return outcomes


def _one(
    case: ReplayCase,
    candidate: Candidate,
    retape_case: RetapeCase,
    outcomes: Sequence[Retaping | Left],
    only_diverged: bool,
    budget: Budget,
    evidence: Path | None,
) -> Retaping | Left:
    if only_diverged:
        result = replay(case, candidate, evidence=evidence)
        if result.verdict is not Verdict.DIVERGED:
            return Left(case=case, result=result, reason=f"{result.verdict.value} as it is")
    if budget.is_spent(usage_of(outcomes)):
        return Left(case=case, reason="the budget is spent")
    return retape_case(case)


def usage_of(outcomes: Sequence[Retaping | Left]) -> Usage:
    """Return the total usage of the live calls of several retapes."""
    return add_usage([outcome.usage for outcome in outcomes if isinstance(outcome, Retaping)])
