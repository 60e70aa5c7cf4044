"""Pairs: a request and a response of a model API, out of the object that somebody logged them in."""

from __future__ import annotations

from itertools import islice

from replaykit.formats.core.fields import time_in
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, joined, load_object, object_in, of_type, text_in, value_in, without
from replaykit.wire.messages import TEXTS

REQUESTS = ("request", "request_body", "body", "params")
RESPONSES = ("response", "response_body", "completion", "chunks", "stream_events", "events", "result")
"""Under which names a pair has its halves."""

_BODIES = ("body", "json", "data", "params", "kwargs")
_STATUSES = ("status_code", "status")
_TIMES = ("timestamp", "started_at", "start_time", "time", "created_at")
_CREATED = ("created", "created_at", "createTime")
_DURATIONS = {"duration_s": 1.0, "duration_ms": 1e-3, "latency_ms": 1e-3, "latency_s": 1.0}
_LONGEST_S = 1e9
_AROUND_REQUEST = (*RESPONSES, *_TIMES, *_DURATIONS, "error", "custom_id")
_CALLS = ("tool_use", "tool_result", "tool-call", "tool-result")
_LAST_STATUS = 599


def halves(item: JsonObject, conversation: str) -> tuple[JsonObject | None, Json]:
    """The request's body and the response, or the one of them that is there."""
    response = value_in(item, *RESPONSES)
    request = value_in(item, *REQUESTS)
    if request is None and item.get(conversation) is not None:
        request = without(item, *_AROUND_REQUEST)
    return _request(request, conversation), response


def unwrapped(response: Json) -> tuple[Json, int]:
    """The response's body, and its status."""
    if isinstance(response, dict) and "body" in response:
        return response["body"], http_status(response) or 200
    return response, 200


def http_status(value: JsonObject) -> int:
    """The status that the object names; 0 where it names none."""
    for name in _STATUSES:
        status = value.get(name)
        if type(status) is int:
            return status if 0 < status <= _LAST_STATUS else 0
    return 0


def created(response: Json) -> float:
    """Return the time of a response as the provider states it; 0 where it does not."""
    body = response
    if isinstance(response, list) and response:
        body = response[0]  # of a stream
    return _time(object_in(body, "response") or as_object(body), _CREATED)


def times(item: JsonObject, otherwise: float) -> dict[str, float]:
    """Return the start and duration of a call, as the log states them."""
    found = {"at": _time(item, _TIMES) or otherwise}
    for name, unit in _DURATIONS.items():
        took: Json = item.get(name)
        if type(took) in (int, float) and 0 <= took < _LONGEST_S:
            return found | {"duration_s": took * unit}
    return found


def text_or_parts(content: Json) -> Json:
    """Content that is nothing but texts as one text; else as it is."""
    if not isinstance(content, list) or not content:
        return content
    texts: list[str] = []
    for part in content:
        text = part
        if isinstance(part, dict) and part.get("type", "text") in TEXTS and "text" in part:
            text = text_in(part, "text")
        if not isinstance(text, str):
            return content
        texts.append(text)
    return joined(texts, "\n") or ""


def has_calls(content: Json, own: tuple[str, ...] = ()) -> bool:
    """True for content with calls, or results, of others than the API's own: it would lose them."""
    return bool(of_type(content, *set(_CALLS).difference(own)))


def described(item: JsonObject) -> str:
    """Return a description of an object, for an error message."""
    names = ", ".join(f"`{name[:40]}`" for name in islice(item, 5))
    if names:
        return f"an object with {names}"
    return "an empty object"


def _request(body: Json, conversation: str) -> JsonObject | None:
    """The request's body, out of whatever it was logged in."""
    for _level in range(3):
        if isinstance(body, str):
            body = load_object(body.encode("utf-8", "replace"))
        if isinstance(body, list):
            return {conversation: body}
        if not isinstance(body, dict) or conversation in body:
            break
        inner = [body[name] for name in _BODIES if isinstance(body.get(name), dict | str | list)]
        body = next(iter(inner), None)
    if isinstance(body, dict) and conversation in body:
        return body
    return None


def _time(value: JsonObject, names: tuple[str, ...]) -> float:
    return time_in(value_in(value, *names))
