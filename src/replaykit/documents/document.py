"""Documents: YAML and JSON from files that others wrote, as plain values with the lines they came from.

Whatever a file holds, reading it ends, stays within limits, and gives a value or an `InvalidFile`.
"""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterator, Sequence

import orjson

from replaykit.documents.line_numbers import find_lines
from replaykit.documents.yaml_values import MAX_DEPTH, build_value
from replaykit.errors import InvalidFile
from replaykit.model.json_positions import line_of
from replaykit.model.values import Json

Path = tuple[str | int, ...]
"""A place in a document: keys and indexes."""

MAX_BYTES = 64 * 1024 * 1024
MAX_LINES_BYTES = 8 * 1024 * 1024  # in a larger file, a message without a line beats one that comes late

_BOM = b"\xef\xbb\xbf"


class Document:
    """A file's value, and the line each part of it stands on."""

    __slots__ = ("_text", "file", "value")

    def __init__(self, value: Json, *, file: str, text: bytes) -> None:
        self.value = value
        self.file = file
        self._text = text

    def line(self, path: Path = ()) -> int | None:
        """The line of the part at `path`, or of the nearest part around it; None when nothing is known."""
        return self.lines([path])[0]

    def lines(self, paths: Sequence[Path]) -> list[int | None]:
        """The line of each path. Looked up when asked for: only errors do, so a good file never pays."""
        if len(self._text) > MAX_LINES_BYTES:
            return [None] * len(paths)
        if _is_json(self.file):
            return [line_of(self._text, path) for path in paths]
        return find_lines(self._text, paths)

    def error(self, message: str, path: Path = (), *, hint: str | None = None) -> InvalidFile:
        """The error that says what is wrong with the part at `path`, and where that is."""
        return InvalidFile(message, file=self.file, line=self.line(path), hint=hint)


def load_document(path: str | os.PathLike[str], *, limit_bytes: int = MAX_BYTES) -> Document:
    """The document in a file; `InvalidFile` when it cannot be read or is not one."""
    return parse_document(read_bytes(path, limit_bytes=limit_bytes), os.fspath(path))


def parse_document(text: bytes | str, file: str, *, as_json: bool = False) -> Document:
    """The document in a text: JSON when the file's name or the caller says so, else YAML."""
    data = _utf8(text, file).removeprefix(_BOM)
    if as_json or _is_json(file):
        value = _json(data, file)
    else:
        value = build_value(data, file)
    return Document(value, file=file, text=data)


def read_bytes(path: str | os.PathLike[str], *, limit_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file; `InvalidFile` for anything else, and for one that is too large."""
    name = os.fspath(path)
    try:
        found = os.stat(name)
        # A pipe or a device would block, or never end.
        if not stat.S_ISREG(found.st_mode):
            raise InvalidFile("not a regular file", file=name)
        if found.st_size > limit_bytes:  # before any of it is in memory
            raise InvalidFile(f"larger than {limit_bytes:,} bytes", file=name)
        with pathlib.Path(name).open("rb") as stream:
            data = stream.read(limit_bytes + 1)
    except FileNotFoundError:
        raise InvalidFile("no such file", file=name) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InvalidFile(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=name) from None
    if len(data) > limit_bytes:
        raise InvalidFile(f"larger than {limit_bytes:,} bytes", file=name)
    return data


def _is_json(file: str) -> bool:
    return file.lower().endswith(".json")


def _utf8(text: bytes | str, file: str) -> bytes:
    try:
        if isinstance(text, str):
            return text.encode()
        text.decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"not UTF-8 text: {error.reason}", file=file, line=line) from None
    except UnicodeEncodeError as error:
        line = error.object.count("\n", 0, error.start) + 1
        raise InvalidFile(f"not UTF-8 text: {error.reason}", file=file, line=line) from None
    return text


def _json(data: bytes, file: str) -> Json:
    if not data.strip():
        raise InvalidFile("the file is empty", file=file)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidFile(f"not JSON: {error.msg}", file=file, line=error.lineno) from None
    level = [value] if isinstance(value, dict | list) else []
    for _depth in range(MAX_DEPTH):
        level = [item for outer in level for item in _containers(outer)]
        if not level:
            return value
    raise InvalidFile(f"nested deeper than {MAX_DEPTH} levels", file=file)


def _containers(outer: Json) -> Iterator[Json]:
    for item in outer.values() if isinstance(outer, dict) else outer:
        if item and isinstance(item, dict | list):
            yield item
