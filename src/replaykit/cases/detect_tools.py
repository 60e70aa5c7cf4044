"""Detectors of what went wrong with tools: loops, failures, wrong calls, and orders that came in with an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from replaykit.cases.detect_outcome import TELLING_CHARS
from replaykit.cases.error_patterns import mask
from replaykit.cases.injection import obeyed_calls
from replaykit.cases.signatures import (
    DETECTORS,
    FailureSignature,
    expected_calls,
    is_known_failure,
    on_the_way,
    signature_of,
)
from replaykit.checks.admissions import admission
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.checks.conversation import shows_all_messages
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import output_text, run_errors
from replaykit.checks.stuck_agents import is_fruitless, rows_of
from replaykit.checks.tool_errors import failure_of
from replaykit.checks.tool_offers import (
    hands_in_answer,
    introduced_tools,
    invalid_calls,
    telling_calls,
    unoffered_calls,
)
from replaykit.checks.tools import largest_group
from replaykit.formats.core.labels import only_reads
from replaykit.model.events import ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.redaction.lazy_patterns import lazy

SAME_CALL_REPEATS = 3
"""A call made this often with the same arguments, and nothing new coming of it, is a loop."""
IN_A_ROW_REPEATS = 4
"""A tool called this often in a row with differing arguments, and nothing coming of it, is stuck."""
SAME_FAILURE_REPEATS = 3
"""A tool that failed this often in the same words was called wrongly, or given up on too late."""
_CYCLE = {"repeats": 3, "period": 4}
_MAX_ON_THE_WAY = 3
_TRANSIENT = lazy(
    r"time(?:d)?[ -]?out|temporar|unavailable|try again|rate.?limit|overload|connection|reset|refused"
    r"|\b(?:429|502|503|504)\b",
    re.IGNORECASE,
)
_HANDS_OVER = lazy(r"transfer|escalat|hand_?off|hand_?over|human|support", re.IGNORECASE)
_EXPLAINED = ("step_budget", "budget_text", "timeout_text", "llm.same_request", "llm.same_answer")
"""Findings that say nothing more once a loop is known."""


@DETECTORS.register("loop")
def find_loops(run: TraceRun) -> list[FailureSignature]:
    """Find calls that are made again and again, alone or in a cycle."""
    found: list[FailureSignature] = []
    for tool, calls in _by_tool(run).items():
        if len(calls) <= expected_calls(run, tool):
            continue
        alike = largest_group(calls, by_arguments=True)
        if len(alike) >= SAME_CALL_REPEATS and (is_fruitless(alike) or _went_on_until_stopped(run, alike)):
            value: dict[str, Json] = {"tool": tool, "count": len(alike)}
            if len(alike) < len(calls):
                value["same_arguments"] = True
            explains = (*_EXPLAINED, f"repeated:{tool}")
            model_call = _model_call_before(run, alike[-1])
            found += signature_of(run, "loop", "max_tool_calls", value, explains=explains, seq=model_call)
        else:
            found += _stuck(run, tool)
    if found or run.status is RunStatus.SUCCESS:
        return found
    return signature_of(run, "cycle", "not", {"trajectory.no_loop": _CYCLE}, explains=_EXPLAINED)


@DETECTORS.register("tool_error")
def find_tool_errors(run: TraceRun) -> list[FailureSignature]:
    """Find tools that failed and what the agent made of it: it hid the failure, or did not try again."""
    found: list[FailureSignature] = []
    known_failure = is_known_failure(run)
    for tool, calls in _by_tool(run).items():
        last = calls[-1]
        reason = failure_of(run, last)
        if not known_failure and _is_made_up_for(run, last):
            continue
        if reason is not None:
            found += _last_failure(run, tool, reason, known_failure=known_failure)
        found += _same_failures(run, tool, calls)
    explained = {one.assertion.value["tool"] for one in found}
    found += list(_recovered(run, explained))[:_MAX_ON_THE_WAY]
    return found


@DETECTORS.register("tool_offers")
def find_wrong_calls(run: TraceRun) -> list[FailureSignature]:
    """Find calls that do not fit what the model was offered, and calls that were announced and never made."""
    found: list[FailureSignature] = []
    known_failure = is_known_failure(run)
    for name in dict.fromkeys(name for _call, name, _offered in unoffered_calls(run)):
        found += signature_of(run, "not_offered", "tool.not_offered", name)
    # Of several such calls the last one is pointed at: the model had been told before.
    for name, model_call in {name: call.seq for call, name, _flaw in invalid_calls(run)}.items():
        if known_failure or _was_refused(run, name):
            code, explains = (
                f"arguments:{name}",
                (f"ignored:{name}", f"unretried:{name}", f"repeated:{name}", f"stuck:{name}"),
            )
            found += signature_of(
                run, code, "tool.invalid_arguments", {"tool": name}, explains=explains, seq=model_call
            )
    if shows_all_messages(run) and next(telling_calls(run), None) is None:
        announced = [name for name in introduced_tools(run) if signature_of(run, "", "tool.only_announced", name)]
        for name in announced:
            found += signature_of(run, "announced", "tool.only_announced", name)
        if not announced and introduced_tools(run):
            found += signature_of(run, "lookup_skipped", "tool.lookup_skipped", True)
    return found


@DETECTORS.register("injection")
def find_injection(run: TraceRun) -> list[FailureSignature]:
    """Find calls that follow an instruction from a tool's answer."""
    found: list[FailureSignature] = []
    for obeyed in obeyed_calls(run):
        value = {"tool": obeyed.call.name, "arguments": dict([obeyed.argument])}
        found += signature_of(run, "injection", "tool.called", value)
    return found


def _stuck(run: TraceRun, tool: str) -> list[FailureSignature]:
    """Find the longest row of calls that led nowhere; six letters that were all sent with the same "ok" are none."""
    rows = [row for row in rows_of(run, tool) if len(row) >= IN_A_ROW_REPEATS and is_fruitless(row)]
    if not only_reads(tool):
        rows = [row for row in rows if call_failed(row[0]) or _says_nothing(row[0])]
    if not rows:
        return []
    longest = max(rows, key=len)
    value = {"tool": tool, "times": len(longest)}
    explains = (*_EXPLAINED, f"repeated:{tool}")
    model_call = _model_call_before(run, longest[-1])
    return signature_of(run, f"stuck:{tool}", "tool.stuck", value, explains=explains, seq=model_call)


def _says_nothing(call: ToolCall) -> bool:
    return call.result in ([], {}) or (isinstance(call.result, str) and _NOTHING_FOUND.search(call.result) is not None)


_NOTHING_FOUND = lazy(
    r"\bno (?:\w+ )?(?:results?|matches|records?|data|hits)\b|\bnothing found\b|\bnot found\b", re.IGNORECASE
)


def _went_on_until_stopped(run: TraceRun, alike: Sequence[ToolCall]) -> bool:
    """True when a run that failed made these calls one right after the other, without waiting for anything."""
    if run.status is RunStatus.SUCCESS:
        return False
    order = [call.seq for call in run.tool_calls]
    places = [order.index(call.seq) for call in alike]
    return places[-1] - places[0] == len(places) - 1


def _last_failure(run: TraceRun, tool: str, reason: str, *, known_failure: bool) -> list[FailureSignature]:
    code = f"unretried:{tool}"
    call = _by_tool(run)[tool][-1]
    explains = ("error_text", "timeout_text") if _is_passed_on(run, call, reason) else ()
    found: list[FailureSignature] = []
    found += signature_of(
        run,
        f"ignored:{tool}",
        "tool.ignored_error",
        {"tool": tool, "acknowledged_by": "anything"},
        explains=(code, f"repeated:{tool}", "answer"),
        seq=_model_call_after(run, call),
    )
    # A refusal such as "past the return window" would be the same again. Of an error without words the answer may tell.
    answer = output_text(run)
    is_the_end = call.seq == run.tool_calls[-1].seq and admission(answer) is not None
    could_pass = _TRANSIENT.search(reason) or (is_the_end and _TRANSIENT.search(answer))
    if known_failure or could_pass:
        # A retry meets the recorded failure again. It is desired only where its absence is all that went wrong.
        admits, retries = _admits(tool), parse_assertion("not", {"tool.unretried_error": {"tool": tool}})
        instead = (retries, admits) if could_pass and run.status is RunStatus.SUCCESS else (admits,)
        found += signature_of(run, code, "tool.unretried_error", {"tool": tool}, explains=explains, instead=instead)
    return [structs.replace(one, text=f"{one.text}: {reason}") for one in found]


def _admits(tool: str) -> Assertion:
    """Return that the answer tells of a failure of the tool that nothing made good, in whatever words."""
    return parse_assertion("not", {"tool.ignored_error": {"tool": tool, "acknowledged_by": "anything"}})


def _model_call_after(run: TraceRun, call: ToolCall) -> int | None:
    """Return the model call that saw the outcome first, and made of it what the finding is about."""
    return next((one.seq for one in run.llm_calls if one.seq > call.seq), None)


def _model_call_before(run: TraceRun, call: ToolCall) -> int | None:
    """Return the model call that asked for the call."""
    return next((one.seq for one in reversed(run.llm_calls) if one.seq < call.seq), None)


def _same_failures(run: TraceRun, tool: str, calls: Sequence[ToolCall]) -> list[FailureSignature]:
    """Find a tool that failed over and over in the same words, with other arguments each time."""
    reasons = [mask(reason) for call in calls if (reason := call_failed(call)) is not None]
    if not reasons:
        return []
    most = max(reasons, key=reasons.count)
    if reasons.count(most) < SAME_FAILURE_REPEATS:
        return []
    value = {"tool": tool, "like": most, "min": reasons.count(most)}
    last = [call for call in calls if mask(call_failed(call) or "") == most][-1]
    gives_up = parse_assertion("not", {"tool.error": value})
    model_call = _model_call_before(run, last)
    return signature_of(run, f"repeated:{tool}", "tool.error", value, instead=(gives_up, _admits(tool)), seq=model_call)


def _recovered(run: TraceRun, explained: set[str]) -> Iterator[FailureSignature]:
    """Give failures that the agent got over; a replay repeats them for any agent."""
    for tool, calls in _by_tool(run).items():
        if tool in explained:
            continue
        failed = next((call for call in calls if call_failed(call) is not None), None)
        if failed is not None:
            value = {"tool": tool, "like": mask(call_failed(failed) or "")}
            model_call = _model_call_before(run, failed)
            yield from signature_of(run, on_the_way(f"error:{tool}"), "tool.error", value, instead=(), seq=model_call)


def _is_made_up_for(run: TraceRun, failed: ToolCall) -> bool:
    """True when the agent found another way: a later call answered in place of a lookup, or a human took over."""
    later = [call for call in run.tool_calls if call.seq > failed.seq and call_failed(call) is None and call.answered]
    if any(_HANDS_OVER.search(call.name) for call in later):
        return True
    return only_reads(failed.name) and any(not hands_in_answer(run, call) for call in later)


def _was_refused(run: TraceRun, tool: str) -> bool:
    """True when a tool failed by the arguments it was given, as far as the run shows."""
    calls = _by_tool(run).get(tool, [])
    return not calls or any(call_failed(call) is not None for call in calls)


def _is_passed_on(run: TraceRun, call: ToolCall, reason: str) -> bool:
    """True when the run's error is the tool's, handed on or wrapped."""
    message = call.error.message if call.error is not None else ""
    own = reason if len(message) < TELLING_CHARS else message
    return any(own in str(error) or (error.message and error.message in reason) for _seq, error in run_errors(run))


def _by_tool(run: TraceRun) -> dict[str, list[ToolCall]]:
    tools: dict[str, list[ToolCall]] = {}
    for call in run.tool_calls:
        tools.setdefault(call.name, []).append(call)
    return tools
