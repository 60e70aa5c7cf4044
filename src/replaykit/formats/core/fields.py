"""Fields: an object of a foreign trace, taken apart by name, so that every wrong shape is told and none is lost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.source import Source
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject, Raw

_MILLISECONDS = 1e11  # an epoch above this would be the year 5138 in seconds


class Fields:
    """One JSON object and its path. What nobody takes is left in `rest()`."""

    __slots__ = ("_taken", "path", "source", "value")

    def __init__(self, source: Source, value: Json, path: DocumentPath = (), what: str = "an object") -> None:
        if not isinstance(value, dict):
            raise source.error(f"expected {what}, got {json_type(value)}", path)
        self.source = source
        self.value: JsonObject = value
        self.path = path
        self._taken: set[str] = set()

    def key(self, *names: str) -> str | None:
        """The first of the names that the object has, with a value other than null."""
        for name in names:  # a loop: this runs for every field of every record
            if self.value.get(name) is not None:
                return name
        return None

    def take(self, *names: str) -> Json:
        """The value under the first of the names that is there; None when none is."""
        value = self.value
        for name in names:
            found = value.get(name)
            if found is not None:
                self._taken.add(name)
                return found
        self._taken.update(names)
        return None

    def text(self, *names: str) -> str | None:
        """A text, or None when it is not there."""
        found: str | None = self._typed(names, str, "a text")
        return found

    def required_text(self, *names: str) -> str:
        """A text that has to be there."""
        found = self.text(*names)
        if found is None:
            raise self.source.error(f"{names[0]!r} is missing", self.path)
        return found

    def label(self, *names: str) -> str | None:
        """A text or a whole number, as text; None when it is not there."""
        found = self.take(*names)
        if type(found) is int:
            return str(found)
        return self.text(*names)

    def number(self, *names: str) -> float | None:
        """A finite number, or None when it is not there."""
        found = self.take(*names)
        if found is None:
            return None
        try:
            return _finite(found)
        except (ValueError, OverflowError, TypeError):
            raise self.error(f"expected a number, got {json_type(found)}", *names) from None

    def flag(self, *names: str) -> bool:
        """True or false; false when it is not there."""
        return bool(self._typed(names, bool, "true or false"))

    def items(self, *names: str) -> list[Json]:
        """A list; an empty one when it is not there."""
        return self._typed(names, list, "a list") or []

    def texts(self, *names: str) -> tuple[str, ...]:
        """A list of texts; an empty one when it is not there."""
        found = self.items(*names)
        for item in found:
            if not isinstance(item, str):
                raise self.error("expected a list of texts", *names)
        return tuple(found)

    def object(self, *names: str) -> JsonObject:
        """An object; an empty one when it is not there."""
        return self._typed(names, dict, "an object") or {}

    def time(self, *names: str) -> float | None:
        """Seconds since the epoch, from ISO text, seconds or milliseconds; None when it is not there."""
        found = self.take(*names)
        if found is None:
            return None
        try:
            return _epoch(found)
        except (ValueError, OverflowError, TypeError):
            shown = json_type(found)
            if isinstance(found, str):
                shown = repr(found[:60])
            raise self.error(f"expected an ISO time or epoch seconds, got {shown}", *names) from None

    def inner(self, name: str) -> Fields:
        """The fields of an object inside of it; none when it is not there."""
        return Fields(self.source, self.object(name), (*self.path, name))

    def members(self, name: str) -> Iterator[TraceItem]:
        """Each member of a list; none when it is not there."""
        return TraceItem(self.source, self.items(name), (*self.path, name)).members()

    def each(self, name: str, what: str = "an object") -> Iterator[Fields]:
        """The fields of each object in a list."""
        return (member.fields(what) for member in self.members(name))

    def raw(self, *names: str) -> Raw:
        """Any value as JSON text; `null` when it is not there."""
        return self.source.raw(self.take(*names), self._path_of(names))

    def canonical(self, value: Json, *names: str) -> Raw:
        """A value of this object as canonical JSON text."""
        return self.source.canonical(value, self._path_of(names))

    def take_all(self) -> JsonObject:
        """The whole object; nothing is left."""
        self._taken.update(self.value)
        return self.value

    def rest(self) -> JsonObject:
        """Everything that was not taken."""
        return {key: value for key, value in self.value.items() if key not in self._taken}

    def error(self, message: str, *names: str) -> InvalidFile:
        """The error about the value under one of the names."""
        name = self.key(*names)
        if name:
            message = f"{name}: {message}"
        return self.source.error(message, self._path_of(names))

    def _path_of(self, names: tuple[str, ...]) -> DocumentPath:
        name = self.key(*names)
        if name:
            return (*self.path, name)
        return self.path

    def _typed(self, names: tuple[str, ...], kind: type | tuple[type, ...], what: str) -> Json:
        found = self.take(*names)
        if found is not None and not isinstance(found, kind):
            raise self.error(f"expected {what}, got {json_type(found)}", *names)
        return found


def json_type(value: Json) -> str:
    """Return the name of a value's JSON type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    names = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def time_in(value: Json) -> float:
    """Seconds since the epoch where a value tells a time, and 0 where it does not: for times worth no error."""
    try:
        return _epoch(value)
    except (ValueError, OverflowError, TypeError):
        return 0.0


def _epoch(value: Json) -> float:
    if isinstance(value, str):
        moment = dt.datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return moment.timestamp()
    seconds = _finite(value)
    if abs(seconds) > _MILLISECONDS:
        return seconds / 1000
    return seconds


class TraceItem(Struct, frozen=True):
    """A value of a file, and where it stands."""

    source: Source
    value: Json
    path: DocumentPath = ()

    def error(self, message: str, *path: str | int) -> InvalidFile:
        """Return an error about it, or about its member at `path`."""
        return self.source.error(message, (*self.path, *path))

    def fields(self, what: str = "an object") -> Fields:
        """Its fields; `InvalidFile` when it is no object."""
        return Fields(self.source, self.value, self.path, what)

    def members(self, *names: str) -> Iterator[TraceItem]:
        """The members of the list that it is, or that it has under one of the names; else itself."""
        value, path = self.value, self.path
        for name in names:
            if isinstance(value, dict) and isinstance(value.get(name), list):
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
