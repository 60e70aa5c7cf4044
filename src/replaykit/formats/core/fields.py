"""Read the fields of a foreign object by name, so that every wrong type is reported and nothing is lost."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats.core.source import Source
from replaykit.model.events import ErrorInfo
from replaykit.model.json_positions import DocumentPath
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus
from replaykit.model.text_lines import words_of
from replaykit.model.values import ABSENT, Json, JsonObject, Raw, encode, raw
from replaykit.wire.json_fields import EMPTY, as_object, as_text, has_list, has_text, joined_texts

_UNDERSCORE = re.compile(r"(?<=[a-z0-9])_([a-z])")
_MILLISECONDS = 1e11  # as seconds, a larger epoch would be in the year 5138


class Fields:
    """A JSON object and its path. `rest()` holds what no call has taken."""

    __slots__ = ("_taken", "path", "source", "value")

    def __init__(self, source: Source, value: Json, path: DocumentPath = (), what: str = "an object") -> None:
        if not isinstance(value, dict):
            raise source.error(f"expected {what}, got {json_type(value)}", path)
        self.source = source
        self.value: JsonObject = value
        self.path = path
        self._taken: set[str] = set()

    def key(self, *names: str) -> str | None:
        """Return the first of the names whose value is not null."""
        for name in names:  # a plain loop: this runs for every field of every record
            if self.value.get(name) is not None:
                return name
        return None

    def take(self, *names: str) -> Json:
        """Take the first value that is not null; None if there is none."""
        value = self.value
        for name in names:
            member = value.get(name)
            if member is not None:
                self._taken.add(name)
                return member
        self._taken.update(names)
        return None

    def text(self, *names: str) -> str | None:
        """Take a text, or None."""
        text: str | None = self._typed(names, str, "a text")
        return text

    def required_text(self, *names: str) -> str:
        """Take a text; raise `InvalidFile` if it is missing."""
        text = self.text(*names)
        if text is None:
            raise self.source.error(f"{names[0]!r} is missing", self.path)
        return text

    def label(self, *names: str) -> str | None:
        """Take a text or a whole number, as text."""
        value = self.take(*names)
        if type(value) is int:
            return str(value)
        return self.text(*names)

    def number(self, *names: str) -> float | None:
        """Take a finite number, or None."""
        value = self.take(*names)
        if value is None:
            return None
        try:
            return _finite(value)
        except (ValueError, OverflowError, TypeError):
            raise self.error(f"expected a number, got {json_type(value)}", *names) from None

    def flag(self, *names: str) -> bool:
        """Take a boolean; a missing one is false."""
        return bool(self._typed(names, bool, "true or false"))

    def items(self, *names: str) -> list[Json]:
        """Take a list; a missing one is empty."""
        return self._typed(names, list, "a list") or []

    def texts(self, *names: str) -> tuple[str, ...]:
        """Take a list of texts; a missing one is empty."""
        items = self.items(*names)
        for item in items:
            if not isinstance(item, str):
                raise self.error("expected a list of texts", *names)
        return tuple(items)

    def object(self, *names: str) -> JsonObject:
        """Take an object; a missing one is empty."""
        return self._typed(names, dict, "an object") or {}

    def time(self, *names: str) -> float | None:
        """Take a time as seconds since the epoch, from ISO text, seconds or milliseconds; None if it is missing."""
        value = self.take(*names)
        if value is None:
            return None
        try:
            return _epoch(value)
        except (ValueError, OverflowError, TypeError):
            shown_value = json_type(value)
            if isinstance(value, str):
                shown_value = repr(value[:60])
            raise self.error(f"expected an ISO time or epoch seconds, got {shown_value}", *names) from None

    def inner(self, name: str) -> Fields:
        """Take the fields of a nested object; a missing one is empty."""
        return Fields(self.source, self.object(name), (*self.path, name))

    def members(self, name: str) -> Iterator[TraceItem]:
        """Take a list and yield its members."""
        return TraceItem(self.source, self.items(name), (*self.path, name)).members()

    def each(self, name: str, what: str = "an object") -> Iterator[Fields]:
        """Take a list of objects and yield the fields of each."""
        return (member.fields(what) for member in self.members(name))

    def raw(self, *names: str) -> Raw:
        """Take any value as JSON text; a missing one is `null`."""
        return self.raw_value(self.take(*names), *names)

    def raw_value(self, value: Json, *names: str) -> Raw:
        """Return a value of this object as JSON text, keys in their original order."""
        source, path = self._place_of(names)
        return source.raw(value, path)

    def canonical(self, value: Json, *names: str) -> Raw:
        """Return a value of this object as canonical JSON text."""
        source, path = self._place_of(names)
        return source.canonical(value, path)

    def take_all(self) -> JsonObject:
        """Take the whole object."""
        self._taken.update(self.value)
        return self.value

    def rest(self) -> JsonObject:
        """Return the members that were not taken."""
        return {key: value for key, value in self.value.items() if key not in self._taken}

    def error(self, message: str, *names: str) -> InvalidFile:
        """Return an error about the value under the first of the names that is set."""
        name = self.key(*names)
        if name:
            message = f"{name}: {message}"
        source, path = self._place_of(names)
        return source.error(message, path)

    def _place_of(self, names: tuple[str, ...]) -> tuple[Source, DocumentPath]:
        """Return the source, and the path of the first member that is set or else of the object itself."""
        name = self.key(*names)
        if name:
            return self.source, (*self.path, name)
        return self.source, self.path

    def _typed(self, names: tuple[str, ...], kind: type | tuple[type, ...], what: str) -> Json:
        value = self.take(*names)
        if value is not None and not isinstance(value, kind):
            raise self.error(f"expected {what}, got {json_type(value)}", *names)
        return value


def camel(value: Json) -> JsonObject:
    """Return an object with its names in camel case, as APIs write them; their Python SDKs may use underscores."""
    return {_UNDERSCORE.sub(lambda match: match[1].upper(), name): item for name, item in as_object(value).items()}


def json_type(value: Json) -> str:
    """Return the name of a value's JSON type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    names = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def time_in(value: Json) -> float:
    """Return a time as seconds since the epoch, or 0 if the value is no time: for times not worth an error."""
    try:
        return _epoch(value)
    except (ValueError, OverflowError, TypeError):
        return 0.0


def _epoch(value: Json) -> float:
    if isinstance(value, str):
        moment = dt.datetime.fromisoformat(value)
        if moment.tzinfo is None:
            # In the local zone, the same file would become a different run on each machine.
            moment = moment.replace(tzinfo=dt.UTC)
        return moment.timestamp()
    seconds = _finite(value)
    if abs(seconds) > _MILLISECONDS:
        return seconds / 1000
    return seconds


class TraceItem(Struct, frozen=True):
    """A value in a file, and its location."""

    source: Source
    value: Json
    path: DocumentPath = ()

    def error(self, message: str, *path: str | int) -> InvalidFile:
        """Return an error about the value, or about its member at `path`."""
        return self.source.error(message, (*self.path, *path))

    def fields(self, what: str = "an object") -> Fields:
        """Return the fields of the value; raise `InvalidFile` if it is not an object."""
        return Fields(self.source, self.value, self.path, what)

    def members(self, *names: str) -> Iterator[TraceItem]:
        """Yield the members of the list in the value, or under one of the names; without a list, yield the item
        itself."""
        value, path = self.value, self.path
        for name in names:
            if has_list(value, name):
                value, path = value[name], (*path, name)
        if not isinstance(value, list):
            yield self
            return
        for index, member in enumerate(value):
            yield TraceItem(self.source, member, (*path, index))


def _finite(value: Json) -> float:
    if type(value) not in (int, float):
        raise TypeError(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


_REPR = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)", re.DOTALL)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}
_TYPED = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Timeout|Interrupt|Exceeded|Warning)):\s*(.*)", re.DOTALL)

ERROR = "Error: "
"""The usual start of an error that an agent reports to a model."""
_SPOKEN = ("Error:", "ERROR:")
# How OpenAI's Agents SDK starts the text of an exception.
_OPENAI_AGENTS = "An error occurred while running the tool"

STATUSES: dict[str, RunStatus] = {
    **dict.fromkeys(
        words_of("success succeeded successful ok complete completed done finished passed"),
        RunStatus.SUCCESS,
    ),
    **dict.fromkeys(words_of("error errored fail failed failure exception crashed incomplete"), RunStatus.ERROR),
    **dict.fromkeys(("timeout", "timed_out", "timedout", "deadline_exceeded", "expired"), RunStatus.TIMEOUT),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "interrupted", "stopped", "killed"), RunStatus.CANCELLED),
    **dict.fromkeys(("running", "in_progress", "pending", "started", "queued"), RunStatus.RUNNING),
}
"""The words that traces use for the statuses of a run."""
_ENDINGS = {
    "TimeoutError": RunStatus.TIMEOUT,
    "CancelledError": RunStatus.CANCELLED,
    "KeyboardInterrupt": RunStatus.CANCELLED,
}


def status_of(word: str) -> RunStatus | None:
    """Return the status that a word of a trace stands for, or None."""
    return STATUSES.get(re.sub(r"[\s-]+", "_", word.strip().lower()))


def ending_of(error: ErrorInfo) -> RunStatus:
    """Return the status that a recording gives a run that ends with this error."""
    return _ENDINGS.get(error.type, RunStatus.ERROR)


_UNKNOWN = "Error"  # the type of an error whose trace states none


def error_of(value: Json, fallback_type: str = _UNKNOWN) -> ErrorInfo:
    """Return the error that a text or an object describes; members beyond type and message become attributes."""
    if isinstance(value, str):
        typed = _TYPED.fullmatch(value.strip())
        if typed:
            name, message = typed[1], typed[2]
            return ErrorInfo(type=name.rpartition(".")[2], module=name.rpartition(".")[0], message=message)
        return ErrorInfo(type=fallback_type, message=value)
    if isinstance(value, dict):
        if value.keys() == {"error"} and isinstance(value["error"], str):
            return error_of(value["error"], fallback_type)
        return _error_of_object(value, fallback_type)
    return ErrorInfo(type=fallback_type, message="" if value is None else encode(value).decode())


def error_of_repr(text: str, fallback_type: str = "Error") -> ErrorInfo:
    """Return the error in a text that may be the `repr` of an exception: `TimeoutError('too late')`."""
    match = _REPR.fullmatch(text.strip())
    if match is None:
        return error_of(text.strip(), fallback_type)
    message = match[2]
    quoted = _QUOTED.fullmatch(message.strip().removesuffix(","))
    if quoted is not None:
        message = _plain(quoted[1] or quoted[2] or "")
    module, _, kind = match[1].rpartition(".")
    return ErrorInfo(type=kind, module=module, message=message)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), text)


def result_error(result: Json, *, is_error: bool) -> ErrorInfo | None:
    """Return the error in a tool's result that is marked as one; MCP has `isError` beside the content."""
    if isinstance(result, dict) and (result.get("isError") is True or result.get("is_error") is True):
        content = result.get("content")
        parts = joined_texts(content, "\n") or None
        return error_of(as_text(content) or parts or encode(result).decode(), "ToolError")
    if not is_error:
        return None
    return error_of(result if isinstance(result, str | dict) else encode(result).decode(), "ToolError")


def spoken_error(result: Json) -> ErrorInfo | None:
    """Return the error in the text that a model was shown: `Error: …`, `TimeoutError: …`."""
    if not isinstance(result, str):
        return None
    text, fallback_type = result, ""
    if result.startswith((*_SPOKEN, _OPENAI_AGENTS)):
        fallback_type = "ToolError"
    if result.startswith(_SPOKEN):
        text = result.partition(":")[2].lstrip()
    described_error = error_of(text, fallback_type)
    if described_error.type:
        return described_error
    return None


def tool_outcome(
    content: Json, *, failed: bool | None = None, error: ErrorInfo | None = None, ending: ToolErrors | None = None
) -> tuple[ErrorInfo | None, Raw]:
    """Return the error and the result of a tool call from `content`, which the model was shown.

    `failed` and `error` are what the format says of a failure; where it says nothing, the text does. `ending` is for a
    format that knows whether the failed tool raised. Without it, a failure that the format knows of was raised, and
    one that only the text tells of was returned; a case can say otherwise, since such a call keeps both.
    """
    is_known = error is not None or failed is True or as_text(content).startswith(_OPENAI_AGENTS)
    if error is None and failed is not False:
        error = spoken_error(content)
    error = error or result_error(content, is_error=failed is True)
    if error is None:
        return None, raw(content)
    error = _with_type(error, content)
    if ending is ToolErrors.RAISED or content in EMPTY:
        return error, ABSENT
    is_raised = is_known and ending is None
    return replace(error, raised=is_raised), raw(content)


def _with_type(error: ErrorInfo, content: Json) -> ErrorInfo:
    """Return the error; if the trace gives no type, take it from the text that the agent showed the model."""
    if error.type != _UNKNOWN or not error.message or not isinstance(content, str):
        return error
    described = error_of_repr(content)
    if described.message != error.message:
        return error
    return replace(error, type=described.type, module=described.module)


def _error_of_object(value: JsonObject, fallback_type: str) -> ErrorInfo:
    fields = dict(value)
    kind = _pop_text(fields, "type", "name", "error_type", "code")
    message = _pop_text(fields, "message", "error", "msg", "detail")
    traceback = _pop_text(fields, "traceback", "stack", "stacktrace")
    return ErrorInfo(
        type=kind or fallback_type,
        message=message or "",
        traceback=traceback,
        attributes_json=raw(fields) if fields else ABSENT,
    )


def _pop_text(fields: JsonObject, *names: str) -> str | None:
    for name in names:
        if has_text(fields, name):
            return str(fields.pop(name))
    return None
