"""Upgraded cases as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.candidates.case_check import Upgraded
from replaykit.cases.proof import RECORDED_RUN
from replaykit.report.layout import JsonResult, counted, indented, to_json
from replaykit.terminal import style


class UpgradedCases(JsonResult, frozen=True, kw_only=True):
    """The cases that were looked at, and what was done to each."""

    cases: Sequence[Upgraded]
    """Every case that could be read, changed or not."""


def upgraded_text(cases: Sequence[Upgraded], *, dry_run: bool) -> str:
    """Return what was done to each case, and what is left to do."""
    rewritten, proven = "rewrote ", "proven red"
    if dry_run:
        rewritten, proven = "would rewrite ", "would be proven red"
    lines: list[str] = []
    for case in cases:
        lines += indented(case.rewritten, rewritten)
        if case.proven:
            lines.append(f"{case.directory}: {proven} by {RECORDED_RUN}")
        elif case.unproven:
            lines.append(f"{case.directory}: {style('not proven', fg='yellow')}: {case.unproven.splitlines()[0]}")
    changed = sum(bool(case.rewritten or case.proven) for case in cases)
    current = len(cases) - changed
    return "\n".join([*lines, f"{counted(len(cases), 'case')}: {changed} upgraded, {current} already current"])


def upgraded_json(cases: Sequence[Upgraded]) -> str:
    """The same for programs."""
    return to_json(UpgradedCases(cases=cases))
