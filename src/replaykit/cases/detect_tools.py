"""Detectors of failures with tools: loops, errors, wrong calls, and obeyed instructions from a tool's answer."""

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
"""A call repeated this often with the same arguments and without progress is a loop."""
IN_A_ROW_REPEATS = 4
"""A tool called this often in a row with different arguments and without progress is stuck."""
SAME_FAILURE_REPEATS = 3
"""A tool that failed this often in the same words was called wrongly, or given up too late."""
_CYCLE = {"repeats": 3, "period": 4}
_MAX_ON_THE_WAY = 3
_TRANSIENT = lazy(
    r"time(?:d)?[ -]?out|temporar|unavailable|try again|rate.?limit|overload|connection|reset|refused"
    r"|\b(?:429|502|503|504)\b",
    re.IGNORECASE,
)
_HANDS_OVER = lazy(r"transfer|escalat|hand_?off|hand_?over|human|support", re.IGNORECASE)
# Findings that add nothing once a loop is known.
_EXPLAINED = ("step_budget", "budget_text", "timeout_text", "llm.same_request", "llm.same_answer")


@DETECTORS.register("loop")
def find_loops(run: TraceRun) -> list[FailureSignature]:
    """Find calls that are repeated again and again, alone or in a cycle."""
    signatures: list[FailureSignature] = []
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
            signatures += signature_of(run, "loop", "max_tool_calls", value, explains=explains, seq=model_call)
        else:
            signatures += _stuck(run, tool)
    if signatures or run.status is RunStatus.SUCCESS:
        return signatures
    return signature_of(run, "cycle", "not", {"trajectory.no_loop": _CYCLE}, explains=_EXPLAINED)


@DETECTORS.register("tool_error")
def find_tool_errors(run: TraceRun) -> list[FailureSignature]:
    """Find failed tools whose failure the agent hid or did not retry."""
    signatures: list[FailureSignature] = []
    known_failure = is_known_failure(run)
    for tool, calls in _by_tool(run).items():
        last = calls[-1]
        if not known_failure and _is_made_up_for(run, last):
            continue
        reason = failure_of(run, last)
        if reason is not None:
            signatures += _last_failure(run, last, reason, known_failure=known_failure)
        signatures += _same_failures(run, tool, calls)
    # Failures that the agent recovered from come last, and only for tools without a worse finding.
    explained = {signature.assertion.value["tool"] for signature in signatures}
    signatures += islice(_recovered(run, explained), _MAX_ON_THE_WAY)
    return signatures


@DETECTORS.register("tool_offers")
def find_wrong_calls(run: TraceRun) -> list[FailureSignature]:
    """Find calls that do not fit what the model was offered, and calls that were announced but never made."""
    signatures: list[FailureSignature] = []
    known_failure = is_known_failure(run)
    for name in dict.fromkeys(name for _call, name, _offered in unoffered_calls(run)):
        signatures += signature_of(run, "not_offered", "tool.not_offered", name)
    # The finding points at the last of several such calls: the model had seen errors before it.
    for name, seq in {name: call.seq for call, name, _flaw in invalid_calls(run)}.items():
        if known_failure or _was_refused(run, name):
            code, value = f"arguments:{name}", {"tool": name}
            explains = (f"ignored:{name}", f"unretried:{name}", f"repeated:{name}", f"stuck:{name}")
            signatures += signature_of(run, code, "tool.invalid_arguments", value, explains=explains, seq=seq)
    if shows_all_messages(run) and next(telling_calls(run), None) is None:
        tools = introduced_tools(run)
        announced: list[FailureSignature] = []
        for name in tools:
            announced += signature_of(run, "announced", "tool.only_announced", name)
        if tools and not announced:
            announced = signature_of(run, "lookup_skipped", "tool.lookup_skipped", True)
        signatures += announced
    return signatures


@DETECTORS.register("injection")
def find_injection(run: TraceRun) -> list[FailureSignature]:
    """Find calls that follow an instruction from a tool's answer."""
    signatures: list[FailureSignature] = []
    for obeyed in obeyed_calls(run):
        value = {"tool": obeyed.call.name, "arguments": dict([obeyed.argument])}
        signatures += signature_of(run, "injection", "tool.called", value)
    return signatures


def _stuck(run: TraceRun, tool: str) -> list[FailureSignature]:
    """Find the longest row of calls that led nowhere, unlike six letters that were all sent with the same "ok"."""
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
    """True if a failed run made these calls back to back, without any other call between them."""
    if run.status is RunStatus.SUCCESS:
        return False
    order = [call.seq for call in run.tool_calls]
    return order.index(alike[-1].seq) - order.index(alike[0].seq) == len(alike) - 1


def _last_failure(run: TraceRun, call: ToolCall, reason: str, *, known_failure: bool) -> list[FailureSignature]:
    tool = call.name
    code = f"unretried:{tool}"
    # The finding points at the model call that first saw the outcome: it decided what to make of it.
    reader = first(run.llm_calls, lambda model_call: model_call.seq > call.seq)
    signatures = signature_of(
        run,
        f"ignored:{tool}",
        "tool.ignored_error",
        {"tool": tool, "acknowledged_by": "anything"},
        explains=(code, f"repeated:{tool}", "answer"),
        seq=None if reader is None else reader.seq,
    )
    # A refusal such as "past the return window" would come again, so it needs no retry. If the error has no text, the
    # answer may tell.
    answer = output_text(run)
    is_the_end = call.seq == run.tool_calls[-1].seq and admission(answer) is not None
    could_pass = _TRANSIENT.search(reason) or (is_the_end and _TRANSIENT.search(answer))
    if known_failure or could_pass:
        # A retry would get the recorded failure again, so it is desired only if its absence is the whole failure.
        admits, retries = _admits(tool), parse_assertion("not", {"tool.unretried_error": {"tool": tool}})
        instead = (retries, admits) if could_pass and run.status is RunStatus.SUCCESS else (admits,)
        explains = ("error_text", "timeout_text") if _is_passed_on(run, call, reason) else ()
        signatures += signature_of(
            run, code, "tool.unretried_error", {"tool": tool}, explains=explains, instead=instead
        )
    return [structs.replace(signature, text=f"{signature.text}: {reason}") for signature in signatures]


def _admits(tool: str) -> Assertion:
    """Require that the answer admits a failure of the tool that nothing made good, in whatever words."""
    return parse_assertion("not", {"tool.ignored_error": {"tool": tool, "acknowledged_by": "anything"}})


def _model_call_before(run: TraceRun, call: ToolCall) -> int | None:
    """Return the number of the model call that asked for this call."""
    before = first(reversed(run.llm_calls), lambda model_call: model_call.seq < call.seq)
    return None if before is None else before.seq


def _same_failures(run: TraceRun, tool: str, calls: Sequence[ToolCall]) -> list[FailureSignature]:
    """Find a tool that failed again and again in the same words."""
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
    """Yield failures that the agent recovered from; a replay repeats them for any agent."""
    for tool, calls in _by_tool(run).items():
        failed = first(calls, lambda call: call_failed(call) is not None)
        if tool not in explained and failed is not None:
            value = {"tool": tool, "like": mask(call_failed(failed) or "")}
            seq = _model_call_before(run, failed)
            yield from signature_of(run, on_the_way(f"error:{tool}"), "tool.error", value, instead=(), seq=seq)


def _is_made_up_for(run: TraceRun, failed: ToolCall) -> bool:
    """True if the agent found another way: a later call replaced a lookup, or a human took over."""
    for call in run.tool_calls:
        if call.seq <= failed.seq or not call.answered or call_failed(call) is not None:
            continue
        if _HANDS_OVER.search(call.name) or (only_reads(failed.name) and not hands_in_answer(run, call)):
            return True
    return False


def _was_refused(run: TraceRun, tool: str) -> bool:
    """True if a tool failed because of its arguments, as far as the run shows."""
    calls = _by_tool(run).get(tool, [])
    return not calls or any(call_failed(call) is not None for call in calls)


def _is_passed_on(run: TraceRun, call: ToolCall, reason: str) -> bool:
    """True if the run's error is the tool's, passed on or wrapped."""
    message = call.error.message if call.error is not None else ""
    own = reason if len(message) < TELLING_CHARS else message
    return any(own in str(error) or (error.message and error.message in reason) for _seq, error in run_errors(run))


def _by_tool(run: TraceRun) -> dict[str, list[ToolCall]]:
    tools: defaultdict[str, list[ToolCall]] = defaultdict(list)
    for call in run.tool_calls:
        tools[call.name].append(call)
    return tools


# Narrow on purpose: logs, manuals and greetings also say "you are now", "[system]" and "ignore all".
# For lowercase text. Each pattern begins with a literal, which makes the search fast: one pattern for all of them takes
# 15 times as long.
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
# At the beginning of a line.
_HEADING = re.compile(r"system\s*(?:prompt|message|override)\s*:")
_REACH = 600  # characters around an instruction in which its details are looked for
_LONG_BYTES = 4096
_MIN_CHARS = 5  # shorter arguments occur in any text by chance


class Obeyed(Struct, frozen=True):
    """A call that carries what an injected instruction dictated."""

    call: ToolCall
    argument: tuple[str, str]
    """Name and value of the most telling argument that occurs in the instruction and not in the user's words."""


def obeyed_calls(run: TraceRun) -> list[Obeyed]:
    """Return the calls, in order, that follow an instruction from an earlier tool result."""
    user_text = _user_text(run)
    instructions: list[str] = []
    earlier: list[ToolCall] = []
    obeyed = []
    for call in run.tool_calls:
        if _has_texts(call):
            # Searched only now: results are long, and after most of them no call could obey them.
            for answered in earlier:
                instructions += _passages(answered)
            earlier = []
        dictated = _dictated(call, instructions, user_text)
        if dictated:
            obeyed.append(Obeyed(call, max(dictated.items(), key=_telling)))
        earlier.append(call)
    return obeyed


def _has_texts(call: ToolCall) -> bool:
    """True if an argument may be a dictated text. Long arguments are not decoded for that."""
    if len(call.arguments_json) > _LONG_BYTES:
        return True
    arguments = call.arguments
    return isinstance(arguments, dict) and any(isinstance(value, str) for value in arguments.values())


def _passages(call: ToolCall) -> list[str]:
    """Return the text around each instruction in a result, in lower case: only there an argument counts as dictated."""
    passages = []
    for text in texts_in([call.result, call.items]):
        low = text.lower().replace("\u017f", "s")  # `lower` keeps the long s
        for start, end in _instructions(low):
            passages.append(low[max(0, start - _REACH) : end + _REACH])
    return passages


def _instructions(low: str) -> Iterator[tuple[int, int]]:
    for pattern in _INSTRUCTIONS:
        yield from (match.span() for match in pattern.finditer(low))
    for match in _HEADING.finditer(low):
        line_start = low.rfind("\n", 0, match.start()) + 1
        if not low[line_start : match.start()].strip():
            yield match.span()


def _dictated(call: ToolCall, instructions: list[str], user_text: str) -> dict[str, str]:
    dictated = {}
    for name, value in as_object(call.arguments).items() if instructions else ():
        words = value.strip().lower() if isinstance(value, str) else ""
        if len(words) >= _MIN_CHARS and words not in user_text and any(words in passage for passage in instructions):
            dictated[name] = value
    return dictated


def _telling(argument: tuple[str, str]) -> tuple[bool, int]:
    """Rank an address before a phrase, and a long text before a short one; one argument also catches variations."""
    _name, value = argument
    return ("@" in value or "://" in value) and " " not in value, len(value)


def _user_text(run: TraceRun) -> str:
    texts = [event.content for event in run.events if isinstance(event, Message) and event.role in ("user", "system")]
    return "\n".join(texts_in([run.input, *texts])).lower()
