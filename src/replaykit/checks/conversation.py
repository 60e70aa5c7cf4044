"""Conversation: what went into a run's model calls and what came out of them, in one shape for all APIs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from replaykit.model.events import LlmCall, Message, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, as_objects, as_text

MODEL_ROLES = frozenset({"assistant", "model", "ai", "tool-call", "tool_call", "function_call", "agent"})
"""Roles under which a conversation holds what the model itself said."""
TOOL_ROLES = frozenset({"tool", "tool-response", "tool_response", "tool_result", "function", "observation", "ipython"})
"""Roles under which a conversation holds what tools answered."""
_USER_ROLES = frozenset({"user", "human"})
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
_LISTS_OF_TOOLS = ("functionDeclarations", "function_declarations")


class ToolRequest(Struct, frozen=True):
    """A call of a tool that a model asked for."""

    name: str
    arguments: Json


class Spoken(Struct, frozen=True):
    """One message of a conversation, as text."""

    role: str
    text: str


def answer_text(call: LlmCall) -> str:
    """Return what the model said in words."""
    result = call.result
    if isinstance(result, str):
        return result
    return as_text(as_object(result).get("content"))


def requested_tools(call: LlmCall) -> list[ToolRequest]:
    """Return the tool calls that the model asked for."""
    uses = as_objects(as_object(call.result).get("tool_calls"))
    return [ToolRequest(as_text(use.get("name")), use.get("arguments")) for use in uses]


def offered_tools(call: LlmCall) -> dict[str, dict[str, Json]]:
    """Return the tools that the request offered, by name, each with the JSON Schema of its arguments (or `{}`)."""
    return dict(_definitions(as_object(call.arguments).get("tools")))


def all_offered_tools(run: TraceRun) -> dict[str, dict[str, Json]]:
    """Return every tool that some model call of the run offered."""
    found: dict[str, dict[str, Json]] = {}
    for call in run.llm_calls:
        found.update(offered_tools(call))
    return found


def request_messages(call: LlmCall) -> list[Spoken]:
    """Return the messages that the model was sent, the system prompt first."""
    request = as_object(call.arguments)
    system = [Spoken("system", text) for text in texts_in(request.get("system"))]
    return [*system, *_messages(request.get("messages"))]


def said_to_user(run: TraceRun, after: int) -> Iterator[str]:
    """Give what the agent said behind an event and a user then answered: the parts of a talk that a user has read."""
    calls = [call for call in run.llm_calls if call.seq > after]
    for call, following in pairwise(calls):
        words = answer_text(call)
        if not words or requested_tools(call):
            continue
        ending = request_messages(following)[-2:]
        roles = [message.role in _USER_ROLES for message in ending]
        if roles == [False, True] and ending[0].text.strip() == words.strip():
            yield words


def outside_messages(run: TraceRun) -> Iterator[tuple[int, str]]:
    """Give the messages that the model did not write, each with the event that first holds it.

    They are instructions, the words of users, and tools' answers.
    """
    known: set[str] = set()
    for event in run.events:
        texts: Iterable[str] = ()
        if isinstance(event, LlmCall):
            texts = (message.text for message in request_messages(event) if message.role not in MODEL_ROLES)
        elif isinstance(event, Message) and event.role not in MODEL_ROLES:
            texts = texts_in(event.content)
        for text in texts:
            if text not in known:
                known.add(text)
                yield event.seq, text


def inner_model_calls(run: TraceRun) -> dict[int, int]:
    """Return how many model calls happened inside of each tool call, at any depth, by the tool call's number."""
    parents = {event.seq: event.parent for event in run.events}
    tools = {event.seq for event in run.events if isinstance(event, ToolCall)}
    counts: dict[int, int] = {}
    for call in run.llm_calls:
        place = call.parent
        while place is not None:
            if place in tools:
                counts[place] = counts.get(place, 0) + 1
            place = parents.get(place)
    return counts


def shows_all_messages(run: TraceRun) -> bool:
    """True when the run holds what each of its models was sent."""
    return all(request_messages(call) for call in run.llm_calls)


def texts_in(value: Json) -> Iterator[str]:
    """Give every text in a value, in order; with a stack of its own, so that depth does not matter."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack += reversed(item.values())
        elif isinstance(item, list | tuple):
            stack += reversed(item)
        elif isinstance(item, set | frozenset):
            stack += item


def _messages(value: Json) -> Iterator[Spoken]:
    if isinstance(value, str):
        yield Spoken("user", value)
        return
    if not isinstance(value, list):
        return
    for message in value:
        if isinstance(message, str):
            yield Spoken("user", message)
        elif isinstance(message, dict):
            yield from _message(message)


def _message(message: dict[str, Json]) -> Iterator[Spoken]:
    role = as_text(message.get("role")) or as_text(message.get("type")) or "user"
    content = message.get("content", message.get("parts", message.get("output", message.get("text"))))
    if not isinstance(content, list):
        yield Spoken(role, "\n".join(texts_in(content)))
        return
    # In one message Anthropic and Gemini mix what the model asked for with what tools answered.
    words = [part for part in content if not _is_tool_use(part)]
    yield Spoken(role, "\n".join(_block_texts(words)))


def _is_tool_use(part: Json) -> bool:
    return isinstance(part, dict) and (part.get("type") in ("tool_use", "tool-call") or "functionCall" in part)


def _block_texts(parts: Sequence[Json]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("type"), str):
            part = {key: value for key, value in part.items() if key not in ("type", "id", "tool_use_id", "signature")}
        yield from texts_in(part)


def _definitions(tools: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    if isinstance(tools, dict):
        tools = [{"name": name, **as_object(value)} for name, value in tools.items()]
    for tool in as_objects(tools):
        for key in _LISTS_OF_TOOLS:
            yield from _definitions(tool.get(key))
        function = as_object(tool.get("function")) or as_object(tool.get("toolSpec")) or tool
        name = as_text(function.get("name"))
        if not name:
            continue
        schema = next((as_object(function[key]) for key in _SCHEMA_KEYS if as_object(function.get(key))), {})
        yield name, as_object(schema.get("json")) or schema
