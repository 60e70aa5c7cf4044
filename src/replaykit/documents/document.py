"""Documents: YAML and JSON from untrusted files, as plain values with line numbers.

Reading any file ends, stays within limits, and gives a value or an `InvalidFile`. A path in a file never leaves the
directory that it is confined to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path, PureWindowsPath
from typing import Any, TypeAlias

import orjson
import yaml

from replaykit.documents.yaml_values import LOADER, MAX_DEPTH, build_value
from replaykit.errors import InvalidFile
from replaykit.model.json_positions import DocumentPath, line_of
from replaykit.model.values import Json

FilePath: TypeAlias = str | os.PathLike[str]

MAX_BYTES = 64 * 1024 * 1024
MAX_LINES_BYTES = 8 * 1024 * 1024  # in larger files, finding the line takes too long

_BOM = b"\xef\xbb\xbf"


class Document:
    """A file's value, and the line of each part of it."""

    __slots__ = ("_text", "file", "value")

    def __init__(self, value: Json, *, file: str, text: bytes) -> None:
        self.value = value
        self.file = file
        self._text = text

    def line(self, path: DocumentPath = ()) -> int | None:
        """Return the line of the part at `path`, or of the nearest part around it; None if nothing is known."""
        return self.lines([path])[0]

    def lines(self, paths: Sequence[DocumentPath]) -> list[int | None]:
        """Return the line of each path. Lines are computed on demand: only errors need them."""
        if len(self._text) > MAX_LINES_BYTES:
            return [None] * len(paths)
        if _is_json(self.file):
            return [line_of(self._text, path) for path in paths]
        return find_lines(self._text, paths)

    def error(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> InvalidFile:
        """Return an error about the part at `path`, with its line."""
        return InvalidFile(message, file=self.file, line=self.line(path), hint=hint)


def load_document(path: FilePath, *, limit_bytes: int = MAX_BYTES) -> Document:
    """Read a file; raise `InvalidFile` if it cannot be read or is malformed."""
    return parse_document(read_bytes(path, limit_bytes=limit_bytes), os.fspath(path))


def parse_document(text: bytes | str, file: str, *, as_json: bool = False) -> Document:
    """Parse a text as JSON if the file's name or the caller says so, else as YAML."""
    # Editors on Windows write a byte order mark.
    data = _utf8(text, file).removeprefix(_BOM)
    if as_json or _is_json(file):
        value = _json(data, file)
    else:
        value = build_value(data, file)
    return Document(value, file=file, text=data)


def read_bytes(path: FilePath, *, limit_bytes: int = MAX_BYTES) -> bytes:
    """Read a regular file; raise `InvalidFile` for anything else, and for a file that is too large."""
    name = os.fspath(path)
    try:
        found = os.stat(name)
        # A pipe or a device would block, or never end.
        if not stat.S_ISREG(found.st_mode):
            raise InvalidFile("not a regular file", file=name)
        if found.st_size > limit_bytes:  # before reading it into memory
            raise InvalidFile(f"larger than {limit_bytes:,} bytes", file=name)
        with Path(name).open("rb") as stream:
            # Python makes room for all that may be read, which is half a gigabyte for a fixture.
            data = stream.read(found.st_size + 1)
            if len(data) > found.st_size:  # it has grown
                data += stream.read(limit_bytes + 1 - len(data))
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
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        newline: Any = "\n" if isinstance(text, str) else b"\n"
        line = error.object.count(newline, 0, error.start) + 1
        raise InvalidFile(f"not UTF-8 text: {error.reason}", file=file, line=line) from None
    return text


def _json(data: bytes, file: str) -> Json:
    if not data.strip():
        raise InvalidFile("the file is empty", file=file)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidFile(f"not JSON: {error.msg}", file=file, line=error.lineno) from None
    level = [value]
    for _depth in range(MAX_DEPTH + 1):
        inner: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return value
        level = inner
    raise InvalidFile(f"nested deeper than {MAX_DEPTH} levels", file=file)


def confined_path(directory: Path, text: str) -> Path:
    """Return the file that a case means by a relative path; raise `ValueError` if it may not be used."""
    # Windows accepts both kinds of slashes, and drives: a case is refused on every system or on none.
    path = PureWindowsPath(text)
    if path.anchor:
        raise ValueError(f"{text!r} is an absolute path; expected one inside the case's directory")
    if ".." in path.parts:
        raise ValueError(f"{text!r} leaves the case's directory")
    if not text.strip() or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    file = directory / text
    # Without links on the way, a path without `..` stays inside: the fast path for most cases.
    steps = accumulate((os.fspath(directory), *Path(text).parts), os.path.join)
    if any(map(os.path.islink, steps)) and not _is_within(os.path.realpath(file), os.path.realpath(directory)):
        raise ValueError(f"{text!r} is a link that leaves the case's directory")
    return file


def confined_file(directory: Path, text: str) -> Path:
    """Return the file that a case means by a relative path; raise `InvalidFile` if it may not be used."""
    try:
        return confined_path(directory, text)
    except ValueError as error:
        raise InvalidFile(str(error), file=str(directory / text)) from None


def _is_within(path: str, directory: str) -> bool:
    try:
        return os.path.commonpath([path, directory]) == directory
    except ValueError:  # two drives on Windows
        return False


def find_lines(data: bytes, paths: Iterable[DocumentPath]) -> list[int | None]:
    """Return, for each path, the line of that part of a YAML text, or of the nearest part around it.

    One pass that keeps only what is needed: files may be large, and only errors need lines.
    """
    requested = list(paths)
    root = _RequestedPart()
    for path in requested:
        root.add(path)
    walk = _LineWalk(root)
    try:
        for event in yaml.parse(data, Loader=LOADER):
            walk.take(event)
    except yaml.YAMLError:
        pass  # the text is damaged further on; the lines up to here are right
    return list(map(root.nearest, requested))


class _RequestedPart:
    """A part whose line is needed, or a part around one."""

    __slots__ = ("inner", "line")

    def __init__(self) -> None:
        self.line: int | None = None
        self.inner: dict[str | int, _RequestedPart] = {}

    def add(self, path: DocumentPath) -> None:
        part = self
        for key in path:
            part = part.inner.setdefault(key, _RequestedPart())

    def nearest(self, path: DocumentPath) -> int | None:
        part, line = self, self.line
        for key in path:
            part = part.inner[key]
            if part.line is None:
                break
            line = part.line
        return line


class _OpenNode:
    """An open list or mapping; `part` is None if no line in it is needed."""

    __slots__ = ("count", "is_mapping", "member", "part")

    def __init__(self, part: _RequestedPart | None, is_mapping: bool) -> None:
        self.part = part
        self.is_mapping = is_mapping
        self.count = 0
        self.member: _RequestedPart | None = None

    def next_part(self, event: Any) -> _RequestedPart | None:
        """Return the part that the next node is: an item, a key, or the value of the key before it."""
        self.count += 1
        if self.is_mapping and self.count % 2 == 0:
            return self.member
        key = getattr(event, "value", None) if self.is_mapping else self.count - 1
        part = self.part.inner.get(key) if self.part is not None and key is not None else None
        if part is not None and part.line is None:
            part.line = event.start_mark.line + 1  # a member has the line of its key
        self.member = part
        return None if self.is_mapping else part


class _LineWalk:
    def __init__(self, root: _RequestedPart) -> None:
        self._root = root
        self._stack: list[_OpenNode] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            self._stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            if self._stack:
                part = self._stack[-1].next_part(event)
            else:
                part = self._first(event)
            if isinstance(event, yaml.CollectionStartEvent):
                self._stack.append(_OpenNode(part, isinstance(event, yaml.MappingStartEvent)))

    def _first(self, event: Any) -> _RequestedPart:
        self._root.line = event.start_mark.line + 1
        return self._root
