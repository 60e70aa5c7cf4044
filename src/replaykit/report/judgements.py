"""Semantic checks and who judged them, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from replaykit.checks.reading import text_of
from replaykit.model.result import SemanticCheck
from replaykit.model.run import TraceRun
from replaykit.report.layout import JsonResult, indented, short, tally, to_json
from replaykit.terminal import style, visible


class JudgedCase(JsonResult, frozen=True, kw_only=True):
    """The answers to what a case wants judged."""

    case: str
    """The id of the case."""
    answered_count: int = field(name="asked")
    """The number of answers that the judge gave in this call."""
    checks: Sequence[SemanticCheck]
    """Every question about the newest replay, answered or not; `review` takes their numbers, counted from 1."""


_COLOURS = {"pass": "green", "fail": "red", "unjudged": "magenta", "needs_human": "yellow"}


def checks_text(checks: Sequence[SemanticCheck]) -> str:
    """Each sentence with its number, its state, and who said so."""
    lines = []
    counts = dict.fromkeys(_COLOURS, 0)
    for number, check in enumerate(checks, 1):
        state = style(f"{check.status:<11}", fg=_COLOURS[check.status])
        run_note = f" (run {check.run})" if check.run > 1 else ""
        lines.append(f"{number:>2}  {state} {short(check.text, 200)}{run_note}")
        why = ": ".join(filter(None, (check.by, check.reason)))
        if why:
            lines.append(f"                {short(why, 300)}")
        counts[check.status] += 1
    return "\n".join([*lines, "", tally(counts)])


def checks_json(case_id: str, checks: Sequence[SemanticCheck], *, answered_count: int = 0) -> str:
    """The same for programs."""
    return to_json(JudgedCase(case=case_id, answered_count=answered_count, checks=checks))


def asked_text(run: TraceRun) -> str:
    """Return a run as a person sees it before answering; control characters are spelled out."""
    answer = text_of(run.output) if run.output_json else "(no output)"
    lines = [f"asked:    {short(text_of(run.input), 500)}", f"status:   {run.status.value}", "answered:"]
    return "\n".join([*lines, *indented(map(visible, answer.splitlines()))])
