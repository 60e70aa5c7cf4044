"""Source: the bytes of a trace file, parsed once, with the line of whatever is wrong in them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import orjson

from replaykit.errors import InvalidFile
from replaykit.model.lines import line_of
from replaykit.model.values import Json, Raw, canonical, encode

MAX_BYTES = 512 * 1024 * 1024
JsonPath = tuple[str | int, ...]

_BOM = b"\xef\xbb\xbf"
_TOO_DEEP = b'{"$opaque":"nested too deeply"}'  # what `model.values` writes where it has to stop


class Source:
    """A trace file's content; `value` is its JSON."""

    __slots__ = ("_value", "file", "text")

    def __init__(self, text: bytes, file: str, *, value: Json = msgspec.UNSET) -> None:
        self.text = text.removeprefix(_BOM)
        self.file = file
        self._value: Json = value  # where it is known already

    @property
    def value(self) -> Json:
        """The JSON value; `InvalidFile` with the line when the text is not JSON."""
        if self._value is msgspec.UNSET:
            self._value = self._parse()
        return self._value

    @property
    def is_text(self) -> bool:
        """False for a binary format."""
        try:
            return b"\0" not in self.text and bool(self.text.decode())
        except UnicodeDecodeError:
            return False

    def peek(self) -> Json:
        """The JSON value, or None when the text is not JSON: for recognising a format."""
        try:
            return self.value
        except InvalidFile:
            return None

    def error(self, message: str, path: JsonPath = (), *, hint: str | None = None) -> InvalidFile:
        """The error that says what is wrong with the value at `path`, and on which line."""
        return InvalidFile(message, file=self.file, line=line_of(self.text, path), hint=hint)

    def raw(self, value: Json, path: JsonPath) -> Raw:
        """The value at `path` as JSON text, keys in their own order."""
        return self._whole(encode(value), path)

    def canonical(self, value: Json, path: JsonPath) -> Raw:
        """The value at `path` as canonical JSON text: for the arguments of calls."""
        return self._whole(canonical(value), path)

    def _whole(self, text: bytes, path: JsonPath) -> Raw:
        if _TOO_DEEP in text:
            raise self.error("nested too deeply to be kept whole", path)
        return Raw(text)

    def _parse(self) -> Json:
        if not self.text.strip():
            raise InvalidFile("the file is empty", file=self.file)
        try:
            # Not orjson: it turns integers beyond 64 bits into floats.
            return msgspec.json.decode(self.text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._not_json(str(error)) from None

    def _not_json(self, reason: str) -> InvalidFile:
        try:
            orjson.loads(self.text)
        except orjson.JSONDecodeError as error:
            return InvalidFile(f"not JSON: {error.msg}", file=self.file, line=error.lineno)
        return InvalidFile(f"not JSON: {reason}", file=self.file)


def read_source(path: str | os.PathLike[str], *, limit_bytes: int = MAX_BYTES) -> Source:
    """What a regular file holds; `InvalidFile` for anything else, and for one that is too large."""
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
        if stat.S_ISDIR(mode):
            raise InvalidFile("is a directory; name a trace file in it", file=name)
        if not stat.S_ISREG(mode):  # a pipe or a device would block, or never end
            raise InvalidFile("not a regular file", file=name)
        with Path(name).open("rb") as stream:
            text = stream.read(limit_bytes + 1)
    except FileNotFoundError:
        raise InvalidFile("no such file", file=name) from None
    except (OSError, ValueError) as error:
        raise InvalidFile(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=name) from None
    if len(text) > limit_bytes:
        raise InvalidFile(f"larger than {limit_bytes:,} bytes", file=name)
    return Source(text, name)
