"""Read fixture files: calls with their shared parts and large values filled in, or an error with file and line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import orjson

from replaykit.cases.fixture_entries import (
    KINDS,
    PLACE_FIELDS,
    FixtureContent,
    FixtureEntry,
    compact,
    plain,
    plain_error,
)
from replaykit.documents.document import read_bytes
from replaykit.documents.struct_files import FileVersion
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.model.compact_run import References, put_together
from replaykit.model.events import Call, CallSpan, ToolCall, Usage, WireInfo
from replaykit.model.json_positions import DocumentPath, line_of
from replaykit.model.nesting import NestedTooDeeply, check_nesting, line_nested_too_deeply
from replaykit.model.shared_parts import BadReference, ExpansionBudget, PartReader, canonical_text
from replaykit.model.struct_flaws import refused_part
from replaykit.model.values import JsonObject, Raw
from replaykit.value_files import ValueReader, is_value_name

FIXTURE_FORMAT = 3
"""Version of the fixture file; readers accept every older one."""
MAX_FIXTURE_BYTES = 512 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_NESTED_TOO_DEEPLY = "nested too deeply"


class FixtureReader:
    """Reads the fixture files of one folder, with one limit on the size of all expanded parts."""

    def __init__(self, folder: Path, recorded: Sequence[Call] = (), held: Iterable[Raw] = ()) -> None:
        self._recorded = {call.seq: call for call in recorded}
        self._values = ValueReader(folder, held)
        self._budget = ExpansionBudget()

    def read(self, file: Path) -> list[Call]:
        """Return the calls in a file, in file order; an `InvalidFile` names the flaw and its line."""
        text = read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES).removeprefix(_BOM)
        content = _content(text, str(file))
        place = _EntryPlace(text, str(file))
        try:
            parts = PartReader(content.parts, self._budget)
        except TypeError:  # orjson reads deeper nesting than it writes
            raise place.error(_NESTED_TOO_DEEPLY, ("parts",)) from None
        reader = _EntryReader(content, parts, self._values, self._recorded)
        return [reader.call(entry, place.at("calls", index)) for index, entry in enumerate(content.calls)]


class _EntryPlace:
    """A place in a fixture file, for errors about it."""

    def __init__(self, text: bytes, file: str, path: DocumentPath = ()) -> None:
        self._text = text
        self.file = file
        self._path = path

    def at(self, *steps: str | int) -> _EntryPlace:
        return _EntryPlace(self._text, self.file, (*self._path, *steps))

    def error(self, message: str, steps: DocumentPath = ()) -> InvalidFile:
        return InvalidFile(message, file=self.file, line=line_of(self._text, (*self._path, *steps)))


class _EntryReader:
    def __init__(
        self, content: FixtureContent, parts: PartReader, values: ValueReader, recorded: Mapping[int, Call]
    ) -> None:
        self._content = content
        self._parts = parts
        self._values = values
        self._recorded = recorded

    def call(self, entry: FixtureEntry, place: _EntryPlace) -> Call:
        if entry.same_as is not None:
            return self._same(entry, entry.same_as, place)
        extra: JsonObject = {}
        if self._content.kind == "llm_call":
            extra = {"finish_reason": entry.finish_reason, "usage": plain(entry.usage, Usage)}
        elif entry.finish_reason is not None or entry.usage is not None:
            raise place.error("only an llm_call has a finish_reason and usage")
        call = KINDS[self._content.kind](
            seq=entry.call,
            name=self._content.name,
            path=entry.path,
            parent=entry.parent,
            arguments_json=entry.arguments,
            result_json=compact(entry.result),
            error=plain_error(entry.error),
            items_json=None if entry.items is None else tuple(map(compact, entry.items)),
            sent_json=compact(entry.sent),
            pauses_ms=entry.pauses_ms,
            mutated=entry.mutated,
            complete=entry.complete,
            duration_s=entry.duration_s,
            span=plain(entry.span, CallSpan),
            after=entry.after,
            wire=plain(entry.wire, WireInfo),
            **extra,
        )
        call = self._whole(call, entry, place)
        # A stream may yield items and then break. A failed tool may also have a text for the model: see `tool_errors`.
        may_have_both = call.wire is not None or isinstance(call, ToolCall)
        if call.result_json and call.error is not None and not may_have_both:
            raise place.error("a call has a result or an error, not both")
        return call

    def _whole(self, call: Call, entry: FixtureEntry, place: _EntryPlace) -> Call:
        """Return the call with canonical arguments, and with its references resolved."""
        try:
            if entry.parts or entry.values:
                references = References(entry.parts, entry.values)
                call = put_together(call, references, self._parts, partial(self._value, place))
            if entry.parts:
                return call
            arguments = Raw(canonical_text(call.arguments_json))
            return msgspec.structs.replace(call, arguments_json=arguments)
        except TypeError:  # orjson reads deeper nesting than it writes
            raise place.error(_NESTED_TOO_DEEPLY, ("arguments",)) from None
        except BadReference as error:
            raise place.error(error.reason, error.place) from None

    def _same(self, entry: FixtureEntry, number: int, place: _EntryPlace) -> Call:
        """Return the recorded call that this one repeats, in this one's place in the run."""
        defaults = FixtureEntry(
            call=entry.call, same_as=number, **{name: getattr(entry, name) for name in PLACE_FIELDS}
        )
        if entry != defaults:
            raise place.error(f"a call that is the same as call {number} has no arguments and no outcome of its own")
        recorded = self._recorded.get(number)
        if recorded is None:
            raise place.error(f"there is no recorded call {number} that this one could be the same as", ("same_as",))
        if (recorded.kind, recorded.name) != (self._content.kind, self._content.name):
            known = f"{recorded.kind} {recorded.name[:80]!r}"
            raise place.error(f"the recorded call {number} is of another kind or name: {known}", ("same_as",))
        own = {name: getattr(entry, name) for name in PLACE_FIELDS if name != "span"}
        return msgspec.structs.replace(recorded, seq=entry.call, span=plain(entry.span, CallSpan), **own)

    def _value(self, place: _EntryPlace, member: str, name: str) -> Raw:
        """Read a value file; an error about it names the entry that refers to it."""
        if not is_value_name(name):
            raise BadReference(("values", member), f"expected the name of a file in values/, not {name[:80]!r}")
        try:
            return self._values.read(name)
        except InvalidFile as error:
            line = place.error("", ("values", member)).line
            reason = f"{error.reason} ({place.file}:{line} refers to it)"
            raise InvalidFile(reason, file=error.file, line=error.line, hint=error.hint) from None


def _content(text: bytes, file: str) -> FixtureContent:
    try:
        check_nesting(text)
        orjson.loads(text)  # strict, and with line numbers in its errors; msgspec decodes the values below
    except NestedTooDeeply as error:
        raise InvalidFile(str(error), file=file, line=line_nested_too_deeply(text)) from None
    except orjson.JSONDecodeError as error:
        raise InvalidFile(f"not JSON: {error.msg}", file=file, line=error.lineno) from None
    _refuse_newer(text, file)
    try:
        return msgspec.json.decode(text, type=FixtureContent)
    except msgspec.MsgspecError:
        raise _wrong_content(text, file) from None


def _refuse_newer(text: bytes, file: str) -> None:
    try:
        version = msgspec.json.decode(text, type=FileVersion).replaykit
    except msgspec.MsgspecError:
        return  # decoding the whole file gives a better error
    if version > FIXTURE_FORMAT:
        raise FormatTooNew(f"{file}: fixture format {version}, this version reads up to {FIXTURE_FORMAT}")
    if version < 1:
        raise _EntryPlace(text, file).error(f"replaykit: expected the format version {FIXTURE_FORMAT}", ("replaykit",))


def _wrong_content(text: bytes, file: str) -> InvalidFile:
    """Return an error about the wrong part, with its line, and the nearest key for an unknown one."""
    part = refused_part(text, FixtureContent)
    place = _EntryPlace(text, file)
    if part.unknown_key is not None:
        return place.error(part.unknown_key_reason, (*part.path, part.unknown_key))
    reason = part.reason[:1].lower() + part.reason[1:]
    if part.path:
        reason = f"{'.'.join(map(str, part.path))}: {reason}"
    return place.error(reason, part.path)
