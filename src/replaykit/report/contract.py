"""How well a contract is kept, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from click import style

from replaykit.contracts.contract import Severity
from replaykit.contracts.score import Check, ContractResult
from replaykit.report.panel import counted, short

_COLOURS = {Severity.CRITICAL: "red", Severity.HIGH: "red", Severity.MEDIUM: "yellow", Severity.LOW: "yellow"}
_SHOWN_CHARS = 200
_UNSTRUCK = "none of its faults struck a call; is the name right, and do the agent's calls pass through ReplayKit?"


def contract_text(result: ContractResult) -> str:
    """Each scenario with its counts, each failure with what was expected and what came, and the score."""
    lines = []
    for name in dict.fromkeys(check.scenario for check in result.checks):
        here = [check for check in result.checks if check.scenario == name]
        lines += [_scenario(name, here), *_failures(here)]
    lines += [_note("never asked", f"{name} ({why})") for name, why in _never_asked(result).items()]
    lines += [_note("untested", f"{name}: {_UNSTRUCK}") for name in result.untested]
    word, colour = _verdict(result)
    said = f"{short(result.contract, 80)}: {style(word, fg=colour, bold=True)}, score {result.score:g}"
    floor = f" of at least {result.min_score:g}" if result.min_score < 100 else ""
    failed = len({check.invariant for check in result.failures})
    return "\n".join([*lines, "", f"{said}{floor}" + (f", {counted(failed, 'invariant')} failed" if failed else "")])


def contract_json(result: ContractResult) -> str:
    """The result for programs."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def _verdict(result: ContractResult) -> tuple[str, str]:
    if result.passed:
        return "kept", "green"
    if result.reason:
        return "not run", "magenta"
    return ("broken", "red") if result.is_broken else ("untested", "magenta")


def _scenario(name: str, checks: Sequence[Check]) -> str:
    asked = [check for check in checks if check.holds is not None]
    held = sum(check.holds is True for check in asked)
    mark = style("✓", fg="green") if held == len(asked) else style("✗", fg="red")
    left = len(checks) - len(asked)
    return f"{mark} {short(name, 60)}: {held} of {len(asked)} hold" + (f", {left} not asked" if left else "")


def _failures(checks: Sequence[Check]) -> list[str]:
    """Each check that does not hold; what several of one run have in common is said once."""
    lines: list[str] = []
    for run in dict.fromkeys(check.probe for check in checks):
        failed = [check for check in checks if check.probe == run and check.holds is False]
        lines += [line for check in failed for line in _failure(check)]
        lines += [f"      evidence  {check.evidence}" for check in failed[:1] if check.evidence]
    return lines


def _failure(check: Check) -> list[str]:
    severity = style(check.severity.value, fg=_COLOURS[check.severity])
    parts = [
        ("asked", check.probe),
        ("expected", check.expected),
        ("got", check.actual),
        ("output", check.output),
        ("error", check.error),
    ]
    told = [f"      {name:<9} {short(text, _SHOWN_CHARS)}" for name, text in parts if text]
    return [
        f"  {style('✗', fg='red')} {short(check.invariant, 80)} ({severity}, {check.type}): {short(check.text, 120)}",
        *told,
    ]


def _never_asked(result: ContractResult) -> dict[str, str]:
    """The invariants that no run called for, and why the last one did not."""
    asked = {check.invariant for check in result.checks if check.holds is not None}
    return {check.invariant: check.skipped for check in result.checks if check.invariant not in asked}


def _note(word: str, text: str) -> str:
    return f"{style(word, fg='yellow')}: {short(text, _SHOWN_CHARS)}"
