"""What an A2A agent was asked and what it gave, put together from a task, or from the items of a stream.

1.x   {id, contextId, status: {state: TASK_STATE_FAILED, message, timestamp}, history, artifacts}
      {task} | {message} | {statusUpdate} | {artifactUpdate: {artifact, append}}
      {messageId, role: ROLE_USER | ROLE_AGENT, parts: [{text} | {data} | {url} | {raw}]}
0.3   the same with `kind` (task, message, status-update, artifact-update), roles `user` and `agent`, states in
      lower case, parts `{kind: text | data | file}`; inside of JSON-RPC: {jsonrpc, id, result | error}
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from replaykit.formats.core.items import TraceItem
from replaykit.formats.core.source import JsonPath
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text, without

_KINDS = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
"""What 0.3 calls the items that 1.x has by name."""
_STATES = frozenset(
    (
        "submitted",
        "working",
        "completed",
        "failed",
        "canceled",
        "rejected",
        "input-required",
        "auth-required",
        "unknown",
    )
)
_METHODS = ("message/", "tasks/", "SendMessage", "SendStreamingMessage", "GetTask", "SubscribeToTask", "CancelTask")


class TaskPiece(Struct, frozen=True):
    """One thing that a file tells: a task, a message, an update, or an error."""

    kind: str
    value: dict[str, Json]
    path: JsonPath


class TaskExchange(Struct):
    """A task, or a message and its answer, as far as they are told."""

    id: str = ""
    context: str = ""
    messages: list[dict[str, Json]] = field(default_factory=list)
    artifacts: dict[str, dict[str, Json]] = field(default_factory=dict)
    state: str = ""
    reason: dict[str, Json] = field(default_factory=dict)
    """The message beside the last state."""
    times: list[float] = field(default_factory=list)
    metadata: dict[str, Json] = field(default_factory=dict)
    error: dict[str, Json] | None = None
    seen: list[Json] = field(default_factory=list)

    def add(self, piece: TaskPiece, item: TraceItem) -> None:
        """One more thing of it."""
        self.seen.append(piece.value)
        self.context = self.context or as_text(piece.value.get("contextId"))
        self.metadata |= as_object(piece.value.get("metadata"))
        if piece.kind == "message":
            self.hear(piece.value)
        elif piece.kind == "error":
            self.error = piece.value
        elif piece.kind == "artifactUpdate":
            self._add_artifact(as_object(piece.value.get("artifact")), append=piece.value.get("append") is True)
        else:
            for message in as_objects(piece.value.get("history")):
                self.hear(message)
            for artifact in as_objects(piece.value.get("artifacts")):
                self._add_artifact(artifact, append=False)
            self._add_status(piece, item)

    def hear(self, message: dict[str, Json]) -> None:
        """A message, once: a task's history repeats what was sent."""
        known = {as_text(message_seen.get("messageId")) for message_seen in self.messages}
        if as_text(message.get("messageId")) not in known or not message.get("messageId"):
            self.messages.append(message)

    def _add_status(self, piece: TaskPiece, item: TraceItem) -> None:
        status = as_object(piece.value.get("status"))
        state = state_of(status.get("state"))
        before, self.state = self.state, state or self.state
        fields = TraceItem(item.source, status, (*item.path, *piece.path, "status")).fields()
        at = fields.time("timestamp")
        self.times += [at] if at else []
        reason = fields.object("message")
        if reason or before != self.state:
            self.reason = reason
        if reason:
            self.hear(reason)

    def _add_artifact(self, artifact: dict[str, Json], *, append: bool) -> None:
        key = as_text(artifact.get("artifactId")) or str(len(self.artifacts))
        known = self.artifacts.get(key)
        if append and known is not None:
            parts = [*as_objects(known.get("parts")), *as_objects(artifact.get("parts"))]
            artifact = known | without(artifact, "parts") | {"parts": parts}
        self.artifacts[key] = artifact


def state_of(word: Json) -> str:
    """A state in the words of 0.3."""
    return as_text(word).removeprefix("TASK_STATE_").lower().replace("_", "-")


def is_from_user(message: dict[str, Json]) -> bool:
    """True for what the agent was told."""
    return as_text(message.get("role")).removeprefix("ROLE_").lower() == "user"


def pieces_of(value: Json, path: JsonPath = ()) -> Iterator[TaskPiece]:
    """What an item of a file tells; nothing where it is no A2A."""
    item = as_object(value)
    if item.get("jsonrpc") == "2.0":
        if isinstance(item.get("error"), dict):
            yield TaskPiece("error", item["error"], (*path, "error"))
        elif as_text(item.get("method")).startswith(_METHODS):
            yield from pieces_of(without(as_object(item.get("params")), "metadata", "configuration"), (*path, "params"))
        else:
            yield from pieces_of(item.get("result"), (*path, "result"))
    elif isinstance(item.get("tasks"), list):
        for index, task in enumerate(item["tasks"]):
            yield from pieces_of(task, (*path, "tasks", index))
    elif (kind := _kind(item)) is not None:
        yield TaskPiece(kind, item, path)
    else:
        for name in _KINDS.values():
            inner = as_object(item.get(name))
            if inner and _kind(inner, name) == name:
                yield TaskPiece(name, inner, (*path, name))


def _kind(item: dict[str, Json], named: str = "") -> str | None:
    kind = _KINDS.get(as_text(item.get("kind")), "") or named
    if item.get("messageId") and isinstance(item.get("parts"), list) and kind in ("message", ""):
        if as_text(item.get("role")):
            return "message"
        return None
    status = as_object(item.get("status"))
    has_state = state_of(status.get("state")) in _STATES
    if isinstance(item.get("id"), str) and has_state and kind in ("task", "") and "contextId" in item:
        return "task"
    if isinstance(item.get("taskId"), str):
        if kind == "statusUpdate" and has_state:
            return kind
        if kind == "artifactUpdate" and isinstance(item.get("artifact"), dict):
            return kind
    return None


def task_id(piece: TaskPiece) -> str:
    """The task that it is of; nothing where it does not say."""
    return as_text(piece.value.get("id" if piece.kind == "task" else "taskId"))
