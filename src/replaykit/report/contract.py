"""The result of a contract trial as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.contracts.contract import Severity
from replaykit.contracts.score import ContractResult, InvariantCheck
from replaykit.report.layout import JsonResult, counted, mark, short, tally, to_json
from replaykit.terminal import style


class ContractScore(JsonResult, frozen=True, kw_only=True):
    """The score of an agent against a contract."""

    contract: str
    """The name of the contract."""
    agent: str
    """The agent that was run, as it was named."""
    passed: bool
    """True when no critical invariant failed, the score is reached, and every invariant could be judged."""
    score: float
    """The weight of the invariants that hold, from 0 to 100."""
    min_score: float
    """The score that passes."""
    unjudged: dict[str, str]
    """Invariants that nobody could judge, each with the reason."""
    reason: str
    """Why the agent could not be run; empty if it could."""


_COLOURS = {Severity.CRITICAL: "red", Severity.HIGH: "red", Severity.MEDIUM: "yellow", Severity.LOW: "yellow"}
_UNJUDGED = style("?", fg="magenta")
_SHOWN_CHARS = 200
_UNSTRUCK = "no fault was triggered; is the name right, and do the agent's calls pass through ReplayKit?"


def contract_text(result: ContractResult) -> str:
    """Each scenario with its counts, each failure with what was expected and what came, and the score."""
    lines = []
    scenarios: dict[str, list[InvariantCheck]] = {}
    never_asked = {}
    for check in result.checks:
        scenarios.setdefault(check.scenario, []).append(check)
        never_asked[check.invariant] = check.skipped
    for name, checks in scenarios.items():
        lines += [_scenario(name, checks), *_failed_lines(checks)]
    for check in result.checks:
        if check.was_asked:
            never_asked.pop(check.invariant, None)
    lines += [_note("not checked", f"{name} ({why})") for name, why in never_asked.items()]
    lines += [_note("untested", f"{name}: {_UNSTRUCK}") for name in result.untested]
    word, colour = _verdict(result)
    verdict = f"{short(result.contract, 80)}: {style(word, fg=colour, bold=True)}, score {result.score:g}"
    if result.min_score < 100:
        verdict += f" of at least {result.min_score:g}"
    for what, failed in (("failed", result.failures), ("unjudged", result.unjudged)):
        count = len({check.invariant for check in failed})
        if count:
            verdict += f", {counted(count, 'invariant')} {what}"
    return "\n".join([*lines, "", verdict])


def unjudged_reasons(result: ContractResult) -> dict[str, str]:
    """Return the reason for each invariant that nobody could judge."""
    return {check.invariant: check.unjudged for check in result.unjudged}


def score_text(result: ContractResult) -> str:
    """Return the score as a number."""
    return f"{result.score:g}"


def score_json(result: ContractResult) -> str:
    """The score for programs."""
    return to_json(
        ContractScore(
            contract=result.contract,
            agent=result.agent,
            passed=result.passed,
            score=result.score,
            min_score=result.min_score,
            unjudged=unjudged_reasons(result),
            reason=result.reason,
        )
    )


def check_details(check: InvariantCheck) -> str:
    """Return one check in a line: the scenario, the invariant, whether it holds, and where the run left its files."""
    words = {True: "holds", False: "fails", None: check.skipped or check.unjudged or "inconclusive"}
    where = f", evidence {check.evidence}" if check.evidence else ""
    return f"{short(check.scenario, 40)} {short(check.invariant, 40)} {words[check.holds]}{where}"


def _verdict(result: ContractResult) -> tuple[str, str]:
    if result.passed:
        return "kept", "green"
    if result.is_broken:
        return "broken", "red"
    if result.reason:
        return "not run", "magenta"
    if result.unjudged:
        return "inconclusive", "magenta"
    return "untested", "magenta"


def _scenario(name: str, checks: Sequence[InvariantCheck]) -> str:
    held = unjudged = not_asked = 0
    for check in checks:
        held += check.holds is True
        unjudged += bool(check.unjudged)
        not_asked += not check.was_asked
    asked_count = len(checks) - not_asked
    sign = mark(held + unjudged == asked_count)
    if unjudged and held + unjudged == asked_count:
        sign = _UNJUDGED
    counts = tally({"unjudged": unjudged, "not checked": not_asked})
    if counts:
        counts = f", {counts}"
    return f"{sign} {short(name, 60)}: {held} of {asked_count} hold{counts}"


def _failed_lines(checks: Sequence[InvariantCheck]) -> list[str]:
    """Each check that does not hold; what several of one run have in common is said once."""
    lines: list[str] = []
    runs: dict[str, list[InvariantCheck]] = {}
    for check in checks:
        if check.was_asked and not check.holds:
            runs.setdefault(check.probe, []).append(check)
    for failed in runs.values():
        for check in failed:
            lines += _check_lines(check)
        if failed[0].evidence:
            lines.append(f"      evidence  {failed[0].evidence}")
    return lines


def _check_lines(check: InvariantCheck) -> list[str]:
    severity = style(check.severity.value, fg=_COLOURS[check.severity])
    sign, text = mark(False), check.text
    if check.unjudged:
        sign, text = _UNJUDGED, "inconclusive"
    why, _, hint = check.unjudged.partition("\n")
    output = "" if check.output in check.actual else check.output
    parts = [
        ("asked", check.probe),
        ("expected", check.expected),
        ("got", check.actual),
        ("output", output),
        ("error", check.error),
        ("where", check.where),
        ("why", why),
        ("hint", hint),
    ]
    details = [f"      {name:<9} {short(text, _SHOWN_CHARS)}" for name, text in parts if text]
    return [f"  {sign} {short(check.invariant, 80)} ({severity}, {check.type}): {short(text, 120)}", *details]


def _note(word: str, text: str) -> str:
    return f"{style(word, fg='yellow')}: {short(text, _SHOWN_CHARS)}"
