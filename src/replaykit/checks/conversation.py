"""Read the requests and answers of a run's model calls, in one shape for all APIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from replaykit.model.diff import call_text
from replaykit.model.events import LlmCall, Message, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.shared_parts import ListSplitter
from replaykit.model.values import NULL, Json, JsonObject, Raw, decode, raw, read_items, read_members
from replaykit.wire.json_fields import as_object, as_objects, as_text, without

MODEL_ROLES = frozenset({"assistant", "model", "ai", "tool-call", "tool_call", "function_call", "agent"})
"""Roles of the model's own messages in a conversation."""
TOOL_ROLES = frozenset({"tool", "tool-response", "tool_response", "tool_result", "function", "observation", "ipython"})
"""Roles of tool results in a conversation."""
_ARGUMENT_CHARS = 24
_EMPTY_BYTES = 32  # longer than `[]`, `""` and `null`
_USER_ROLES = frozenset({"user", "human"})
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
_LISTS_OF_TOOLS = ("functionDeclarations", "function_declarations")


class ToolRequest(Struct, frozen=True):
    """A tool call that a model requested."""

    name: str
    arguments: Json


class Spoken(Struct, frozen=True):
    """One message of a conversation, as text."""

    role: str
    text: str


def answer_text(call: LlmCall) -> str:
    """Return the text of the model's answer."""
    result = call.result
    if isinstance(result, str):
        return result
    return as_text(as_object(result).get("content"))


def requested_tools(call: LlmCall) -> list[ToolRequest]:
    """Return the tool calls that the model requested."""
    uses = as_objects(as_object(call.result).get("tool_calls"))
    return [ToolRequest(as_text(use.get("name")), use.get("arguments")) for use in uses]


def answer_line(call: LlmCall) -> str:
    """Return the model's answer on one line: the requested tool calls, or else the text."""
    requests = tools_in_answer(call)
    if requests:
        return ", ".join(call_text(request.name, request.arguments, _ARGUMENT_CHARS) for request in requests)
    return repr(words_in_answer(call) or call.result)


def tools_in_answer(call: LlmCall) -> list[ToolRequest]:
    """Return the tool calls in a model's answer, including answers in Anthropic's form."""
    requests = requested_tools(call)
    for block in _content_blocks(call):
        if block.get("type") == "tool_use":
            requests.append(ToolRequest(as_text(block.get("name")), block.get("input")))
    return requests


def words_in_answer(call: LlmCall) -> str:
    """Return the text of a model's answer, including answers in Anthropic's form."""
    texts = [as_text(block.get("text")) for block in _content_blocks(call)]
    return answer_text(call) or " ".join(filter(None, texts))


def _content_blocks(call: LlmCall) -> list[JsonObject]:
    return as_objects(as_object(call.result).get("content"))


def offered_tools(call: LlmCall) -> dict[str, JsonObject]:
    """Return the tools on offer, by name, with the JSON Schema of their arguments (or `{}`)."""
    tools = _members(call).get("tools")
    if tools is None:
        return {}
    return dict(_definitions(decode(tools)))


def asks_something(call: LlmCall) -> bool:
    """Return whether the request has messages."""
    messages = _members(call).get("messages")
    return messages is not None and (len(messages) > _EMPTY_BYTES or bool(decode(messages)))


def request_messages(call: LlmCall) -> list[Spoken]:
    """Return the messages that the model was sent, the system prompt first."""
    request = as_object(call.arguments)
    return [*_system_messages(request.get("system")), *_messages(request.get("messages"))]


def _system_messages(value: Json) -> list[Spoken]:
    return [Spoken("system", text) for text in texts_in(value)]


class RequestReader:
    """Reads the requests of a run in order. Each repeats the previous one, so only new messages are read."""

    def __init__(self) -> None:
        self._splitter = ListSplitter()
        self._system: Raw | None = None

    def new_messages(self, call: LlmCall) -> list[Spoken]:
        """Return the `request_messages` that the previous request did not start with."""
        members = _members(call)
        messages, system = members.get("messages"), members.get("system")
        spoken: list[Spoken] = []
        if system is not None and system != self._system:
            spoken += _system_messages(decode(system))
        self._system = system
        if messages is None:
            return spoken
        text = bytes(messages)
        if text[:1] != b"[":
            return [*spoken, *_messages(decode(text))]
        items = self._splitter.items(text)[self._splitter.shared :]
        return [*spoken, *_messages(list(map(decode, items)))]


def _members(call: LlmCall) -> dict[str, Raw]:
    """Return the members of the arguments as JSON text: requests are long, and most queries need one member."""
    text = call.arguments_json
    beginning = bytes(memoryview(text)[:3])
    if beginning == b'{"$':  # possibly a tagged value
        members = as_object(call.arguments).items()
        return {name: raw(value) for name, value in members if isinstance(name, str)}
    if beginning[:1] == b"{":
        return read_members(text)
    return {}


def said_to_user(run: TraceRun, after: int) -> Iterator[str]:
    """Yield what the agent said after an event and a user then answered: the messages that a user has read."""
    calls = [call for call in run.llm_calls if call.seq > after]
    for call, following in pairwise(calls):
        words = answer_text(call)
        if not words or requested_tools(call):
            continue
        ending = _last_messages(following)
        if len(ending) < 2:
            continue
        answer, reply = ending
        if answer.role not in _USER_ROLES and reply.role in _USER_ROLES and answer.text.strip() == words.strip():
            yield words


def _last_messages(call: LlmCall) -> list[Spoken]:
    """Return the last two messages that the model was sent."""
    messages = _members(call).get("messages", NULL)
    if bytes(memoryview(messages)[:1]) == b"[":
        # Requests are long: usually, the last two items are the two messages.
        ending = list(_messages(list(map(decode, read_items(messages)[-2:]))))
        if len(ending) == 2:
            return ending
    return request_messages(call)[-2:]


def outside_messages(run: TraceRun) -> Iterator[tuple[int, str]]:
    """Yield the messages that the model did not write, with the first event that holds each.

    These are instructions, users' messages, and tool results.
    """
    known: set[str] = set()
    reader = RequestReader()
    for event in run.events:
        spoken: list[Spoken] = []
        if isinstance(event, LlmCall):
            spoken = reader.new_messages(event)
        elif isinstance(event, Message):
            spoken = [Spoken(event.role, text) for text in texts_in(event.content)]
        for message in spoken:
            if message.role not in MODEL_ROLES and message.text not in known:
                known.add(message.text)
                yield event.seq, message.text


def inner_model_calls(run: TraceRun) -> dict[int, int]:
    """Return the number of model calls inside each tool call, at any depth, by sequence number."""
    parents = {event.seq: event.parent for event in run.events}
    tools = {event.seq for event in run.events if isinstance(event, ToolCall)}
    counts: Counter[int] = Counter()
    for call in run.llm_calls:
        place = call.parent
        while place is not None:
            counts[place] += place in tools
            place = parents.get(place)
    return +counts


def shows_all_messages(run: TraceRun) -> bool:
    """Return whether the run shows the messages of all model calls."""
    return all(map(_shows_messages, run.llm_calls))


def _shows_messages(call: LlmCall) -> bool:
    messages = bytes(memoryview(_members(call).get("messages", NULL))[:2])
    # Fast path: a list of objects or texts is never empty of messages.
    return messages in (b"[{", b'["') or bool(request_messages(call))


def texts_in(value: Json) -> Iterator[str]:
    """Yield every text in a value, in order; iterative, so that depth does not matter."""
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
        value = [value]
    for message in value if isinstance(value, list) else ():
        if isinstance(message, str):
            yield Spoken("user", message)
        elif isinstance(message, dict):
            yield from _message(message)


def _message(message: JsonObject) -> Iterator[Spoken]:
    role = as_text(message.get("role")) or as_text(message.get("type")) or "user"
    content = message.get("content", message.get("parts", message.get("output", message.get("text"))))
    if not isinstance(content, list):
        yield Spoken(role, "\n".join(texts_in(content)))
        return
    yield Spoken(role, "\n".join(_block_texts(content)))


def _block_texts(parts: Sequence[Json]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, dict):
            # Anthropic and Gemini mix requested calls and tool results in one message.
            if part.get("type") in ("tool_use", "tool-call") or "functionCall" in part:
                continue
            if isinstance(part.get("type"), str):
                part = without(part, "type", "id", "tool_use_id", "signature")
        yield from texts_in(part)


def _definitions(tools: Json) -> Iterator[tuple[str, JsonObject]]:
    if isinstance(tools, dict):
        tools = [{"name": name, **as_object(value)} for name, value in tools.items()]
    for tool in as_objects(tools):
        for key in _LISTS_OF_TOOLS:
            yield from _definitions(tool.get(key))
        function = as_object(tool.get("function")) or as_object(tool.get("toolSpec")) or tool
        name = as_text(function.get("name"))
        if not name:
            continue
        schema = next(filter(None, (as_object(function.get(key)) for key in _SCHEMA_KEYS)), {})
        yield name, as_object(schema.get("json")) or schema
