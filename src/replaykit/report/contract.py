"""The result of a contract trial as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.contracts.contract import Severity
from replaykit.contracts.score import ContractResult, InvariantCheck
from replaykit.report.layout import counted, short
from replaykit.terminal import style

_COLOURS = {Severity.CRITICAL: "red", Severity.HIGH: "red", Severity.MEDIUM: "yellow", Severity.LOW: "yellow"}
_FAILED, _UNJUDGED = style("✗", fg="red"), style("?", fg="magenta")
_SHOWN_CHARS = 200
_UNSTRUCK = "none of its faults struck a call; is the name right, and do the agent's calls pass through ReplayKit?"


def contract_text(result: ContractResult) -> str:
    """Each scenario with its counts, each failure with what was expected and what came, and the score."""
    lines = []
    for name in dict.fromkeys(check.scenario for check in result.checks):
        here = [check for check in result.checks if check.scenario == name]
        lines += [_scenario(name, here), *_failed_lines(here)]
    lines += [_note("never asked", f"{name} ({why})") for name, why in _never_asked(result).items()]
    lines += [_note("untested", f"{name}: {_UNSTRUCK}") for name in result.untested]
    word, colour = _verdict(result)
    verdict = f"{short(result.contract, 80)}: {style(word, fg=colour, bold=True)}, score {result.score:g}"
    floor = f" of at least {result.min_score:g}" if result.min_score < 100 else ""
    counts = {"failed": _invariants(result.failures), "unjudged": _invariants(result.unjudged)}
    count_text = "".join(f", {counted(count, 'invariant')} {what}" for what, count in counts.items() if count)
    return "\n".join([*lines, "", f"{verdict}{floor}{count_text}"])


def _verdict(result: ContractResult) -> tuple[str, str]:
    if result.passed:
        return "kept", "green"
    if result.is_broken:
        return "broken", "red"
    if result.reason:
        return "not run", "magenta"
    if result.unjudged:
        return ("cannot tell", "magenta")
    return ("untested", "magenta")


def _invariants(checks: Sequence[InvariantCheck]) -> int:
    return len({check.invariant for check in checks})


def _scenario(name: str, checks: Sequence[InvariantCheck]) -> str:
    asked_checks = [check for check in checks if check.was_asked]
    held = sum(check.holds is True for check in asked_checks)
    counts = {
        "unjudged": sum(bool(check.unjudged) for check in asked_checks),
        "not asked": len(checks) - len(asked_checks),
    }
    failed = held + counts["unjudged"] < len(asked_checks)
    if failed:
        mark = _FAILED
    elif counts["unjudged"]:
        mark = _UNJUDGED
    else:
        mark = style("✓", fg="green")
    count_text = "".join(f", {count} {what}" for what, count in counts.items() if count)
    return f"{mark} {short(name, 60)}: {held} of {len(asked_checks)} hold{count_text}"


def _failed_lines(checks: Sequence[InvariantCheck]) -> list[str]:
    """Each check that does not hold; what several of one run have in common is said once."""
    lines: list[str] = []
    for run in dict.fromkeys(check.probe for check in checks):
        here = [check for check in checks if check.probe == run and check.was_asked and not check.holds]
        lines += [line for check in here for line in _check_lines(check)]
        lines += [f"      evidence  {check.evidence}" for check in here[:1] if check.evidence]
    return lines


def _check_lines(check: InvariantCheck) -> list[str]:
    severity = style(check.severity.value, fg=_COLOURS[check.severity])
    mark, text = (_UNJUDGED, "nobody can tell") if check.unjudged else (_FAILED, check.text)
    why, _, hint = check.unjudged.partition("\n")
    parts = [
        ("asked", check.probe),
        ("expected", check.expected),
        ("got", check.actual),
        ("output", check.output),
        ("error", check.error),
        ("why", why),
        ("hint", hint),
    ]
    details = [f"      {name:<9} {short(text, _SHOWN_CHARS)}" for name, text in parts if text]
    return [f"  {mark} {short(check.invariant, 80)} ({severity}, {check.type}): {short(text, 120)}", *details]


def _never_asked(result: ContractResult) -> dict[str, str]:
    """The invariants that no run called for, and why the last one did not."""
    asked_invariants = {check.invariant for check in result.checks if check.was_asked}
    return {check.invariant: check.skipped for check in result.checks if check.invariant not in asked_invariants}


def _note(word: str, text: str) -> str:
    return f"{style(word, fg='yellow')}: {short(text, _SHOWN_CHARS)}"
