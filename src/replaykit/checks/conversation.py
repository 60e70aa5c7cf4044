"""Conversation: what went into a run's model calls and what came out of them, in one shape for all APIs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from replaykit.model.events import LlmCall, Message, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.shared_parts import ListSplitter
from replaykit.model.values import NULL, Json, Raw, decode, raw
from replaykit.wire.json_fields import as_object, as_objects, as_text

MODEL_ROLES = frozenset({"assistant", "model", "ai", "tool-call", "tool_call", "function_call", "agent"})
"""Roles under which a conversation holds what the model itself said."""
TOOL_ROLES = frozenset({"tool", "tool-response", "tool_response", "tool_result", "function", "observation", "ipython"})
"""Roles under which a conversation holds what tools answered."""
_EMPTY_BYTES = 32  # more than `[]`, `""` and `null` take
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_list = msgspec.json.Decoder(list[Raw]).decode
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
    tools = _members(call).get("tools")
    if tools is None:
        return {}
    return dict(_definitions(decode(tools)))


def asks_something(call: LlmCall) -> bool:
    """True when the request holds messages."""
    messages = _members(call).get("messages")
    return messages is not None and (len(messages) > _EMPTY_BYTES or bool(decode(messages)))


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


class RequestReader:
    """Reads the requests of a run, one after the other. Each repeats the one before, so only what is new is read."""

    def __init__(self) -> None:
        self._splitter = ListSplitter()
        self._system: Raw | None = None

    def new_messages(self, call: LlmCall) -> list[Spoken]:
        """Return those of `request_messages` that the request before did not begin with."""
        members = _members(call)
        messages, system = members.get("messages"), members.get("system")
        spoken: list[Spoken] = []
        if system is not None and system != self._system:
            spoken += [Spoken("system", text) for text in texts_in(decode(system))]
        self._system = system
        if messages is None:
            return spoken
        text = bytes(messages)
        if text[:1] != b"[":
            return [*spoken, *_messages(decode(text))]
        items = self._splitter.items(text)[self._splitter.shared :]
        return [*spoken, *_messages(list(map(decode, items)))]


def _members(call: LlmCall) -> dict[str, Raw]:
    """Return the members of the arguments as texts: a request is long, and most questions are about one member."""
    text = call.arguments_json
    beginning = bytes(memoryview(text)[:3])
    if beginning == b'{"$':  # it may be tagged
        return {name: raw(value) for name, value in as_object(call.arguments).items() if isinstance(name, str)}
    if beginning[:1] == b"{":
        return _read_members(text)
    return {}


def said_to_user(run: TraceRun, after: int) -> Iterator[str]:
    """Give what the agent said behind an event and a user then answered: the parts of a talk that a user has read."""
    calls = [call for call in run.llm_calls if call.seq > after]
    for call, following in pairwise(calls):
        words = answer_text(call)
        if not words or requested_tools(call):
            continue
        ending = _last_messages(following)
        roles = [message.role in _USER_ROLES for message in ending]
        if roles == [False, True] and ending[0].text.strip() == words.strip():
            yield words


def _last_messages(call: LlmCall) -> list[Spoken]:
    """Return the last two messages that the model was sent."""
    messages = _members(call).get("messages", NULL)
    if bytes(memoryview(messages)[:1]) == b"[":
        ending = list(_messages([decode(item) for item in _read_list(messages)[-2:]]))
        if len(ending) == 2:
            return ending
    return request_messages(call)[-2:]


def outside_messages(run: TraceRun) -> Iterator[tuple[int, str]]:
    """Give the messages that the model did not write, each with the event that first holds it.

    They are instructions, the words of users, and tools' answers.
    """
    known: set[str] = set()
    reader = RequestReader()
    for event in run.events:
        texts: Iterable[str] = ()
        if isinstance(event, LlmCall):
            texts = (message.text for message in reader.new_messages(event) if message.role not in MODEL_ROLES)
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
    return all(map(_shows_messages, run.llm_calls))


def _shows_messages(call: LlmCall) -> bool:
    messages = bytes(memoryview(_members(call).get("messages", NULL))[:2])
    # A list of objects or texts need not be read to tell that there are some.
    return messages in (b"[{", b'["') or bool(request_messages(call))


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
