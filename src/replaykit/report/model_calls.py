"""Model calls for people: one line in a list, and the whole conversation where one call is shown."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.checks.conversation import offered_tools, request_messages, tools_in_answer, words_in_answer
from replaykit.model.diff import brief, call_text
from replaykit.model.events import LlmCall
from replaykit.model.values import Json
from replaykit.report.layout import counted
from replaykit.telemetry.messages import input_messages, instructions
from replaykit.wire.json_fields import as_object, as_text, without

_ARGUMENT_CHARS = 24
_WHOLE = 1_000_000
"""The characters of an argument where a call is shown in full."""
_SHOWN_APART = ("messages", "model", "system", "tools")
"""Members of a request that have lines of their own."""


def request_line(call: LlmCall) -> str:
    """Return the model and how much it was sent: `gpt-5-mini  3 messages`."""
    count = len(request_messages(call))
    if count:
        return f"{call.name or 'model'}  {counted(count, 'message')}"
    return call_text(call.name or "model", call.arguments, _ARGUMENT_CHARS)


def tokens_line(call: LlmCall) -> str:
    """Return how many tokens the call took: `412 tok`; nothing where the wire did not say."""
    if call.usage is None:
        return ""
    counts = [count for count in (call.usage.input_tokens, call.usage.output_tokens) if count is not None]
    if not counts:
        return ""
    return f"{sum(counts):,} tok"


def conversation_facts(call: LlmCall) -> Iterator[tuple[str, str]]:
    """Give a model call in full: each message under its role, the answer, and what else was asked for."""
    request = as_object(call.arguments)
    yield "model", call.name
    for part in instructions(request.get("system")):
        yield "system", _part_text(part)
    for message in input_messages(request.get("messages")):
        fields = as_object(message)
        for part in fields.get("parts") or ():
            yield as_text(fields.get("role")), _part_text(part)
    requests = tools_in_answer(call)
    for requested in requests:
        yield "answer", f"→ {call_text(requested.name, requested.arguments, _WHOLE)}"
    text = words_in_answer(call)
    if text:
        yield "answer", text
    elif call.result_json and not requests:
        yield "answer", repr(call.result)
    yield "tools", ", ".join(offered_tools(call))
    rest = without(request, *_SHOWN_APART)
    if rest:
        yield "options", repr(rest)
    yield "tokens", _tokens(call)
    yield "finish", call.finish_reason or ""


def _part_text(part: Json) -> str:
    fields = as_object(part)
    kind = fields.get("type")
    if kind == "tool_call":
        return f"→ {call_text(as_text(fields.get('name')), fields.get('arguments'), _WHOLE)}"
    if kind == "tool_call_response":
        return _plain(fields.get("response"))
    if kind in ("text", "reasoning"):
        return _plain(fields.get("content"))
    return brief(part, _WHOLE)


def _plain(value: Json) -> str:
    if isinstance(value, str):
        return value
    return repr(value)


def _tokens(call: LlmCall) -> str:
    usage = call.usage
    if usage is None:
        return ""
    counts = {"in": usage.input_tokens, "out": usage.output_tokens}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count is not None)
