"""Errors, as the APIs write them: one reading for all, since gateways mix the forms."""

from __future__ import annotations

from replaykit.model.events import ErrorInfo
from replaykit.model.values import ABSENT, Json, raw
from replaykit.wire.json_fields import as_object, as_text

_MAX_TEXT = 2000  # of an error that is no JSON: the page of some proxy on the way


def error_of(value: Json, status: int | None = None) -> ErrorInfo:
    """The error that a body or an event tells of; `value` is text where it was no JSON."""
    if type(value) is list and value:
        value = value[0]
    body = as_object(value)
    inner = body.get("error", body)
    details = as_object(inner)
    message = details.get("message") or details.get("Message") or details.get("detail")
    if type(inner) is str:
        message = inner
    elif type(value) is str:
        message = value[:_MAX_TEXT].strip()
    attributes = {"status": status, "code": details.get("code"), "param": details.get("param")}
    known = {name: item for name, item in attributes.items() if type(item) in (str, int)}
    return ErrorInfo(
        type=_type(details, status),
        message=message if type(message) is str else _as_text(message),
        attributes_json=raw(known) if known else ABSENT,
    )


def _type(details: dict[str, Json], status: int | None) -> str:
    """The most telling of the names an error has."""
    kind = as_text(details.get("type"))
    names = ("" if kind == "error" else kind, details.get("status"), details.get("code"))
    return next((name for name in names if type(name) is str and name), f"http_{status}" if status else "error")


def _as_text(message: Json) -> str:
    if message is None:
        return ""
    return bytes(raw(message)).decode()[:_MAX_TEXT]
