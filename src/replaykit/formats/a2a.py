"""A2A: messages between agents. The other agent is a closed box, whose tools and models are not in the trace, so each
message sent to it becomes one call, `send_message`.

A file holds a task, a message, a JSON-RPC response, or the items of a stream: in a list, one on each line, or as an
event stream; `pieces_of` knows the shapes. Each task is a run.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from replaykit.formats.core.fields import TraceItem, error_of
from replaykit.formats.core.registry import Found, collect, first_items, items_of, mostly, nothing_of, register_format
from replaykit.formats.core.replayability import ADVICE
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo
from replaykit.model.json_positions import DocumentPath
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import (
    as_object,
    as_text,
    by_text,
    filled,
    has_list,
    has_object,
    has_text,
    joined_texts,
    object_in,
    objects_in,
    text_in,
    value_in,
    without,
)
from replaykit.wire.model_calls import ToolUse

FORMAT = "a2a"
CALL = "send_message"
OPAQUE = (
    "A2A tells what was asked of an agent and what it gave, not which tools and models it called: to replay those, "
    "import a trace of that agent itself."
)
HISTORY = "What was sent is not in the file: keep the requests, or ask for the task with `historyLength`."
_EXPECTED = "expected a task, a message or an item of a stream of A2A"
_ENDINGS = {"failed": "TaskFailed", "rejected": "TaskRejected", "canceled": "TaskCanceled"}
_OPEN = ("submitted", "working", "unknown", "")
_WAITING = ("input-required", "auth-required")


def _recognises(source: Source) -> bool:
    values = first_items(source)
    kinds = {piece.kind for value in values for piece in pieces_of(value)}
    return bool(kinds - {"error"}) and mostly(lambda value: any(pieces_of(value)) or _is_rpc(value), values)


def _read_file(source: Source) -> Iterator[Found]:
    if not any(any(pieces_of(value)) for value in first_items(source)):
        raise nothing_of(source, _EXPECTED)
    exchanges = _Exchanges()
    yield from collect(items_of(source), exchanges.add, [])
    yield from map(_run, exchanges.found())


register_format(FORMAT, "A2A: tasks, messages and streams (1.x and 0.3)", _recognises, _read_file)


def _is_rpc(value: Json) -> bool:
    return text_in(value, "jsonrpc") == "2.0"


class _Exchanges:
    """The tasks of a file, in file order."""

    def __init__(self) -> None:
        self._by_task: dict[str, TaskExchange] = {}
        # A message that was just sent, whose task is not known yet.
        self._unassigned: TaskExchange | None = None
        self._ended: list[TaskExchange] = []
        self._last: TaskExchange | None = None

    def add(self, item: TraceItem) -> None:
        pieces = list(pieces_of(item.value))
        if not pieces and not _is_rpc(item.value):
            raise item.error(_EXPECTED)
        for piece in pieces:
            self._last = self._exchange_of(piece)
            self._last.add(piece, item)

    def found(self) -> Iterator[TaskExchange]:
        yield from self._ended
        yield from self._by_task.values()
        if self._unassigned is not None:
            yield self._unassigned

    def _exchange_of(self, piece: TaskPiece) -> TaskExchange:
        """Return the exchange of a piece. A task's first piece adopts the message sent before it."""
        name = task_id(piece)
        if name in self._by_task:
            return self._by_task[name]
        if piece.kind == "error" and self._last is not None:
            return self._last
        unassigned = self._unassigned
        if name:
            self._unassigned = None
            found = self._by_task[name] = unassigned or TaskExchange()
            found.id = name
            return found
        sends = piece.kind == "message" and is_from_user(piece.value)
        if unassigned is not None and sends and not _same_context(unassigned, piece):
            self._ended.append(unassigned)
            unassigned = None
        self._unassigned = unassigned or TaskExchange()
        return self._unassigned


def _same_context(exchange: TaskExchange, piece: TaskPiece) -> bool:
    context = text_in(piece.value, "contextId")
    return bool(context) and context == exchange.context


def _run(exchange: TaskExchange) -> TraceRun:
    talk, error = Talk(), _error(exchange)
    sent, began = _add_calls(talk, exchange, error)
    advice = [OPAQUE]
    if not sent:
        advice.append(HISTORY)
    output, ended_at = UNSET, None
    if error is None:
        output = _output(exchange)
    if exchange.times and exchange.state not in (*_OPEN, *_WAITING):
        ended_at = exchange.times[-1]
    return talk.run(
        id=exchange.id or content_id(FORMAT, encode(exchange.seen)),
        format=FORMAT,
        name=exchange.context,
        output=output,
        status=_status(exchange, error),
        error=error,
        started_at=began,
        ended_at=ended_at,
        metadata={
            "contextId": exchange.context,
            "state": exchange.state,
            "metadata": exchange.metadata,
            ADVICE: advice,
        },
    )


def _add_calls(talk: Talk, exchange: TaskExchange, error: ErrorInfo | None) -> tuple[bool, float]:
    """Add a call for each message sent, with everything up to the next one as its result; return whether one came
    first."""
    began = ended = 0.0
    if exchange.times:
        began, ended = exchange.times[0], exchange.times[-1]
    replies: list[Json] = []
    is_sent = starts_with_sent = False
    for index, message in enumerate(exchange.messages):
        if not is_from_user(message):
            replies.append(message)
            continue
        if is_sent or replies:
            talk.returns({"messages": replies}, name=CALL, failed=False, at=began)
        starts_with_sent = starts_with_sent or index == 0
        is_sent, replies = True, []
        talk.says("user", text_or_parts_of(message))
        arguments = {"message": {"role": "user", "parts": message.get("parts")}}
        talk.calls(ToolUse(name=CALL, arguments=arguments), at=began)
    _add_last_result(talk, exchange, replies, error, ended)
    return starts_with_sent, began


def _add_last_result(
    talk: Talk, exchange: TaskExchange, replies: list[Json], error: ErrorInfo | None, at: float
) -> None:
    """Add the result of the last message; none yet while the task is in progress."""
    artifacts = list(exchange.artifacts.values())
    if error is None and not _is_open(exchange):
        result = filled({"state": exchange.state, "messages": replies, "artifacts": artifacts})
        talk.returns(result, name=CALL, failed=False, at=at)
        return
    if error is not None:
        talk.returns(str(error), name=CALL, error=error, ending=ToolErrors.RAISED, at=at)
    for reply in replies:  # everything before it is complete
        talk.notes("message", reply, at=at)
    for artifact in artifacts:
        talk.notes(text_in(artifact, "name") or "artifact", artifact.get("parts"), at=at)


def _is_open(exchange: TaskExchange) -> bool:
    """Return whether a task is in progress, or a message without a task is unanswered."""
    return exchange.state in _OPEN and not (exchange.state == "" and _replies(exchange))


def _replies(exchange: TaskExchange) -> list[JsonObject]:
    return [message for message in exchange.messages if not is_from_user(message)]


def _error(exchange: TaskExchange) -> ErrorInfo | None:
    if exchange.error is not None:
        return error_of({**exchange.error, "type": f"JsonRpcError {exchange.error.get('code')}"})
    if exchange.state not in _ENDINGS:
        return None
    return ErrorInfo(type=_ENDINGS[exchange.state], message=as_text(text_or_parts_of(exchange.reason)))


def _status(exchange: TaskExchange, error: ErrorInfo | None) -> RunStatus:
    if exchange.state == "canceled":
        return RunStatus.CANCELLED
    if error is not None:
        return RunStatus.ERROR
    if _is_open(exchange) or exchange.state in _WAITING:
        return RunStatus.RUNNING
    return RunStatus.SUCCESS


def _output(exchange: TaskExchange) -> Json:
    """Return the agent's output: its artifacts, or else its last message."""
    artifacts = list(map(text_or_parts_of, exchange.artifacts.values()))
    replies = _replies(exchange)
    if len(artifacts) == 1:
        return artifacts[0]
    if artifacts:
        return artifacts
    if replies:
        return text_or_parts_of(replies[-1])
    return UNSET


def text_or_parts_of(message: JsonObject) -> Json:
    """Return the text of a message or an artifact; its parts if some are not text."""
    parts = objects_in(message, "parts")
    for part in parts:
        if not has_text(part, "text"):
            return parts
    return joined_texts(parts, "")


# Kinds of version 0.3, and the names of the same items in 1.x.
_KINDS = {"task": "task", "message": "message", "status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
_STATES = frozenset(
    words_of("submitted working completed failed canceled rejected input-required auth-required unknown")
)
_METHODS = ("message/", "tasks/", "SendMessage", "SendStreamingMessage", "GetTask", "SubscribeToTask", "CancelTask")


class TaskPiece(Struct, frozen=True):
    """One item of a file: a task, a message, an update, or an error."""

    kind: str
    value: JsonObject
    path: DocumentPath


class TaskExchange(Struct):
    """A task, or a message and its answer, as far as the file shows them."""

    id: str = ""
    context: str = ""
    messages: list[JsonObject] = field(default_factory=list)
    artifacts: dict[str, JsonObject] = field(default_factory=dict)
    state: str = ""
    reason: JsonObject = field(default_factory=dict)
    """The message of the last status."""
    times: list[float] = field(default_factory=list)
    metadata: JsonObject = field(default_factory=dict)
    error: JsonObject | None = None
    seen: list[Json] = field(default_factory=list)

    def add(self, piece: TaskPiece, item: TraceItem) -> None:
        """Add the next piece."""
        self.seen.append(piece.value)
        self.context = self.context or text_in(piece.value, "contextId")
        self.metadata |= object_in(piece.value, "metadata")
        if piece.kind == "message":
            self.hear(piece.value)
        elif piece.kind == "error":
            self.error = piece.value
        elif piece.kind == "artifactUpdate":
            self._add_artifact(object_in(piece.value, "artifact"), append=piece.value.get("append") is True)
        else:
            for message in objects_in(piece.value, "history"):
                self.hear(message)
            for artifact in objects_in(piece.value, "artifacts"):
                self._add_artifact(artifact, append=False)
            self._add_status(piece, item)

    def hear(self, message: JsonObject) -> None:
        """Add a message unless it is known: a task's history repeats what was sent."""
        if not message.get("messageId") or text_in(message, "messageId") not in by_text(self.messages, "messageId"):
            self.messages.append(message)

    def _add_status(self, piece: TaskPiece, item: TraceItem) -> None:
        status = object_in(piece.value, "status")
        state = state_of(status.get("state"))
        before, self.state = self.state, state or self.state
        fields = TraceItem(item.source, status, (*item.path, *piece.path, "status")).fields()
        at = fields.time("timestamp")
        self.times += [at] if at else []
        reason = fields.object("message")
        # A repeated state without a message does not clear the reason.
        if reason or before != self.state:
            self.reason = reason
        if reason:
            self.hear(reason)

    def _add_artifact(self, artifact: JsonObject, *, append: bool) -> None:
        key = text_in(artifact, "artifactId") or str(len(self.artifacts))
        known = self.artifacts.get(key)
        if append and known is not None:
            parts = [*objects_in(known, "parts"), *objects_in(artifact, "parts")]
            artifact = known | without(artifact, "parts") | {"parts": parts}
        self.artifacts[key] = artifact


def state_of(word: Json) -> str:
    """Return a state as version 0.3 spells it."""
    return as_text(word).removeprefix("TASK_STATE_").lower().replace("_", "-")


def is_from_user(message: JsonObject) -> bool:
    """Return whether the message went to the agent."""
    return text_in(message, "role").removeprefix("ROLE_").lower() == "user"


def pieces_of(value: Json, path: DocumentPath = ()) -> Iterator[TaskPiece]:
    """Yield the A2A pieces in a value."""
    item = as_object(value)
    if item.get("jsonrpc") == "2.0":
        if has_object(item, "error"):
            yield TaskPiece("error", item["error"], (*path, "error"))
        elif text_in(item, "method").startswith(_METHODS):
            yield from pieces_of(without(object_in(item, "params"), "metadata", "configuration"), (*path, "params"))
        else:
            yield from pieces_of(item.get("result"), (*path, "result"))
    elif has_list(item, "tasks"):
        for index, task in enumerate(item["tasks"]):
            yield from pieces_of(task, (*path, "tasks", index))
    elif (kind := _kind(item)) is not None:
        yield TaskPiece(kind, item, path)
    else:
        for name in _KINDS.values():
            inner = object_in(item, name)
            if inner and _kind(inner, name) == name:
                yield TaskPiece(name, inner, (*path, name))


def _kind(item: JsonObject, named: str = "") -> str | None:
    kind = _KINDS.get(text_in(item, "kind"), named)
    if item.get("messageId") and has_list(item, "parts") and kind in ("message", ""):
        if text_in(item, "role"):
            return "message"
        return None
    has_state = state_of(value_in(item.get("status"), "state")) in _STATES
    if has_text(item, "id") and has_state and kind in ("task", "") and "contextId" in item:
        return "task"
    if has_text(item, "taskId"):
        if kind == "statusUpdate" and has_state:
            return kind
        if kind == "artifactUpdate" and has_object(item, "artifact"):
            return kind
    return None


def task_id(piece: TaskPiece) -> str:
    """Return the id of the piece's task; empty if the piece does not name it."""
    return text_in(piece.value, "id" if piece.kind == "task" else "taskId")
