"""Retapes as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType, field

from replaykit.candidates.retaping import NewCall, Retaping
from replaykit.candidates.retaping_many import Left, tokens_of, usage_of
from replaykit.cases.takes import Take
from replaykit.model.events import Usage
from replaykit.model.result import ReplayResult, Verdict
from replaykit.model.text_lines import cut
from replaykit.report.layout import JsonResult, coloured, counted, indented, table, to_json
from replaykit.report.replays import failure_lines, headline
from replaykit.terminal import unstyle, visible_lines


class AskedCall(Struct, frozen=True, kw_only=True):
    """A call that no earlier take answers."""

    kind: str
    """`tool_call`, `llm_call` or `exchange`."""
    name: str
    """The tool, the model or the request."""
    answered_by: str
    """Who gave the new answer."""
    difference: str
    """What differs from the nearest recorded call."""


class RetapedCase(Struct, frozen=True, kw_only=True):
    """One case that new answers were recorded for, or not."""

    case_id: str
    """The id of the case."""
    verdict: str
    """The verdict on the candidate's run; empty if it was not run."""
    take: Take | None
    """The new take; None if none was written."""
    directory: str | UnsetType | None = UNSET
    """The directory of the new take."""
    reason: str
    """Why no take was written; empty if one was."""
    usage: Usage | UnsetType = UNSET
    """What the live model calls took; missing, as are the next keys, if the case was left out."""
    new_calls: Sequence[AskedCall] | UnsetType = field(default=UNSET, name="asked")
    """The calls that no earlier take answers."""


class RetapedCases(JsonResult, frozen=True, kw_only=True):
    """The cases that new answers were to be recorded for."""

    passed: bool
    """True when every take was written and its candidate is fixed."""
    usage: Usage
    """What all live model calls took."""
    retapes: Sequence[RetapedCase]
    """Every case, in order."""


_SHOWN_LINES = 12
_SHOWN_CHARS = 160


def retaping_text(retaping: Retaping) -> str:
    """One retape: what was asked anew, what it took, and the new take."""
    lines = [f"{retaping.case.id}: {headline(retaping.result)}", ""]
    lines += _asked_lines(retaping.new_calls)
    if retaping.new_calls:
        lines.append(f"  {counted(len(retaping.new_calls), 'call')} answered for the new take{_cost(retaping.usage)}")
    if retaping.take is not None:
        lines.append(f"  wrote the take `{retaping.take.name}`: {retaping.directory}")
    if retaping.problem:
        if retaping.result.verdict in (Verdict.BROKEN, Verdict.REPRODUCED):
            lines += unstyle("\n".join(failure_lines(retaping.result.failures))).splitlines()
        lines += indented(retaping.problem.splitlines())
    return visible_lines("\n".join(lines))


def outcomes_text(outcomes: Sequence[Retaping | Left]) -> str:
    """One retape in full; many of them with a row each, and what they took."""
    if len(outcomes) == 1 and isinstance(outcomes[0], Retaping):
        return retaping_text(outcomes[0])
    rows = list(map(_row, outcomes))
    written = sum(isinstance(outcome, Retaping) and outcome.take is not None for outcome in outcomes)
    total = f"{counted(written, 'take')} written for {counted(len(outcomes), 'case')}{_cost(usage_of(outcomes))}"
    return f"{table(['case', 'verdict', 'new answers', 'take', ''], rows)}\n\n{total}"


def outcomes_json(outcomes: Sequence[Retaping | Left], *, passed: bool) -> str:
    """Retapes for programs."""
    retapes = list(map(_document, outcomes))
    return to_json(RetapedCases(passed=passed, usage=usage_of(outcomes), retapes=retapes))


def _document(outcome: Retaping | Left) -> RetapedCase:
    verdict = _verdict(outcome.result)
    if isinstance(outcome, Left):
        return RetapedCase(case_id=outcome.case.id, verdict=verdict, take=None, reason=outcome.reason)
    return RetapedCase(
        case_id=outcome.case.id,
        verdict=verdict,
        take=outcome.take,
        directory=None if outcome.directory is None else str(outcome.directory),
        reason=outcome.problem,
        usage=outcome.usage,
        new_calls=list(map(_new_call, outcome.new_calls)),
    )


def _new_call(question: NewCall) -> AskedCall:
    call = question.call
    return AskedCall(kind=call.kind, name=call.name, answered_by=question.answered_by, difference=question.text)


def _row(outcome: Retaping | Left) -> list[str]:
    verdict = _verdict(outcome.result)
    if isinstance(outcome, Left):
        return [outcome.case.id, coloured(verdict), "", "", outcome.reason]
    take = "" if outcome.take is None else outcome.take.name
    problem = "".join(outcome.problem.splitlines()[:1])
    return [outcome.case.id, coloured(verdict), str(len(outcome.new_calls)), take, problem]


def _verdict(result: ReplayResult | None) -> str:
    if result is None:
        return ""
    return result.verdict.value


def _asked_lines(questions: Sequence[NewCall]) -> list[str]:
    """The new calls, each with what differs from the nearest recorded one, unless that was just shown."""
    lines: list[str] = []
    shown: list[str] = []
    for question in questions:
        lines.append(f"  {question.call.name}  answered by: {question.answered_by}")
        differences = question.text.splitlines()[1 : 1 + _SHOWN_LINES]
        if differences != shown:
            lines += indented([cut(line, _SHOWN_CHARS) for line in differences], "    ")
        shown = differences
    return lines


def _cost(usage: Usage) -> str:
    """Return the known cost of live calls, as the end of a sentence."""
    parts = []
    if tokens_of(usage):
        parts.append(f"{tokens_of(usage):,} tokens")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd:.4f}")
    if parts:
        return f"; live calls took {', '.join(parts)}"
    return ""
