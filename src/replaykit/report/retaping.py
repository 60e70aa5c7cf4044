"""Retapes as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.model.events import Usage
from replaykit.model.result import ReplayResult
from replaykit.report.panel import counted, table
from replaykit.report.replays import headline
from replaykit.runners.retaping import Asked, Retaping
from replaykit.runners.retaping_many import Left, tokens_of, usage_of
from replaykit.terminal import visible_lines

_SHOWN_LINES = 12
_SHOWN_CHARS = 160


def retaping_text(retaping: Retaping) -> str:
    """One retape: what was asked anew, what it took, and the new take."""
    lines = [f"{retaping.case.id}: {headline(retaping.result)}", ""]
    lines += _asked_lines(retaping.asked)
    if retaping.asked:
        lines.append(f"  {_asked_count(retaping)}{_cost(retaping.usage)}")
    if retaping.take is not None:
        lines.append(f"  wrote the take `{retaping.take.name}`: {retaping.directory}")
    if retaping.problem:
        lines += [f"  {line}" for line in retaping.problem.splitlines()]
    return visible_lines("\n".join(lines))


def outcomes_text(outcomes: Sequence[Retaping | Left]) -> str:
    """Many retapes: a row each, and what they took."""
    rows = [_row(outcome) for outcome in outcomes]
    written = sum(isinstance(one, Retaping) and one.take is not None for one in outcomes)
    total = f"{counted(written, 'take')} written for {counted(len(outcomes), 'case')}{_cost(usage_of(outcomes))}"
    return f"{table(['case', 'verdict', 'new answers', 'take', ''], rows)}\n\n{total}"


def outcomes_json(outcomes: Sequence[Retaping | Left], *, passed: bool) -> str:
    """Retapes for programs."""
    document = {
        "replaykit": 1,
        "passed": passed,
        "usage": usage_of(outcomes),
        "retapes": [_document(outcome) for outcome in outcomes],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _document(outcome: Retaping | Left) -> dict[str, object]:
    verdict = _verdict(outcome.result)
    if isinstance(outcome, Left):
        return {"case_id": outcome.case.id, "verdict": verdict, "take": None, "reason": outcome.reason}
    return {
        "case_id": outcome.case.id,
        "verdict": verdict,
        "take": outcome.take,
        "directory": None if outcome.directory is None else str(outcome.directory),
        "reason": outcome.problem,
        "usage": outcome.usage,
        "asked": [
            {
                "kind": asked.call.kind,
                "name": asked.call.name,
                "answered_by": asked.answered_by,
                "difference": asked.text,
            }
            for asked in outcome.asked
        ],
    }


def _row(outcome: Retaping | Left) -> list[str]:
    verdict = _verdict(outcome.result)
    if isinstance(outcome, Left):
        return [outcome.case.id, verdict, "", "", outcome.reason]
    take = "" if outcome.take is None else outcome.take.name
    problem = outcome.problem.splitlines()[0] if outcome.problem else ""
    return [outcome.case.id, verdict, str(len(outcome.asked)), take, problem]


def _verdict(result: ReplayResult | None) -> str:
    return "" if result is None else result.verdict.value


def _asked_lines(asked: Sequence[Asked]) -> list[str]:
    """The new calls, each with what differs from the nearest recorded one, unless that was just shown."""
    lines: list[str] = []
    shown: list[str] = []
    for one in asked:
        lines.append(f"  {one.call.name}  answered by: {one.answered_by}")
        differences = one.text.splitlines()[1 : 1 + _SHOWN_LINES]
        if differences != shown:
            lines += [f"    {_cut(line)}" for line in differences]
        shown = differences
    return lines


def _cut(line: str) -> str:
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


def _asked_count(retaping: Retaping) -> str:
    return f"{counted(len(retaping.asked), 'call')} asked anew"


def _cost(usage: Usage) -> str:
    """What live calls took, as far as it is known, to follow other words."""
    parts = []
    if tokens_of(usage):
        parts.append(f"{tokens_of(usage):,} tokens")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd:.4f}")
    return f"; live calls took {', '.join(parts)}" if parts else ""
