"""Redact headers and events of runs before they are written to a log."""

from __future__ import annotations

import zlib
from collections import defaultdict
from functools import lru_cache
from typing import TypeVar

import msgspec
import zstandard
from msgspec.structs import replace

from replaykit.model.changes import StateFold
from replaykit.model.events import (
    Call,
    Decision,
    ErrorEvent,
    ErrorInfo,
    Event,
    LlmCall,
    Message,
    Note,
    Shared,
    State,
    StoredEvent,
    WireInfo,
)
from replaykit.model.incremental_redaction import IncrementalRedaction
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.values import Json, Raw, decode, raw, read_members
from replaykit.redaction.redactor import LEAST_BYTES, Redactor

_UNPACKED_BYTES = 64 * 1024 * 1024
_ENCODING = "content-encoding"
# 47: accept zlib and gzip, since some servers name one and use the other.
_WBITS = {"gzip": 47, "x-gzip": 47, "deflate": 15}
E = TypeVar("E", bound=Event)


class Door:
    """Redacts everything between an agent and the log of its run. The agent's own values stay as they are."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.is_local = not redactor.rules.paths  # paths count from the root
        # Names, paths, steps and addresses repeat.
        self._names = lru_cache(maxsize=4096)(redactor.text)
        self._urls = lru_cache(maxsize=256)(redactor.url)
        self._passes_heading = lru_cache(maxsize=4096)(self._look_at_heading)

    def text(self, text: bytes, key: str) -> bytes:
        """Redact the JSON text of a state's value by its key."""
        return self.redactor.raw(text, name=key)

    def name(self, key: str) -> str:
        """Redact a name, a path or a step."""
        return self._names(key)

    def header(self, header: RunHeader) -> RunHeader:
        """Redact a header, except for ids."""
        return replace(
            header,
            name=self.name(header.name),
            agent=self.name(header.agent),
            tags=tuple(map(self.name, header.tags)),
            input_json=self._raw(header.input_json, "input"),
            output_json=self._raw(header.output_json, "output"),
            metadata_json=self._raw(header.metadata_json),
            error=self._error(header.error),
        )

    def event(self, event: StoredEvent, served: Call | None = None) -> StoredEvent:
        """Redact an event. States were redacted where they were made, and so were answers from a tape."""
        if isinstance(event, Call):
            return self._call(event, served)  # type: ignore[return-value]
        if isinstance(event, Shared):
            return event
        place = self._place(event)
        if isinstance(event, Message):
            return replace(event, **place, role=self.name(event.role), content_json=self._raw(event.content_json))
        if isinstance(event, Decision):
            return replace(event, **place, content_json=self._raw(event.content_json))
        if isinstance(event, Note):
            name = self.name(event.name)
            return replace(event, **place, name=name, content_json=self._raw(event.content_json, name))
        if isinstance(event, ErrorEvent):
            return replace(event, **place, error=self._error(event.error))
        if event.about_json:
            place["about_json"] = self._raw(event.about_json)
        return _with_changes(event, place)

    def run(self, run: TraceRun) -> TraceRun:
        """Redact a run from elsewhere; its states are expanded and rebuilt."""
        states: _States | None = None  # few runs have states
        events: list[StoredEvent] = []
        for event in run.events:
            if isinstance(event, State):
                states = states or _States(self)
                event = states.next(event)
            events.append(self.event(event))
        return TraceRun.of(self.header(run.header), tuple(events))  # type: ignore[arg-type]

    def _place(self, event: Event) -> dict[str, object]:
        """Return the members that say where it happened, as far as redaction changes them."""
        changed: dict[str, object] = {}
        for field, value in (("path", event.path), ("step", event.step)):
            if value and (redacted := self.name(value)) != value:
                changed[field] = redacted
        return changed

    def _call(self, call: Call, served: Call | None) -> Call:
        if self._is_plainly_clean(call, served):
            return call  # the most frequent case: one look for everything
        changed = self._place(call)
        for field in ("arguments_json", "asked_json", "result_json", "sent_json"):
            before: Raw = getattr(call, field)
            after = self._raw(before, tool=call.name)
            if after is not before:
                changed[field] = after
        if call.error is not None and (error := self._error(call.error)) is not call.error:
            changed["error"] = error
        if call.items_json is not None:
            changed |= self._answer(call, call.items_json)
        elif call.wire is not None:
            changed["wire"] = self._wire(call.wire)
        if (name := self.name(call.name)) != call.name:
            changed["name"] = name
        if isinstance(call, LlmCall) and call.finish_reason:
            changed["finish_reason"] = self.name(call.finish_reason)
        return _with_changes(call, changed)

    def _is_plainly_clean(self, call: Call, served: Call | None) -> bool:
        if call.asked_json or call.sent_json or len(call.arguments_json) >= LEAST_BYTES:
            return False  # long conversations are checked message by message
        if not self._passes_heading(call.name, call.path, call.step):
            return False
        if isinstance(call, LlmCall) and call.finish_reason and self.name(call.finish_reason) != call.finish_reason:
            return False
        texts: list[bytes | Raw] = [call.arguments_json]
        if served is not None:
            return self.redactor.passes(b"\n".join(texts))
        if call.error is not None:
            return False
        texts.append(call.result_json)
        if call.wire is not None:
            if _packing(call.wire) or not self._are_plain(call.wire):
                return False
            texts += (value.encode("utf-8", "surrogatepass") for _, value in call.wire.headers)
        if call.items_json is None:
            return self.redactor.passes(b"\n".join(texts))
        from replaykit.redaction.streams import is_plainly_clean  # noqa: PLC0415 (only for streamed answers)

        values = _decoded(call.items_json)
        kinds = set(map(type, values))
        if kinds <= {str}:
            body = _as_bytes("".join(values))
        elif kinds <= {str, bytes} and call.wire is not None:
            body = b"".join(map(_as_bytes, values))
        else:
            return False
        return is_plainly_clean(self.redactor, body, *texts)

    def _look_at_heading(self, name: str, path: str, step: str | None) -> bool:
        """True when a quick look shows that nothing is secret in where a call was made, and to whom."""
        return self.redactor.passes(f"{name}\n{path}\n{step or ''}".encode("utf-8", "surrogatepass"))

    def _are_plain(self, wire: WireInfo) -> bool:
        """Return whether the address, the reason and the names of headers hold nothing to redact."""
        if self._urls(wire.url) != wire.url or self.name(wire.reason) != wire.reason:
            return False
        return not any(self.redactor.tells_of_header(name) for name, _ in wire.headers)

    def _answer(self, call: Call, items: tuple[Raw, ...]) -> dict[str, object]:
        """Redact the items of a streamed answer, and its HTTP metadata if it has any."""
        values = _decoded(items)
        kinds = set(map(type, values))
        changed: dict[str, object] = {}
        if call.wire is not None:
            if kinds <= {str, bytes}:
                return self._chunks(call.wire, values)
            changed["wire"] = self._wire(call.wire)
        if kinds <= {str}:
            redacted = self.redactor.chunks(values)
            if redacted is not values:
                changed["items_json"] = tuple(map(raw, redacted))
        else:
            changed["items_json"] = tuple([self._raw(item, tool=call.name) for item in items])
        return changed

    def _chunks(self, wire: WireInfo, chunks: list[Json]) -> dict[str, object]:
        """Redact a body. A compressed body with findings is written uncompressed."""
        cleaned_wire = self._wire(wire)
        body = list(map(_as_bytes, chunks))
        packing = _packing(wire)
        if packing:
            body = _unpacked(b"".join(body), packing)
        redacted = self.redactor.chunks(body)
        if redacted is body:
            if cleaned_wire == wire:
                return {}
            return {"wire": cleaned_wire}
        if packing:
            headers = tuple([pair for pair in cleaned_wire.headers if pair[0].lower() != _ENCODING])
            cleaned_wire = replace(cleaned_wire, headers=headers, pauses_ms=cleaned_wire.pauses_ms[:1])
        return {"wire": cleaned_wire, "items_json": tuple(map(raw, map(_text_or_bytes, redacted)))}

    def _wire(self, wire: WireInfo) -> WireInfo:
        headers = tuple([(name, self.redactor.header(name, value)) for name, value in wire.headers])
        return replace(wire, url=self._urls(wire.url), reason=self.name(wire.reason), headers=headers)

    def _error(self, error: ErrorInfo | None) -> ErrorInfo | None:
        if error is None or self.redactor.is_clean(msgspec.json.encode(error)):
            return error
        traceback = error.traceback
        if traceback is not None:
            traceback = self.redactor.text(traceback)
        return replace(
            error,
            message=self.redactor.text(error.message),
            args_json=self._raw(error.args_json),
            attributes_json=self._raw(error.attributes_json),
            traceback=traceback,
        )

    def _raw(self, data: Raw, name: str = "", tool: str = "") -> Raw:
        if not data:
            return data
        text = bytes(data)
        redacted = self.redactor.raw(text, name=name, tool=tool)
        if redacted is text:
            return data
        return Raw(redacted)


class _States:
    """The redacted states of a run: unchanged up to the first with a finding."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._read = StateFold()
        self._written: StateFold | None = None
        self._rows: defaultdict[str, IncrementalRedaction] = defaultdict(IncrementalRedaction)

    def next(self, event: State) -> State:
        if not event.is_kept:
            return event
        self._read.apply(event)
        text = self._read.text
        try:
            members = read_members(text)
        except msgspec.ValidationError:  # the state is not an object
            redacted = self._shown(text, "")
            if redacted is text and self._written is None:
                return event
            self._written = StateFold()
            return replace(event, state_json=Raw(redacted), change=None)
        cleaned = {self._door.name(key): self._cleaned(key, value) for key, value in members.items()}
        if self._written is None:
            if all(cleaned.get(key) is value for key, value in members.items()):
                return event
            self._written = StateFold()
        whole, change = self._written.advance_to_text(cleaned)
        return replace(event, state_json=whole, change=change)

    def _cleaned(self, key: str, value: Raw) -> Raw:
        text = bytes(value)
        redacted = self._shown(text, key)
        if redacted is text:
            return value
        return Raw(redacted)

    def _shown(self, text: bytes, key: str) -> bytes:
        if not self._door.is_local:
            return self._door.text(text, key)
        return self._rows[key].cleaned(text, key, self._door.text)


def _with_changes(event: E, changed: dict[str, object]) -> E:
    if not changed:
        return event
    return replace(event, **changed)


def _decoded(items: tuple[Raw, ...]) -> list[Json]:
    """Decode all items at once, which is faster than one by one."""
    values: list[Json] = decode(b"[%b]" % b",".join(map(bytes, items)))
    return values


def _packing(wire: WireInfo) -> str:
    """Return how the body is compressed; empty if it is not."""
    for name, value in wire.headers:
        if name.lower() == _ENCODING:
            encoding = value.lower()
            if encoding != "identity":
                return encoding
            break
    return ""


def _as_bytes(piece: Json) -> bytes:
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogatepass")
    return bytes(piece)


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _unpacked(body: bytes, packing: str) -> list[bytes]:
    """Decompress the body; return nothing if it cannot be read."""
    try:
        if packing == "zstd":
            return [zstandard.ZstdDecompressor().decompress(body, max_output_size=_UNPACKED_BYTES)]
        if packing in _WBITS:
            return [zlib.decompressobj(_WBITS[packing]).decompress(body, _UNPACKED_BYTES)]
    except (zlib.error, zstandard.ZstdError):
        pass
    return []
