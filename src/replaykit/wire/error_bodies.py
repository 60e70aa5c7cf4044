"""Write errors as each API sends them: the status of an error from a trace or a fault, and its body."""

from __future__ import annotations

import ast
import re

import orjson

from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, JsonObject, decode
from replaykit.wire.api import Framing, ModelApi
from replaykit.wire.json_fields import as_object, object_in, text_at

_FIRST_ERROR, _LAST_ERROR = 400, 599
_STATED = re.compile(
    r"(?:error code|status[_ ]?code|http(?: status| error)?)\b[\s:=]*(?P<named>[45]\d\d)\b|^\s*(?P<first>[45]\d\d)\b",
    re.IGNORECASE,
)
_MOST_TEXT = 20_000  # how much of a message is searched for a body
# Statuses by error names of APIs and SDKs, without `Error`, `Exception` and punctuation.
_STATUSES = {
    **dict.fromkeys(("badrequest", "invalidrequest", "invalidargument", "contentpolicyviolation"), 400),
    **dict.fromkeys(("contentfilter", "contentfiltered", "contextwindowexceeded", "contextlengthexceeded"), 400),
    **dict.fromkeys(("authentication", "unauthenticated", "invalidapikey"), 401),
    **dict.fromkeys(("permissiondenied", "permission"), 403),
    **dict.fromkeys(("notfound", "modelnotfound"), 404),
    "conflict": 409,
    "requesttoolarge": 413,
    "unprocessableentity": 422,
    **dict.fromkeys(("ratelimit", "ratelimitexceeded", "resourceexhausted", "throttling", "insufficientquota"), 429),
    **dict.fromkeys(("toomanyrequests", "throttled"), 429),
    **dict.fromkeys(("internalserver", "api", "server", "internal"), 500),
    **dict.fromkeys(("serviceunavailable", "unavailable"), 503),
    **dict.fromkeys(("deadlineexceeded", "gatewaytimeout"), 504),
    "overloaded": 529,
}
_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GEMINI = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OPENAI = {429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
_OPENAI_CODES = (429,)  # statuses whose type is also the code
_AWS = {400: "ValidationException", 403: "AccessDeniedException", 429: "ThrottlingException"}


def status_of(error: ErrorInfo) -> int | None:
    """Return the HTTP status of an API's error; None for an error that no API sends."""
    if error.attributes_json:
        attributes = as_object(decode(error.attributes_json))
    else:
        attributes = {}
    for name in ("status", "status_code", "code"):
        if _is_error(attributes.get(name)):
            return int(attributes[name])
    for text in (error.type.removeprefix("http_"), error.message[:_MOST_TEXT]):
        found = _STATED.search(text)
        if found is not None:
            return int(found["named"] or found["first"])
    plain = re.sub(r"(?:error|exception)$", "", re.sub(r"[\W_]", "", error.type.rpartition(".")[2]).lower())
    return _STATUSES.get(plain)


def error_body(api: ModelApi, status: int, error: ErrorInfo) -> bytes:
    """Return the API's body for the error, in the traced words as far as possible."""
    stated = _body_in(error.message)
    details = object_in(stated, "error") or stated
    text = text_at(details, "message") or _message_without_status(error)
    return orjson.dumps(_body_of_api(api, status, text, details))


def error_headers(api: ModelApi, status: int) -> tuple[tuple[str, str], ...]:
    """Return the headers that belong to the body."""
    if api.framing is not Framing.AWS:
        return ()
    return (("x-amzn-errortype", _AWS.get(status, "InternalServerException")),)


def _body_of_api(api: ModelApi, status: int, text: str, details: JsonObject) -> Json:
    if api.framing is Framing.AWS:
        return {"message": text}
    family = api.name.partition(".")[0]
    kind = text_at(details, "type")
    if family == "anthropic":
        if kind not in _ANTHROPIC.values() and kind != "api_error":
            kind = _ANTHROPIC.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": text}}
    if family == "gemini":
        body = {"error": {"code": status, "message": text, "status": _GEMINI.get(status, "INTERNAL")}}
        if api.streamed and api.framing is Framing.ARRAY:
            return [body]
        return body
    if family == "ollama":
        return {"error": text}
    usual = _OPENAI.get(status, "invalid_request_error")
    code = details.get("code", usual if status in _OPENAI_CODES else None)
    return {"error": {"message": text, "type": kind or usual, "param": details.get("param"), "code": code}}


def _is_error(value: Json) -> bool:
    is_number = type(value) is int or (type(value) is str and value.isascii() and value.isdigit())
    return is_number and _FIRST_ERROR <= int(value) <= _LAST_ERROR


def _message_without_status(error: ErrorInfo) -> str:
    """Return the message without the status that an SDK prepends."""
    return re.sub(r"^Error code: \d{3} - ", "", error.message) or error.type


def _body_in(message: str) -> JsonObject:
    """Return the body that an SDK writes into its exception's message, as JSON or as a Python literal."""
    start = message.find("{")
    if start < 0 or len(message) > _MOST_TEXT:
        return {}
    text = message[start:]
    try:
        return as_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        pass
    try:
        return as_object(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {}
