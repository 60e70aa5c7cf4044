"""Assertions about model calls: cut answers, full context windows, broken tool calls, and repeated requests."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Annotated, Literal

from msgspec import Meta

from replaykit.checks.conversation import answer_text, asks_something, requested_tools
from replaykit.checks.reading import decisive_call, first, first_seq, last_seq, run_errors, short, shown, times_text
from replaykit.checks.rule import Rule, Seen, register
from replaykit.model.events import LlmCall
from replaykit.model.run import TraceRun
from replaykit.redaction.lazy_patterns import lazy

_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "token_limit", "max_completion_tokens"})
_MALFORMED = frozenset({"malformed_function_call", "malformed_tool_call", "invalid_tool_call", "unexpected_tool_call"})
_OVERFLOW = lazy(
    r"context[_ ]length[_ ]exceeded|context window|maximum context|context length"
    r"|(?:prompt|input|request|messages?|conversation)\b[^.\n]{0,40}\b(?:too long|too large"
    r"|too many tokens|exceeds?\b[^.\n]{0,40}\b(?:tokens?|context))"
    r"|exceeds? (?:the )?(?:model's |maximum |max )*(?:context|token limit|number of tokens|input tokens)"
    r"|reduce the length of the (?:messages|prompt|input)|too many (?:input )?tokens",
    re.IGNORECASE,
)
_MIN_ANSWER_CHARS = 20  # shorter answers, such as "Yes.", may well repeat


@register("llm.truncated")
class LlmTruncated(Rule, frozen=True):
    """True: a model's answer was cut off at its token limit. False: none was.

    Decided by the finish reason: `length`, `max_tokens` and the like.
    """

    plain = "truncated"
    notes = {
        "truncated": "true, or false; a plain value sets this",
        "calls": "`last`: the last model call counts; `any`: all of them do",
    }
    examples = ("llm.truncated: true", "llm.truncated: {calls: any}")
    truncated: bool = True
    calls: Literal["last", "any"] = "last"

    def seen_in(self, run: TraceRun) -> Seen:
        calls = run.llm_calls if self.calls == "any" else run.llm_calls[-1:]
        cut = first(calls, lambda call: (call.finish_reason or "").lower() in _CUT)
        expected = f"{'an' if self.truncated else 'no'} answer that is cut off"
        if cut is None:
            return Seen(not self.truncated, "No answer was cut off", expected, "no answer is cut off", last_seq(run))
        text = f"The model's answer was cut off ({cut.finish_reason})"
        return Seen(self.truncated, text, expected, f"finish reason {cut.finish_reason!r}", cut.seq)


@register("llm.context_overflow")
class LlmContextOverflow(Rule, frozen=True):
    """True: a model refused a request because it was longer than its context window. False: none did."""

    plain = "overflow"
    named = False
    examples = ("llm.context_overflow: true",)
    overflow: bool

    def seen_in(self, run: TraceRun) -> Seen:
        call = overflow(run)
        expected = f"{'a' if self.overflow else 'no'} request beyond the context window"
        if call is None:
            text = "No context window overflowed"
            return Seen(not self.overflow, text, expected, "no such error", last_seq(run))
        seq, error_text = call
        text = "The request was longer than the model's context window"
        return Seen(self.overflow, text, expected, repr(error_text), seq)


@register("llm.malformed_call")
class LlmMalformedCall(Rule, frozen=True):
    """True: a model asked for a tool with arguments that are not a JSON object. False: none did."""

    plain = "malformed"
    named = False
    examples = ("llm.malformed_call: true",)
    malformed: bool

    def seen_in(self, run: TraceRun) -> Seen:
        malformed_call = next(malformed_calls(run), None)
        expected = "a tool call that is not JSON" if self.malformed else "tool calls that are JSON objects"
        if malformed_call is None:
            text = "Every tool call is a JSON object"
            return Seen(not self.malformed, text, expected, "no such tool call", last_seq(run))
        call, flaw = malformed_call
        return Seen(self.malformed, f"The model wrote a broken tool call: {flaw}", expected, flaw, call.seq)


@register("llm.same_request")
class LlmSameRequest(Rule, frozen=True):
    """The agent sent a model the very same request at least this many times, and each was answered."""

    plain = "times"
    notes = {"times": "how often, at least 2; a plain number sets this"}
    examples = ("llm.same_request: 3",)
    times: Annotated[int, Meta(ge=2)]

    def seen_in(self, run: TraceRun) -> Seen:
        groups: defaultdict[bytes, list[LlmCall]] = defaultdict(list)
        for call in run.llm_calls:
            if call.error is None and call.answered and asks_something(call):
                groups[call.name.encode() + bytes(call.request_json)].append(call)
        return _seen_group(run, groups.values(), self.times, "The same request was sent to the model")


@register("llm.same_answer")
class LlmSameAnswer(Rule, frozen=True):
    """A model gave the very same answer at least this many times: the same words and the same tool calls.

    Answers of fewer than 20 characters without a tool call do not count.
    """

    plain = "times"
    notes = {"times": "how often, at least 2; a plain number sets this"}
    examples = ("llm.same_answer: 3",)
    times: Annotated[int, Meta(ge=2)]

    def seen_in(self, run: TraceRun) -> Seen:
        groups: defaultdict[str, list[LlmCall]] = defaultdict(list)
        for call in run.llm_calls:
            words = " ".join(answer_text(call).split())
            if len(words) >= _MIN_ANSWER_CHARS:
                requests = [(request.name, shown(request.arguments)) for request in requested_tools(call)]
                groups[f"{call.name} {words} {requests}"].append(call)
        return _seen_group(run, groups.values(), self.times, "The model gave the same answer")


def overflow(run: TraceRun) -> tuple[int | None, str] | None:
    """Return the event and text of an error that reports a request beyond the context window."""
    errors = [(call.seq, call.error) for call in run.llm_calls]
    for seq, error in (*errors, *run_errors(run)):
        if error is not None and _OVERFLOW.search(str(error)):
            return seq, short(str(error))
    return None


def malformed_calls(run: TraceRun) -> Iterator[tuple[LlmCall, str]]:
    """Yield each model call with a tool call that is not a JSON object, with the flaw."""
    for call in run.llm_calls:
        if (call.finish_reason or "").lower() in _MALFORMED:
            yield call, str(call.finish_reason)
        for request in requested_tools(call):
            if isinstance(request.arguments, str):
                yield call, f"{request.name}({short(request.arguments)})"


def _seen_group(run: TraceRun, groups: Collection[list[LlmCall]], times: int, what: str) -> Seen:
    largest = max(groups, key=len, default=[])
    expected = f"{what[0].lower()}{what[1:]} at least {times} times"
    seq = first_seq(decisive_call(largest, times - 1), run)
    actual = times_text(len(largest))
    return Seen(len(largest) >= times, f"{what} {actual}", expected, actual, seq)
