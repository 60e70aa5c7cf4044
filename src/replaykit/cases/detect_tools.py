"""Detectors of what went wrong with tools: loops, failures, wrong calls, and orders that came in with an answer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct, structs

from replaykit.cases.detect_outcome import TELLING_CHARS, mask
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
from replaykit.checks.conversation import shows_all_messages, texts_in
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import first, output_text, run_errors
from replaykit.checks.tool_errors import failure_of
from replaykit.checks.tool_offers import (
    hands_in_answer,
    introduced_tools,
    invalid_calls,
    telling_calls,
    unoffered_calls,
)
from replaykit.checks.tools import largest_group
from replaykit.checks.trajectory_order import is_fruitless, rows_of
from replaykit.formats.core.labels import only_reads
from replaykit.model.events import Message, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.redaction.lazy_patterns import lazy
from replaykit.wire.json_fields import as_object

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
            value: JsonObject = {"tool": tool, "count": len(alike)}
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
        if not known_failure and _is_made_up_for(run, last):
            continue
        reason = failure_of(run, last)
        if reason is not None:
            found += _last_failure(run, last, reason, known_failure=known_failure)
        found += _same_failures(run, tool, calls)
    # Failures that the agent got over come last, and only of tools about which nothing worse is known.
    explained = {signature.assertion.value["tool"] for signature in found}
    found += islice(_recovered(run, explained), _MAX_ON_THE_WAY)
    return found


@DETECTORS.register("tool_offers")
def find_wrong_calls(run: TraceRun) -> list[FailureSignature]:
    """Find calls that do not fit what the model was offered, and calls that were announced and never made."""
    found: list[FailureSignature] = []
    known_failure = is_known_failure(run)
    for name in dict.fromkeys(name for _call, name, _offered in unoffered_calls(run)):
        found += signature_of(run, "not_offered", "tool.not_offered", name)
    # Of several such calls the last one is pointed at: the model had been told before.
    for name, seq in {name: call.seq for call, name, _flaw in invalid_calls(run)}.items():
        if known_failure or _was_refused(run, name):
            code, value = f"arguments:{name}", {"tool": name}
            explains = (f"ignored:{name}", f"unretried:{name}", f"repeated:{name}", f"stuck:{name}")
            found += signature_of(run, code, "tool.invalid_arguments", value, explains=explains, seq=seq)
    if shows_all_messages(run) and next(telling_calls(run), None) is None:
        tools = introduced_tools(run)
        announced: list[FailureSignature] = []
        for name in tools:
            announced += signature_of(run, "announced", "tool.only_announced", name)
        if tools and not announced:
            announced = signature_of(run, "lookup_skipped", "tool.lookup_skipped", True)
        found += announced
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
    longest: list[ToolCall] = []
    for row in rows_of(run, tool):
        leads_nowhere = only_reads(tool) or call_failed(row[0]) or _says_nothing(row[0].result)
        if len(row) >= max(IN_A_ROW_REPEATS, len(longest) + 1) and is_fruitless(row) and leads_nowhere:
            longest = row
    if not longest:
        return []
    value = {"tool": tool, "times": len(longest)}
    explains = (*_EXPLAINED, f"repeated:{tool}")
    seq = _model_call_before(run, longest[-1])
    return signature_of(run, f"stuck:{tool}", "tool.stuck", value, explains=explains, seq=seq)


def _says_nothing(result: Json) -> bool:
    return result in ([], {}) or (isinstance(result, str) and _NOTHING_FOUND.search(result) is not None)


_NOTHING_FOUND = lazy(
    r"\bno (?:\w+ )?(?:results?|matches|records?|data|hits)\b|\bnothing found\b|\bnot found\b", re.IGNORECASE
)


def _went_on_until_stopped(run: TraceRun, alike: Sequence[ToolCall]) -> bool:
    """True when a run that failed made these calls one right after the other, without waiting for anything."""
    if run.status is RunStatus.SUCCESS:
        return False
    order = [call.seq for call in run.tool_calls]
    return order.index(alike[-1].seq) - order.index(alike[0].seq) == len(alike) - 1


def _last_failure(run: TraceRun, call: ToolCall, reason: str, *, known_failure: bool) -> list[FailureSignature]:
    tool = call.name
    code = f"unretried:{tool}"
    # The model call that saw the outcome first made of it what the finding is about.
    reader = first(run.llm_calls, lambda model_call: model_call.seq > call.seq)
    found = signature_of(
        run,
        f"ignored:{tool}",
        "tool.ignored_error",
        {"tool": tool, "acknowledged_by": "anything"},
        explains=(code, f"repeated:{tool}", "answer"),
        seq=None if reader is None else reader.seq,
    )
    # A refusal such as "past the return window" would be the same again. Of an error without words the answer may tell.
    answer = output_text(run)
    is_the_end = call.seq == run.tool_calls[-1].seq and admission(answer) is not None
    could_pass = _TRANSIENT.search(reason) or (is_the_end and _TRANSIENT.search(answer))
    if known_failure or could_pass:
        # A retry meets the recorded failure again. It is desired only where its absence is all that went wrong.
        admits, retries = _admits(tool), parse_assertion("not", {"tool.unretried_error": {"tool": tool}})
        instead = (retries, admits) if could_pass and run.status is RunStatus.SUCCESS else (admits,)
        explains = ("error_text", "timeout_text") if _is_passed_on(run, call, reason) else ()
        found += signature_of(run, code, "tool.unretried_error", {"tool": tool}, explains=explains, instead=instead)
    return [structs.replace(signature, text=f"{signature.text}: {reason}") for signature in found]


def _admits(tool: str) -> Assertion:
    """Return that the answer tells of a failure of the tool that nothing made good, in whatever words."""
    return parse_assertion("not", {"tool.ignored_error": {"tool": tool, "acknowledged_by": "anything"}})


def _model_call_before(run: TraceRun, call: ToolCall) -> int | None:
    """Return the model call that asked for the call."""
    before = first(reversed(run.llm_calls), lambda model_call: model_call.seq < call.seq)
    return None if before is None else before.seq


def _same_failures(run: TraceRun, tool: str, calls: Sequence[ToolCall]) -> list[FailureSignature]:
    """Find a tool that failed over and over in the same words, with other arguments each time."""
    groups: defaultdict[str, list[ToolCall]] = defaultdict(list)
    for call in calls:
        reason = call_failed(call)
        if reason is not None:
            groups[mask(reason)].append(call)
    like, failed = max(groups.items(), key=lambda group: len(group[1]), default=("", []))
    if len(failed) < SAME_FAILURE_REPEATS:
        return []
    value = {"tool": tool, "like": like, "min": len(failed)}
    instead = (parse_assertion("not", {"tool.error": value}), _admits(tool))
    seq = _model_call_before(run, failed[-1])
    return signature_of(run, f"repeated:{tool}", "tool.error", value, instead=instead, seq=seq)


def _recovered(run: TraceRun, explained: set[str]) -> Iterator[FailureSignature]:
    """Give failures that the agent got over; a replay repeats them for any agent."""
    for tool, calls in _by_tool(run).items():
        failed = first(calls, lambda call: call_failed(call) is not None)
        if tool not in explained and failed is not None:
            value = {"tool": tool, "like": mask(call_failed(failed) or "")}
            seq = _model_call_before(run, failed)
            yield from signature_of(run, on_the_way(f"error:{tool}"), "tool.error", value, instead=(), seq=seq)


def _is_made_up_for(run: TraceRun, failed: ToolCall) -> bool:
    """True when the agent found another way: a later call answered in place of a lookup, or a human took over."""
    for call in run.tool_calls:
        if call.seq <= failed.seq or not call.answered or call_failed(call) is not None:
            continue
        if _HANDS_OVER.search(call.name) or (only_reads(failed.name) and not hands_in_answer(run, call)):
            return True
    return False


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
    tools: defaultdict[str, list[ToolCall]] = defaultdict(list)
    for call in run.tool_calls:
        tools[call.name].append(call)
    return tools


# Narrow on purpose: logs, manuals and greetings say "you are now", "[system]" and "ignore all" as well.
# For text in lower case, each with a literal to begin with, which is what a search is fast by: one pattern with all of
# them takes 15 times as long.
_OBJECT = (
    r"\b.{0,30}?\b(?:(?:previous|prior|above|earlier|preceding)\b.{0,30}?\b"
    r"(?:instructions?|prompts?|rules|directions|guidelines|context|messages)"
    r"|(?:your|all|any)\b.{0,30}?\b(?:instructions?|prompts?))\b"
)
_READER = r"\s+(?:to|for)\s+(?:the\s+)?(?:ai|llm|assistants?|agents?|language\s+models?)\b"
_INSTRUCTIONS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        *(rf"{verb}(?<!\w{verb}){_OBJECT}" for verb in ("ignore", "disregard", "forget", "override", "bypass")),
        r"new(?<!\wnew)\s+(?:system\s+)?instructions?\s*:",
        r"you(?<!\wyou)\s+are\s+now\s+(?:in\s+\w+\s+mode|acting\s+as|no\s+longer\s+bound)\b",
        r"do(?<!\wdo)\s+not\s+(?:tell|mention|inform|reveal|show)\b.{0,30}?\buser\b",
        r"<\s*/?\s*system\s*>",
        *(rf"{word}(?<!\w{word}){_READER}" for word in ("note", "message", "attention", "instruction")),
        rf"instructions(?<!\winstructions){_READER}",
    )
)
_HEADING = re.compile(r"system\s*(?:prompt|message|override)\s*:")
"""At the beginning of a line."""
_REACH = 600  # how far from an instruction's words its particulars are looked for
_LONG_BYTES = 4096
_MIN_CHARS = 5  # a shorter argument occurs in any text by chance


class Obeyed(Struct, frozen=True):
    """A call that carries what an injected instruction dictated."""

    call: ToolCall
    argument: tuple[str, str]
    """Name and value of the most telling argument that stands in the instruction and not in what the user said."""


def obeyed_calls(run: TraceRun) -> list[Obeyed]:
    """The calls, in order, that follow an instruction from an earlier tool result."""
    user_text = _user_text(run)
    instructions: list[str] = []
    earlier: list[ToolCall] = []
    found = []
    for call in run.tool_calls:
        if _has_texts(call):
            # Not before: results are long, and most of them are followed by no call that could obey them.
            for answered in earlier:
                instructions += _passages(answered)
            earlier = []
        dictated = _dictated(call, instructions, user_text)
        if dictated:
            found.append(Obeyed(call, max(dictated.items(), key=_telling)))
        earlier.append(call)
    return found


def _has_texts(call: ToolCall) -> bool:
    """True when an argument may be a text that could be dictated. Long arguments are not read for that."""
    if len(call.arguments_json) > _LONG_BYTES:
        return True
    arguments = call.arguments
    return isinstance(arguments, dict) and any(isinstance(value, str) for value in arguments.values())


def _passages(call: ToolCall) -> list[str]:
    """Return the text around each instruction in a result, in lower case: only there an argument counts as dictated."""
    found = []
    for text in texts_in([call.result, call.items]):
        low = text.lower().replace("\u017f", "s")  # the long s, which is one in any case
        for start, end in _instructions(low):
            found.append(low[max(0, start - _REACH) : end + _REACH])
    return found


def _instructions(low: str) -> Iterator[tuple[int, int]]:
    for pattern in _INSTRUCTIONS:
        yield from (found.span() for found in pattern.finditer(low))
    for found in _HEADING.finditer(low):
        line_start = low.rfind("\n", 0, found.start()) + 1
        if not low[line_start : found.start()].strip():
            yield found.span()


def _dictated(call: ToolCall, instructions: list[str], user_text: str) -> dict[str, str]:
    dictated = {}
    for name, value in as_object(call.arguments).items() if instructions else ():
        words = value.strip().lower() if isinstance(value, str) else ""
        if len(words) >= _MIN_CHARS and words not in user_text and any(words in passage for passage in instructions):
            dictated[name] = value
    return dictated


def _telling(argument: tuple[str, str]) -> tuple[bool, int]:
    """An address before a phrase, a long text before a short: one argument, so that a variation is still caught."""
    _name, value = argument
    return ("@" in value or "://" in value) and " " not in value, len(value)


def _user_text(run: TraceRun) -> str:
    texts = [event.content for event in run.events if isinstance(event, Message) and event.role in ("user", "system")]
    return "\n".join(texts_in([run.input, *texts])).lower()
