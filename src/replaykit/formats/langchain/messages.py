"""LangChain's messages, told to a conversation.

Each is written in one of three ways: `{type, data}` by `messages_to_dict`, `{lc, id, kwargs}` by `dumpd`, and flat,
`{type, content, …}`, by `model_dump`.
"""

from __future__ import annotations

import re

from replaykit.formats.core.errors import error_of, error_of_repr
from replaykit.formats.core.langchain_messages import message_body, read_outputs
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.talk import Talk
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text
from replaykit.wire.usage import usage_of

_TOOL_NODE = re.compile(r"Error: (.*)\n Please fix your mistakes\.", re.DOTALL)
_TOOL_CALL = re.compile(r"Error (?:executing|invoking) tool .*? with error:\n (.*)\n Please fix the error", re.DOTALL)
_KINDS = {"user": "human", "human": "human", "assistant": "ai", "ai": "ai", "system": "system", "developer": "system"}
_FAILED = {"error": True, "success": False}
_MODELS = ("model_name", "model", "model_id")
_REASONS = ("finish_reason", "stop_reason", "done_reason")


def body_of(value: Json) -> dict[str, Json] | None:
    """The fields of a message, `type` among them; None for anything else."""
    body = message_body(value)
    if body is not None or not isinstance(value, dict):
        return body
    inner = as_object(value.get("data")) or as_object(value.get("kwargs")) or value
    if inner.get("type") == "chat" and "content" in inner:
        return {**inner, "type": _KINDS.get(as_text(inner.get("role")), "human")}
    return None


def are_messages(values: Json) -> bool:
    """True for a list of LangChain's messages and nothing else."""
    if not isinstance(values, list) or not values:
        return False
    bodies = [body_of(value) for value in values]
    return None not in bodies and any(map(_is_plainly, values))


def _is_plainly(value: dict[str, Json]) -> bool:
    """True for a message that no other format writes: `{type: system, content}` alone could be anybody's."""
    wrapped = "lc" in value or isinstance(value.get("data"), dict)
    return wrapped or as_text(value.get("type")).lower().startswith(("human", "ai"))


def key_of(value: Json) -> bytes:
    """Return the key of a message: its id, else its content."""
    body = body_of(value)
    return as_text((body or {}).get("id")).encode() or canonical(value)


def tell(talk: Talk, value: Json, *, since: float = 0.0, at: float = 0.0, step: str | None = None) -> None:
    """One message, said at `at`; what a model says, it has been asked for since `since`."""
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


def _tell_answer(talk: Talk, body: dict[str, Json], since: float, at: float, step: str | None) -> None:
    metadata = as_object(body.get("response_metadata"))
    talk.answers(
        read_outputs({"output": body}).answers[0],
        model=next((name for key in _MODELS if (name := as_text(metadata.get(key)))), ""),
        usage=_usage(body, metadata),
        finish_reason=next((word for key in _REASONS if (word := as_text(metadata.get(key)))), None),
        at=since,
        duration_s=max(0.0, at - since),
        step=step,
    )


def _tell_result(talk: Talk, body: dict[str, Json], at: float, step: str | None) -> None:
    failed = _FAILED.get(as_text(body.get("status")))
    call_id, name = as_text(body.get("tool_call_id")), as_text(body.get("name"))
    error = tool_error(body["content"]) if failed else None
    talk.returns(body["content"], call_id=call_id, name=name, failed=failed, error=error, at=at)
    if body.get("artifact") is not None:
        artifact = {"tool_call_id": call_id, "name": name, "artifact": body["artifact"]}
        talk.notes("artifact", artifact, at=at, step=step)


def tool_error(content: Json) -> ErrorInfo:
    """The error in what LangGraph tells a model of a tool that failed."""
    blocks = "\n".join(as_text(block.get("text")) for block in as_objects(content))
    text = as_text(content) or blocks
    found = _TOOL_NODE.fullmatch(text.strip()) or _TOOL_CALL.match(text)
    if found:
        return error_of_repr(found[1], "ToolError")
    return error_of(text, "ToolError")


def _usage(body: dict[str, Json], metadata: dict[str, Json]) -> Usage | None:
    """Tokens, whoever counted them: LangChain counts cached ones in, Anthropic's own body beside."""
    cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
    return (
        usage_of(body.get("usage_metadata"), inputs=("input_tokens",), outputs=("output_tokens",))
        or usage_of(metadata.get("token_usage"), inputs=("prompt_tokens",), outputs=("completion_tokens",))
        or usage_of(metadata.get("usage"), inputs=("input_tokens", *cached), outputs=("output_tokens",))
    )
