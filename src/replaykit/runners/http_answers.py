"""What an HTTP agent's answer says: the output it gave, or how it failed."""

from __future__ import annotations

import orjson
from msgspec import Struct

from replaykit.model.events import ErrorInfo
from replaykit.model.jsonpath import parse_path, values_at
from replaykit.model.values import Json, sayable

OUTPUT_KEYS = (
    "output",
    "response",
    "result",
    "answer",
    "reply",
    "text",
    "content",
    "message",
    "final_output",
)
"""Where an output is looked for when no `response_path` says it, in this order."""
_SHOWN_CHARS = 500


class Said(Struct, frozen=True, kw_only=True):
    """An output, an error, or the reason why neither can be told."""

    output: Json = None
    error: ErrorInfo | None = None
    reason: str = ""


def said_in(status: int, body: bytes, path: str | None) -> Said:
    """What an answer says. 5xx is the agent's own failure; any other status but 2xx is a request that went wrong."""
    text = body.decode("utf-8", "replace")
    if status >= 500:
        return Said(error=ErrorInfo(type="HTTPError", message=sayable(f"answered {status}: {text[:_SHOWN_CHARS]}")))
    if not 200 <= status < 300:
        return Said(reason=sayable(f"answered {status}: {text[:_SHOWN_CHARS]}".rstrip(": ")))
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        if path is not None:
            return Said(reason=f"did not answer with JSON, and response_path is {path}")
        return Said(output=sayable(text) or None)
    if path is not None:
        return _at(value, path)
    return _guessed(value)


def _at(value: Json, path: str) -> Said:
    found = values_at(value, parse_path(path))
    if not found:
        return Said(reason=f"answered without {path}: {_shown(value)}")
    return Said(output=found[0])


def _guessed(value: Json) -> Said:
    if not isinstance(value, dict):
        return Said(output=value)
    failed = value.get("error") or (value.get("success") is False and "success: false")
    if failed:
        message = failed if isinstance(failed, str) else _shown(failed)
        return Said(error=ErrorInfo(type="AgentError", message=sayable(message[:_SHOWN_CHARS])))
    for key in OUTPUT_KEYS:
        if key in value:
            return Said(output=value[key])
    return Said(output=next(iter(value.values())) if len(value) == 1 else value)


def _shown(value: Json) -> str:
    return orjson.dumps(value).decode()[:_SHOWN_CHARS]
