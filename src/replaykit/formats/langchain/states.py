"""States of a LangGraph thread from `get_state_history` or the server's `/history`, newest first.

    {values: {messages, …}, next, config | checkpoint, metadata: {source, step}, created_at,
     parent_config | parent_checkpoint, tasks: [{id, name, error, interrupts}], interrupts}

A thread is a run: the messages that each state adds are read in order, and each state is kept after them. The run
follows the parents of the newest state; states of other branches are counted in a note. Streams of values are states,
too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from replaykit.formats.core.fields import TraceItem, error_of, error_of_repr
from replaykit.formats.core.langchain_messages import message_body, read_outputs
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.registry import Found
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, canonical, encode
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    as_text,
    filled,
    has_list,
    has_object,
    list_in,
    object_in,
    text_in,
    without,
)
from replaykit.wire.model_calls import usage_of

FORMAT = "langchain"
MESSAGES = "messages"
_SNAPSHOT = words_of("values next config metadata created_at parent_config tasks interrupts")
_TASK = ("id", "name", "path", "error", "interrupts", "state", "result")


class Snapshot(Struct, kw_only=True):
    """One state of a thread."""

    values: Json
    thread: str = ""
    space: str = ""
    """The namespace of a nested graph."""
    id: str = ""
    parent: str = ""
    step: str | None = None
    at: float = 0.0
    next: tuple[str, ...] = ()
    errors: tuple[tuple[str, ErrorInfo], ...] = ()
    """Errors of the nodes that ran on the state, with their names."""
    interrupts: tuple[Json, ...] = ()
    metadata: JsonObject = {}

    @property
    def messages(self) -> list[Json]:
        return list_in(self.values, MESSAGES)


def named(value: Json, names: Sequence[str]) -> JsonObject:
    """Return a named tuple as an object: JSON writes it as a list."""
    if isinstance(value, list):
        return dict(zip(names, value, strict=False))
    return as_object(value)


def is_snapshot(value: Json) -> bool:
    """Return whether this is a state of a thread."""
    if isinstance(value, list) and len(value) < len(_SNAPSHOT) - 1:
        return False
    state = named(value, _SNAPSHOT)
    place = isinstance(state.get("config", state.get("checkpoint")), dict)
    return "values" in state and has_list(state, "next") and place and "tasks" in state


def snapshot_of(item: TraceItem) -> Snapshot:
    """Return a state; raise `InvalidFile` if a part of it is malformed."""
    if not is_snapshot(item.value):
        raise item.error("expected a state of a thread: an object with `values`, `next`, `config` and `tasks`")
    fields = TraceItem(item.source, named(item.value, _SNAPSHOT), item.path).fields()
    metadata = fields.object("metadata")
    place = _place(fields.object("config", "checkpoint"))
    tasks = [named(task, _TASK) for task in fields.items("tasks")]
    interrupts = [interrupt for task in tasks for interrupt in list_in(task, "interrupts")]
    upcoming = tuple(map(as_text, fields.items("next")))
    parent = text_in(_place(fields.object("parent_config", "parent_checkpoint")), "checkpoint_id")
    details = {"checkpoint": place.get("checkpoint_id"), "parent": parent, "next": list(upcoming), **metadata}
    return Snapshot(
        values=fields.take("values"),
        thread=text_in(place, "thread_id"),
        space=text_in(place, "checkpoint_ns"),
        id=text_in(place, "checkpoint_id"),
        parent=parent,
        step=_step(metadata.get("step")),
        at=fields.time("created_at") or 0.0,
        next=upcoming,
        errors=tuple((text_in(task, "name"), _error(task["error"])) for task in tasks if task.get("error")),
        interrupts=tuple(interrupts or fields.items("interrupts")),
        metadata=filled(details),
    )


def runs_of(snapshots: Sequence[Snapshot]) -> Iterator[Found]:
    """Yield a run for each thread."""
    threads: dict[tuple[str, str], list[Snapshot]] = {}
    for snapshot in snapshots:
        threads.setdefault((snapshot.thread, snapshot.space), []).append(snapshot)
    for (thread, space), states in threads.items():
        branch = _branch(states)
        name = f"{thread}/{space}" if space else thread
        yield run_of(branch, name=name, thread=thread)
        if left := len(states) - len(branch):
            yield f"thread {thread!r}: {left} of its {len(states)} states are of other branches and were passed over"


def run_of(states: Sequence[Snapshot], *, name: str = "", thread: str = "") -> TraceRun:
    """Return the run of states in order, oldest first."""
    talk, newest = Talk(), states[-1]
    _add_states(talk, states)
    has_messages = any(state.messages for state in states)
    first: Json = next((state.values for state in states if state.values), {})
    error = newest.errors[0][1] if newest.errors else None
    waiting = error is None and bool(newest.next or newest.interrupts)
    metadata: JsonObject = {"thread_id": thread, "interrupts": list(newest.interrupts), "next": list(newest.next)}
    return talk.run(
        id=newest.id or content_id(FORMAT, encode([state.values for state in states])),
        format=FORMAT,
        name=name,
        input=UNSET if has_messages else first,
        output=UNSET if has_messages or error else newest.values,
        status=RunStatus.RUNNING if waiting else None,
        error=error,
        metadata=metadata | ({"failed_node": newest.errors[0][0]} if newest.errors else {}),
    )


def _add_states(talk: Talk, states: Sequence[Snapshot]) -> None:
    known: list[bytes] = []
    seen: set[bytes] = set()
    since = 0.0
    for state in states:
        keys = list(map(key_of, state.messages))
        fresh = [message for key, message in zip(keys, state.messages, strict=True) if key not in seen]
        if keys[: len(known)] != known:
            # Messages were removed, as summaries do: the next request has only the remaining ones.
            repeated = [message for key, message in zip(keys, state.messages, strict=True) if key in seen]
            talk.catches_up(messages_of(repeated) or ())
        for message in fresh:
            tell(talk, message, since=since, at=state.at, step=state.step)
        details = state.metadata or UNSET
        if state.metadata or without(as_object(state.values), MESSAGES):
            talk.keeps(state.values, details=details, at=state.at, step=state.step)
        if state is not states[-1]:  # the run has the last state's error
            for _node, error in state.errors:
                talk.fails(error, at=state.at, step=state.step)
        known, since = keys, state.at
        seen.update(keys)


def _branch(states: list[Snapshot]) -> list[Snapshot]:
    """Return the newest state and its ancestors, oldest first."""
    by_id = {state.id: state for state in states if state.id}
    newest = max(states, key=lambda state: (state.at, state.id))  # of equal ones, the first in the file
    if not any(state.parent in by_id for state in states):
        newest_first = states[::-1]
        return sorted(newest_first, key=lambda state: state.at)
    branch, passed = [newest], {newest.id}
    while (above := by_id.get(branch[-1].parent)) is not None and above.id not in passed:
        passed.add(above.id)
        branch.append(above)
    return branch[::-1]


def _place(config: JsonObject) -> JsonObject:
    """Return the ids of a state: LangGraph's library nests them in a config, its server does not."""
    return object_in(config, "configurable") or config


def _step(number: Any) -> str | None:
    if type(number) is not int:
        return None
    if number >= 0:
        return f"step_{number}"
    return "input"


def _error(value: Json) -> ErrorInfo:
    if isinstance(value, str):
        return error_of_repr(value)
    return error_of(value)


_TOOL_NODE = re.compile(r"Error: (.*)\n Please fix your mistakes\.", re.DOTALL)
_TOOL_CALL = re.compile(r"Error (?:executing|invoking) tool .*? with error:\n (.*)\n Please fix the error", re.DOTALL)
_KINDS = {"user": "human", "human": "human", "assistant": "ai", "ai": "ai", "system": "system", "developer": "system"}
_FAILED = {"error": True, "success": False}
_MODELS = ("model_name", "model", "model_id")
_REASONS = ("finish_reason", "stop_reason", "done_reason")


def body_of(value: Json) -> JsonObject | None:
    """Return the fields of a message, including `type`; None for anything else."""
    body = message_body(value)
    if body is not None or not isinstance(value, dict):
        return body
    inner = object_in(value, "data") or object_in(value, "kwargs") or value
    if inner.get("type") == "chat" and "content" in inner:
        return {**inner, "type": _KINDS.get(text_in(inner, "role"), "human")}
    return None


def are_messages(values: Json) -> bool:
    """Return whether this is a list of LangChain messages and nothing else."""
    if not isinstance(values, list) or not values:
        return False
    bodies = list(map(body_of, values))
    return None not in bodies and any(map(_is_plainly, values))


def _is_plainly(value: JsonObject) -> bool:
    """Return whether only LangChain writes such messages: `{type: system, content}` alone could be any format's."""
    wrapped = "lc" in value or has_object(value, "data")
    return wrapped or text_in(value, "type").lower().startswith(("human", "ai"))


def key_of(value: Json) -> bytes:
    """Return a message's id, or else its content, as a key."""
    body = body_of(value)
    return text_in(body, "id").encode() or canonical(value)


def tell(talk: Talk, value: Json, *, since: float = 0.0, at: float = 0.0, step: str | None = None) -> None:
    """Add a message of the time `at`; `since` is when a model was asked for it."""
    body = body_of(value)
    if body is None:
        for message in messages_of([value]) or ():
            talk.hear(message)
    elif body["type"] == "ai":
        _tell_answer(talk, body, since or at, at, step)
    elif body["type"] in ("tool", "function"):
        _tell_result(talk, body, at, step)
    else:
        talk.says("user" if body["type"] == "human" else "system", body["content"])


def _tell_answer(talk: Talk, body: JsonObject, since: float, at: float, step: str | None) -> None:
    metadata = object_in(body, "response_metadata")
    talk.answers(
        read_outputs({"output": body}).answers[0],
        model=text_in(metadata, *_MODELS),
        usage=_usage(body, metadata),
        finish_reason=text_in(metadata, *_REASONS) or None,
        at=since,
        duration_s=max(0.0, at - since),
        step=step,
    )


def _tell_result(talk: Talk, body: JsonObject, at: float, step: str | None) -> None:
    failed = _FAILED.get(text_in(body, "status"))
    call_id, name = text_in(body, "tool_call_id"), text_in(body, "name")
    error = tool_error(body["content"]) if failed else None
    talk.returns(body["content"], call_id=call_id, name=name, failed=failed, error=error, at=at)
    if body.get("artifact") is not None:
        artifact = {"tool_call_id": call_id, "name": name, "artifact": body["artifact"]}
        talk.notes("artifact", artifact, at=at, step=step)


def tool_error(content: Json) -> ErrorInfo:
    """Return the error in the text that LangGraph shows a model for a failed tool."""
    blocks = "\n".join(text_in(block, "text") for block in as_objects(content))
    text = as_text(content) or blocks
    found = _TOOL_NODE.fullmatch(text.strip()) or _TOOL_CALL.match(text)
    if found:
        return error_of_repr(found[1], "ToolError")
    return error_of(text, "ToolError")


def _usage(body: JsonObject, metadata: JsonObject) -> Usage | None:
    """Return tokens from any of the places: LangChain's counts include cached ones, Anthropic's body has them apart."""
    cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
    return (
        usage_of(body.get("usage_metadata"), inputs=("input_tokens",), outputs=("output_tokens",))
        or usage_of(metadata.get("token_usage"), inputs=("prompt_tokens",), outputs=("completion_tokens",))
        or usage_of(metadata.get("usage"), inputs=("input_tokens", *cached), outputs=("output_tokens",))
    )
