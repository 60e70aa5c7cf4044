"""Entries: a recorded call in the form of a fixture file, in both directions."""

# No `from __future__ import annotations`: msgspec would compile each annotation from text, once for every class.

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from replaykit.model.compact_run import WriteValue, take_apart
from replaykit.model.events import Call, CallSpan, ErrorInfo, Exchange, LlmCall, ToolCall, Usage, WireInfo
from replaykit.model.shared_parts import PartWriter, Reference
from replaykit.model.values import ABSENT, NULL, JsonObject, Raw

T = TypeVar("T", bound=Struct)

KINDS: dict[str, type[Call]] = {"tool_call": ToolCall, "llm_call": LlmCall, "exchange": Exchange}


class UsageFields(Usage, frozen=True, forbid_unknown_fields=True):
    """`usage` of a call."""


class ErrorFields(ErrorInfo, frozen=True, forbid_unknown_fields=True):
    """`error` of a call."""


class WireFields(WireInfo, frozen=True, forbid_unknown_fields=True):
    """`wire` of a call."""


class SpanFields(CallSpan, frozen=True, forbid_unknown_fields=True):
    """`span` of a call."""


class FixtureEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a fixture file."""

    call: Annotated[int, Meta(ge=0)]
    same_as: Annotated[int, Meta(ge=0)] | None = None
    path: str = ""
    parent: int | None = None
    arguments: Raw = NULL
    parts: dict[str, Reference] = {}
    result: Raw = ABSENT
    error: ErrorFields | None = None
    items: tuple[Raw, ...] | None = None
    values: dict[str, str] = {}
    sent: Raw = ABSENT
    pauses_ms: tuple[float, ...] = ()
    mutated: tuple[str, ...] = ()
    complete: bool = True
    duration_s: float = 0.0
    span: SpanFields | None = None
    after: int | None = None
    finish_reason: str | None = None
    usage: UsageFields | None = None
    wire: WireFields | None = None


class FixtureContent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fixture file."""

    replaykit: int
    kind: Literal["tool_call", "llm_call", "exchange"]
    name: str
    parts: dict[str, tuple[Raw, ...]] = {}
    calls: tuple[FixtureEntry, ...]


PLACE_FIELDS = ("path", "parent", "duration_s", "span", "after")
"""The fields of its own that a call has even if it repeats another one."""


def place_of(call: Call) -> JsonObject:
    """Return the place of a call in its run, as members of an entry."""
    members: JsonObject = {"path": call.path}
    if call.parent is not None:
        members["parent"] = call.parent
    if call.duration_s:
        members["duration_s"] = call.duration_s
    if call.span is not None:
        members["span"] = call.span
    if call.after is not None:
        members["after"] = call.after
    return members


def entry_of(call: Call, parts: PartWriter, write_value: WriteValue) -> JsonObject:
    """Return the members of an entry; large values are written to files of their own."""
    request = msgspec.structs.replace(call, arguments_json=call.request_json, asked_json=ABSENT)
    rest, references = take_apart(request, parts, write_value)
    place = place_of(call)
    entry: JsonObject = {"call": call.seq, "path": place.pop("path")}
    if call.parent is not None:
        entry["parent"] = place.pop("parent")
    entry["arguments"] = rest.arguments_json
    if references.parts:
        entry["parts"] = references.parts
    if rest.result_json:
        entry["result"] = rest.result_json
    if rest.error is not None:
        entry["error"] = rest.error
    if rest.items_json is not None:
        entry["items"] = rest.items_json
    if references.values:
        entry["values"] = references.values
    if call.sent_json:
        entry["sent"] = call.sent_json
    if call.pauses_ms:
        entry["pauses_ms"] = call.pauses_ms
    if call.mutated:
        entry["mutated"] = call.mutated
    if not call.complete:
        entry["complete"] = False
    entry |= place
    if isinstance(call, LlmCall):
        if call.finish_reason is not None:
            entry["finish_reason"] = call.finish_reason
        if call.usage is not None:
            entry["usage"] = call.usage
    if call.wire is not None:
        entry["wire"] = call.wire
    return entry


def plain(value: T | None, kind: type[T]) -> T | None:
    """Return the value as the model's own class, which accepts unknown fields."""
    return value and kind(**{name: getattr(value, name) for name in kind.__struct_fields__})


def plain_error(error: ErrorInfo | None) -> ErrorInfo | None:
    """Return an error as the model's own class, with its values in compact form."""
    error = plain(error, ErrorInfo)
    if error is None:
        return None
    args, attributes = compact(error.args_json), compact(error.attributes_json)
    return msgspec.structs.replace(error, args_json=args, attributes_json=attributes)


def compact(text: Raw) -> Raw:
    """Return JSON text without whitespace."""
    # ABSENT itself, not just an empty text: encoding leaves a field out by identity.
    if text:
        return Raw(msgspec.json.format(bytes(text), indent=-1))
    return ABSENT
