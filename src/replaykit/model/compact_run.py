"""The compact run log: calls share common parts, and large values are stored in files of their own.

    {"replaykit": 2, "parts": {"messages": […]}, "run": {…, "events": [
      {"type": "llm_call", …, "arguments": {…}, "parts": {"messages": "0-4"}, "values": {"result": "fixtures/…"}}]}}

This is the source trace of a case. A run log that has to be self-contained is plain (`model.run.encode_run`).
"""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.model.events import AnyEvent, Call, ErrorInfo, Event, encode_event
from replaykit.model.run import RUN_FORMAT, TraceRun
from replaykit.model.shared_parts import (
    LARGE_BYTES,
    BadReference,
    CanBeNamed,
    PartReader,
    PartWriter,
    Reference,
    canonical_text,
)
from replaykit.model.values import ABSENT, NULL, JsonObject, Raw, read_members

ReadValue = Callable[[str, str], Raw]
"""Reads the value of a member from a file: called with the member and the file's name."""
WriteValue = Callable[[Raw], str]
"""Writes a value to a file and returns the file's name."""

_ARGUMENTS, _ITEMS = "arguments.", "items."
_NUMBER = re.compile(r"[0-9]{1,9}")
_PLACES = "expected result, error, items.NUMBER or arguments.NAME"


class References(Struct, frozen=True, omit_defaults=True):
    """References beside a call: positions in shared parts, and names of value files, by the member they replace."""

    parts: dict[str, Reference] = {}
    values: dict[str, str] = {}


NO_REFERENCES = References()


def take_apart(call: Call, parts: PartWriter, write_value: WriteValue) -> tuple[Call, References]:
    """Split a call into the part that stays and references to what is shared or large; write the large values."""
    split = parts.split(call.arguments_json)
    large = {f"{_ARGUMENTS}{path}": value for path, value in split.large.items()}
    changed: JsonObject = {}
    if split.rest is not call.arguments_json:
        changed["arguments_json"] = split.rest
    if len(call.result_json) >= LARGE_BYTES:
        large["result"] = call.result_json
        changed["result_json"] = ABSENT
    if call.error is not None:
        error = msgspec.json.encode(call.error)
        if len(error) >= LARGE_BYTES:
            large["error"] = Raw(error)
            changed["error"] = None
    items = call.items_json or ()
    large_items = {index: item for index, item in enumerate(items) if len(item) >= LARGE_BYTES}
    if large_items:
        large |= {f"{_ITEMS}{index}": item for index, item in large_items.items()}
        changed["items_json"] = tuple(NULL if index in large_items else item for index, item in enumerate(items))
    if not changed:
        return call, NO_REFERENCES
    names = {member: write_value(value) for member, value in large.items()}
    return replace(call, **changed), References(split.parts, names)


def large_values(events: Iterable[Event]) -> Iterator[Raw]:
    """Yield the large results and items of calls, in order."""
    for event in events:
        if not isinstance(event, Call):
            continue
        if len(event.result_json) >= LARGE_BYTES:
            yield event.result_json
        for item in event.items_json or ():
            if len(item) >= LARGE_BYTES:
                yield item


def without_large_values(run: TraceRun) -> TraceRun:
    """Return the run with `null` in place of large results and items."""
    events: list[AnyEvent] = []
    for event in run.events:
        if not any(large_values([event])):
            events.append(event)
            continue
        assert isinstance(event, Call)  # only calls have such values
        items = event.items_json
        if items is not None:
            items = tuple(NULL if len(item) >= LARGE_BYTES else item for item in items)
        if len(event.result_json) >= LARGE_BYTES:
            result = NULL
        else:
            result = event.result_json
        events.append(replace(event, result_json=result, items_json=items))
    return replace(run, events=tuple(events))


def with_large_values(run: TraceRun, whole: TraceRun) -> TraceRun:
    """Undo `without_large_values(whole)`: return the run with the large values of `whole` restored."""
    events: list[AnyEvent] = []
    for event, other in zip(run.events, whole.events, strict=True):
        if not any(large_values([other])):
            events.append(event)
            continue
        assert isinstance(event, Call)  # only calls have such values
        assert isinstance(other, Call)
        values = {"result_json": other.result_json, "items_json": other.items_json}
        events.append(replace(event, **values))
    return replace(run, events=tuple(events))


def put_together(call: Call, references: References, parts: PartReader, read_value: ReadValue) -> Call:
    """Return the whole call with canonical arguments. Raises `BadReference` with the wrong reference's place."""
    large = {}
    for member, name in references.values.items():
        if problem := _misplaced(call, member):
            raise BadReference(("values", member), problem)
        large[member] = read_value(member, name)
    arguments = {member[len(_ARGUMENTS) :]: large[member] for member in large if member.startswith(_ARGUMENTS)}
    changed: JsonObject = {}
    if references.parts or arguments:
        changed["arguments_json"] = _arguments(call.arguments_json, references.parts, arguments, parts)
    if "result" in large:
        changed["result_json"] = large["result"]
    if "error" in large:
        changed["error"] = _error(large["error"])
    if call.items_json is not None and any(member.startswith(_ITEMS) for member in large):
        changed["items_json"] = tuple(large.get(f"{_ITEMS}{i}", item) for i, item in enumerate(call.items_json))
    return replace(call, **changed)


def _arguments(rest: Raw, references: Mapping[str, Reference], large: Mapping[str, Raw], parts: PartReader) -> Raw:
    try:
        texts = {path: canonical_text(value) for path, value in large.items()}
        return parts.joined(rest, references, texts)
    except BadReference as error:
        if error.place[0] in large:
            raise BadReference(("values", f"{_ARGUMENTS}{error.place[0]}"), error.reason) from None
        raise BadReference(("parts", *error.place), error.reason) from None
    except TypeError:  # orjson parses deeper nesting than it writes
        raise BadReference(("arguments",), "nested too deeply") from None


def _error(value: Raw) -> ErrorInfo:
    try:
        return msgspec.json.decode(value, type=ErrorInfo)
    except msgspec.MsgspecError as error:
        raise BadReference(("values", "error"), f"the file holds no error: {error}") from None


def _misplaced(call: Call, member: str) -> str:
    """Say why a value cannot be put at this member; empty if it can."""
    if member == "result":
        if call.result_json:
            return "the call has a result as well"
        return ""
    if member == "error":
        if call.error is not None:
            return "the call has an error as well"
        return ""
    if member.startswith(_ITEMS):
        number = member[len(_ITEMS) :]
        items = call.items_json or ()
        if not _NUMBER.fullmatch(number) or int(number) >= len(items):
            return f"there is no {member[:40]!r}"
        if bytes(items[int(number)]) == b"null":
            return ""
        return f"{member!r} has another value as well"
    if member.startswith(_ARGUMENTS):
        return ""
    return f"{_PLACES}, not {member[:40]!r}"


COMPACT_RUN_FORMAT = 2
"""The version of a run log with references. A plain run log has `RUN_FORMAT`."""


class RunReferences(Struct, frozen=True):
    """The references of each event of a run."""

    events: tuple[References, ...] = ()


class CompactRunFile(Struct, frozen=True, kw_only=True):
    """The parts and references of a compact run log. The rest is read as a plain run log."""

    replaykit: int
    parts: dict[str, tuple[Raw, ...]] = {}
    run: RunReferences


def encode_compact_run(run: TraceRun, write_value: WriteValue, can_be_named: CanBeNamed) -> bytes:
    """Encode a run as one JSON document; a plain run log if nothing repeats and nothing is large."""
    parts = PartWriter((call.arguments_json for call in run.calls), can_be_named)
    encoded = [_encode(event, parts, write_value) for event in run.events]
    is_compact = any(references is not NO_REFERENCES for _, references in encoded)
    members = read_members(msgspec.json.encode(msgspec.structs.replace(run, events=())))
    members["events"] = Raw(b"[%b]" % b",".join(text for text, _ in encoded))
    content: JsonObject = {"replaykit": COMPACT_RUN_FORMAT if is_compact else RUN_FORMAT}
    if parts.tables:
        content["parts"] = parts.tables
    content["run"] = members
    return msgspec.json.encode(content)


def _encode(event: AnyEvent, parts: PartWriter, write_value: WriteValue) -> tuple[bytes, References]:
    if not isinstance(event, Call):
        return encode_event(event), NO_REFERENCES
    rest, references = take_apart(event, parts, write_value)
    if references is NO_REFERENCES:
        return encode_event(event), NO_REFERENCES
    return encode_event(rest)[:-1] + b"," + msgspec.json.encode(references)[1:], references
