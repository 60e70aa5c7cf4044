"""Semantic checks and who judged them, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.model.result import SemanticCheck
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, canonical
from replaykit.report.layout import short, to_json
from replaykit.terminal import style, visible

_COLOURS = {"pass": "green", "fail": "red", "unjudged": "magenta", "needs_human": "yellow"}


def checks_text(checks: Sequence[SemanticCheck]) -> str:
    """Each sentence with its number, its state, and who said so."""
    lines = []
    for number, check in enumerate(checks, 1):
        state = style(f"{check.status:<11}", fg=_COLOURS[check.status])
        run_note = f" (run {check.run})" if check.run > 1 else ""
        lines.append(f"{number:>2}  {state} {short(check.text, 200)}{run_note}")
        why = ": ".join(part for part in (check.by, check.reason) if part)
        if why:
            lines.append(f"                {short(why, 300)}")
    counts = [(status, sum(check.status == status for check in checks)) for status in _COLOURS]
    return "\n".join([*lines, "", ", ".join(f"{count} {status}" for status, count in counts if count)])


def checks_json(case_id: str, checks: Sequence[SemanticCheck], *, asked: int = 0) -> str:
    """The same for programs."""
    document = {"replaykit": 1, "case": case_id, "asked": asked, "checks": checks}
    return to_json(document)


def asked_text(run: TraceRun) -> str:
    """Return a run as a person sees it before answering; control characters are spelled out."""
    lines = [f"asked:    {_shown(run.input)}", f"status:   {run.status.value}", "answered:"]
    return "\n".join([*lines, *(f"  {visible(line)}" for line in _answer(run).splitlines())])


def _answer(run: TraceRun) -> str:
    if run.output_json:
        return _plain(run.output)
    return "(no output)"


def _shown(value: Json) -> str:
    return short(_plain(value), 500)


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    return canonical(value).decode()
