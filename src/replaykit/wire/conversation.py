"""Conversations: requests to models in one form, for all APIs and all traces.

The key of a conversation determines equality. It is canonical JSON:

    {"messages": [{"role": "system", "content": "…"}, {"role": "user", "content": "…"},
                  {"role": "assistant", "call": 1, "name": "search", "arguments": {…}},
                  {"role": "tool", "call": 1, "content": …}],
     "tools": [{"name": "search", "description": "…", "parameters": {…}}], "model": "…", "parameters": {…}}

Consecutive messages of a role are merged, instructions come first wherever they are, and a tool call is identified by
its number, since ids are the provider's. Tools with their descriptions and schemas, the model and the parameters are
part of a key only as far as `ComparedFields` says, since traces may lack them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec
import orjson
from msgspec import Raw, Struct

from replaykit.model.values import Json, JsonObject, read_items, read_members
from replaykit.wire.json_fields import as_object, as_text
from replaykit.wire.messages import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    MediaPiece,
    Piece,
    TextPiece,
    ToolCallPiece,
    ToolResultPiece,
    canonical,
    is_masked,
    is_silent,
    pieces_of,
)
from replaykit.wire.tools import Tool, tools_of

JOINER = "\n"
"""The separator of texts in one line."""


class ConversationLine(Struct, eq=False):
    """One line of a conversation."""

    role: str
    texts: tuple[str, ...] = ()
    call: int | None = None
    """The number of a tool call, from 1; 0 for a result without a call."""
    name: str = ""
    content: bytes = b""
    """Canonical JSON of a call's arguments, its result, or a medium."""
    _json: bytes = b""

    @property
    def json(self) -> bytes:
        """The compared JSON. Encoded on first use, so that texts joined one by one are encoded once."""
        if not self._json:
            self._json = self.joined_by(JOINER)
        return self._json

    def joined_by(self, joiner: str) -> bytes:
        """Return the compared JSON with another separator between texts."""
        role = orjson.dumps(self.role)
        if self.texts:
            return b'{"role":%b,"content":%b}' % (role, orjson.dumps(joiner.join(self.texts)))
        if self.call is None:
            return b'{"role":%b,"media":%b}' % (role, self.content)
        if self.role == TOOL:
            return b'{"role":%b,"call":%d,"content":%b}' % (role, self.call, self.content)
        name = orjson.dumps(self.name)
        return b'{"role":%b,"call":%d,"name":%b,"arguments":%b}' % (role, self.call, name, self.content)


class ConversationTurns:
    """The lines of a growing conversation, in the order in which they are compared.

    Consecutive texts of a role form one line. In a model's turn, text comes before calls, and consecutive tool results
    are in the order of their calls.
    """

    def __init__(self) -> None:
        self.lines: list[ConversationLine] = []
        self.system: list[str] = []
        """Instructions among the messages."""
        self.joints = 0
        """How often two texts were joined into one line."""
        self.gaps = 0
        """The number of messages whose content was lost or hidden when they were logged."""
        self._numbers: dict[str, int] = {}
        self._open: dict[int, str] = {}  # the names of calls without a result so far, by number
        self._count = 0

    def copied(self) -> ConversationTurns:
        """Return a copy that can grow on its own."""
        copy = ConversationTurns()
        copy.lines, copy.system, copy.joints, copy.gaps = list(self.lines), list(self.system), self.joints, self.gaps
        copy._numbers, copy._open, copy._count = dict(self._numbers), dict(self._open), self._count
        return copy

    def add(self, piece: Piece) -> None:
        """Add the next piece."""
        if isinstance(piece, ToolCallPiece):
            self._add_call(piece)
        elif isinstance(piece, ToolResultPiece):
            self._add_result(piece)
        elif isinstance(piece, MediaPiece):
            self.lines.append(ConversationLine(piece.role, content=piece.content))
        else:
            self.gaps += is_masked(piece.text)
            self._add_text(piece)

    def _add_text(self, piece: TextPiece) -> None:
        if piece.role == SYSTEM:
            self.system.append(piece.text)
            return
        place = len(self.lines)
        while piece.role == ASSISTANT and place and _is_call(self.lines[place - 1]):
            place -= 1
        if place:
            last = self.lines[place - 1]
        else:
            last = None
        if last is not None and last.role == piece.role and last.texts:
            self.joints += 1
            self.lines[place - 1] = ConversationLine(piece.role, (*last.texts, piece.text))
        else:
            self.lines.insert(place, ConversationLine(piece.role, (piece.text,)))

    def _add_call(self, piece: ToolCallPiece) -> None:
        self._count += 1
        number = self._count
        self._open[number] = piece.name
        if piece.id:
            self._numbers[piece.id] = number
        self.lines.append(ConversationLine(ASSISTANT, call=number, name=piece.name, content=piece.arguments))

    def _add_result(self, piece: ToolResultPiece) -> None:
        number = self._answered_by(piece)
        name = self._open.pop(number, piece.name)
        place = len(self.lines)
        while place and self.lines[place - 1].role == TOOL and (self.lines[place - 1].call or 0) > number:
            place -= 1
        self.lines.insert(place, ConversationLine(TOOL, call=number, name=name, content=piece.content))

    def _answered_by(self, piece: ToolResultPiece) -> int:
        """Return the number of the call that a result answers: by id, else by name, else the first open one."""
        if piece.id in self._numbers:
            return self._numbers[piece.id]
        for number, name in self._open.items():
            if name == piece.name:
                return number
        return next(iter(self._open), 0)


def _is_call(line: ConversationLine) -> bool:
    return line.role == ASSISTANT and line.call is not None


JOINERS = (JOINER, "\n\n", "", " ")
"""Separators to try if one side has two texts and the other has them joined."""
_CONVERSATIONS = ("messages", "input", "contents", "prompt", "prompts")
_INSTRUCTIONS = ("system", "instructions", "systemInstruction", "system_instruction", "system_instructions")
_TOOLS = ("tools", "functions")
# Parameters that several APIs have, by a common name.
_PARAMETERS = {
    **dict.fromkeys(("temperature",), "temperature"),
    **dict.fromkeys(("top_p", "topP"), "top_p"),
    **dict.fromkeys(("top_k", "topK"), "top_k"),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict"), "max_tokens"
    ),
    **dict.fromkeys(("stop", "stop_sequences", "stopSequences"), "stop"),
    **dict.fromkeys(("seed",), "seed"),
    **dict.fromkeys(("frequency_penalty", "frequencyPenalty"), "frequency_penalty"),
    **dict.fromkeys(("presence_penalty", "presencePenalty"), "presence_penalty"),
}
_HOLDERS = ("parameters", "generationConfig", "generation_config", "options")
_MOST_MESSAGES = 100_000
_RECENT = 8


class ComparedFields(Struct, frozen=True):
    """Which members of a request are compared beside its messages."""

    tools: bool = False
    descriptions: bool = False
    schemas: bool = False
    model: bool = False
    parameters: frozenset[str] = frozenset()


class Conversation(Struct, frozen=True, kw_only=True):
    """The request to a model: messages, tools, model and parameters."""

    instructions: tuple[str, ...] = ()
    """The system instructions, if the API keeps them apart."""
    turns: ConversationTurns
    tools: tuple[Tool, ...] = ()
    model: str = ""
    parameters: JsonObject = {}
    continues: str = ""
    """The id of a stored response that the request continues."""

    @property
    def is_known(self) -> bool:
        """True if the whole request is known."""
        is_whole = not self.turns.gaps and not any(map(is_masked, self.instructions))
        return is_whole and bool(self.turns.lines or self._system)

    @property
    def lines(self) -> list[ConversationLine]:
        """All lines in the order in which they are compared, instructions first."""
        system = self._system
        return [*([ConversationLine(SYSTEM, system)] if system else []), *self.turns.lines]

    @property
    def has_joints(self) -> bool:
        """True if separate texts may be joined in another form of the same conversation."""
        return self.turns.joints > 0 or len(self._system) > 1

    @property
    def _system(self) -> tuple[str, ...]:
        """The instructions from all places without repetition: some traces write them twice."""
        return tuple(dict.fromkeys((*self.instructions, *self.turns.system)))

    def scope(self, *, exact: bool = False) -> ComparedFields:
        """Return the members that are known; the model and its parameters only if they are to be compared."""
        return ComparedFields(
            tools=bool(self.tools),
            descriptions=any(tool.description is not None for tool in self.tools),
            schemas=any(tool.schema is not None for tool in self.tools),
            model=exact and bool(self.model),
            parameters=frozenset(self.parameters) if exact else frozenset(),
        )

    def key(self, scope: ComparedFields, joiner: str = JOINER) -> bytes:
        """Return the bytes that determine whether two conversations are equal; see above."""
        lines = self.lines
        if joiner == JOINER:
            texts = [line.json for line in lines]
        else:
            texts = [line.joined_by(joiner) for line in lines]
        members = [b'"messages":[' + b",".join(texts) + b"]"]
        if scope.model:
            members.append(b'"model":' + orjson.dumps(self.model))
        if scope.parameters:
            found = {name: value for name, value in self.parameters.items() if name in scope.parameters}
            members.append(b'"parameters":' + canonical(found))
        if scope.tools:
            members.append(b'"tools":' + canonical([_tool_key(tool, scope) for tool in self.tools]))
        return b"{" + b",".join(members) + b"}"

    def answered(self, answer: Json) -> Conversation:
        """Return the conversation extended by an answer, as the next request would contain it."""
        turns = self.turns.copied()
        for piece in pieces_of(answer, ASSISTANT):
            turns.add(piece)
        return msgspec.structs.replace(self, turns=turns)


class ConversationReader:
    """Reads conversations. Repeated parts, as in each later call of a run, are read once."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, tuple[Piece, ...]] = {}
        self._tools: dict[bytes, tuple[Tool, ...]] = {}
        # The last conversations, as items and as turns.
        self._recent: deque[tuple[list[bytes], ConversationTurns]] = deque(maxlen=_RECENT)

    def read(self, request: bytes, *, before: Conversation | None = None, model: str = "") -> Conversation | None:
        """Read the body of a request, or the arguments of a traced call; return None if it is unreadable.

        `before` is the stored conversation that this one continues. `model` is the model's name if the body has none.
        """
        try:
            members = _with_config(read_members(request))
            above = [piece for item in _items_in(members, _INSTRUCTIONS) for piece in self._of(item, SYSTEM)]
            items = _items_in(members, _CONVERSATIONS)
            return Conversation(
                instructions=tuple(piece.text for piece in above if isinstance(piece, TextPiece)),
                turns=self._turns(items) if before is None else self._going_on(before.turns.copied(), items),
                tools=self._listed(members),
                model=(_text(members.get("model")) or model).rpartition("models/")[2],
                parameters=_parameters(members),
                continues=_text(members.get("previous_response_id")),
            )
        except (msgspec.DecodeError, orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
            return None

    def _turns(self, items: list[bytes]) -> ConversationTurns:
        """Return the turns of a conversation; if it starts with a recent one, only the rest is read."""
        known, turns = 0, ConversationTurns()
        for recent, came_to in self._recent:
            size = len(recent)
            if known < size <= len(items) and items[:size] == recent:
                known, turns = size, came_to
        grown = self._going_on(turns.copied(), items[known:])
        if known < len(items):
            self._recent.append((items, grown))
        return grown

    def _going_on(self, turns: ConversationTurns, items: list[bytes]) -> ConversationTurns:
        for item in items:
            pieces = self._of(item, USER)
            turns.gaps += not pieces and is_silent(orjson.loads(item))
            for piece in pieces:
                turns.add(piece)
        return turns

    def _of(self, text: bytes, role: str) -> tuple[Piece, ...]:
        known = role.encode() + text
        pieces = self._pieces.get(known)
        if pieces is None:
            if len(self._pieces) >= _MOST_MESSAGES:
                self._pieces.clear()
            pieces = self._pieces[known] = pieces_of(orjson.loads(text), role)
        return pieces

    def _listed(self, members: dict[str, Raw]) -> tuple[Tool, ...]:
        found = next((bytes(members[name]) for name in _TOOLS if name in members), b"")
        if not found:
            return ()
        tools = self._tools.get(found)
        if tools is None:
            tools = self._tools[found] = tools_of(orjson.loads(found))
        return tools


def _with_config(members: dict[str, Raw]) -> dict[str, Raw]:
    """Return the members of a request, including those that Gemini's SDK puts into `config`."""
    config = members.get("config")
    if config is None or bytes(config)[:1] != b"{":
        return members
    return {**read_members(config), **members}


def _items_in(members: dict[str, Raw], names: Iterable[str]) -> list[bytes]:
    """Return the items of the first of these members that is set; a value other than a list is one item."""
    found = next((members[name] for name in names if name in members), None)
    if found is None:
        return []
    text = bytes(found)
    if text[:1] == b"[":
        return list(map(bytes, read_items(text)))
    return [text]


def _tool_key(tool: Tool, scope: ComparedFields) -> JsonObject:
    found: JsonObject = {"name": tool.name}
    if scope.descriptions:
        found["description"] = tool.description
    if scope.schemas:
        found["parameters"] = tool.schema
    return found


def _parameters(members: dict[str, Raw]) -> JsonObject:
    found: JsonObject = {}
    for name in _HOLDERS:
        if name in members:
            found |= _known_parameters(as_object(orjson.loads(bytes(members[name]))))
    beside = {name: orjson.loads(bytes(value)) for name, value in members.items() if name in _PARAMETERS}
    return found | _known_parameters(beside)


def _known_parameters(values: JsonObject) -> JsonObject:
    return {_PARAMETERS[name]: value for name, value in values.items() if name in _PARAMETERS and value is not None}


def _text(raw: Raw | None) -> str:
    if raw is None:
        return ""
    return as_text(orjson.loads(bytes(raw)))
