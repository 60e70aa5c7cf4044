"""Documents: YAML and JSON from files that others wrote, as plain values with the lines they came from.

Whatever a file holds, reading it ends, stays within limits, and gives a value or an `InvalidFile`. A path that a file
names never leaves the directory it is confined to.
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
MAX_LINES_BYTES = 8 * 1024 * 1024  # in a larger file, a message without a line beats one that comes late

_BOM = b"\xef\xbb\xbf"


class Document:
    """A file's value, and the line each part of it stands on."""

    __slots__ = ("_text", "file", "value")

    def __init__(self, value: Json, *, file: str, text: bytes) -> None:
        self.value = value
        self.file = file
        self._text = text

    def line(self, path: DocumentPath = ()) -> int | None:
        """The line of the part at `path`, or of the nearest part around it; None when nothing is known."""
        return self.lines([path])[0]

    def lines(self, paths: Sequence[DocumentPath]) -> list[int | None]:
        """The line of each path. Looked up when asked for: only errors do, so a good file never pays."""
        if len(self._text) > MAX_LINES_BYTES:
            return [None] * len(paths)
        if _is_json(self.file):
            return [line_of(self._text, path) for path in paths]
        return find_lines(self._text, paths)

    def error(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> InvalidFile:
        """The error that says what is wrong with the part at `path`, and where that is."""
        return InvalidFile(message, file=self.file, line=self.line(path), hint=hint)


def load_document(path: FilePath, *, limit_bytes: int = MAX_BYTES) -> Document:
    """The document in a file; `InvalidFile` when it cannot be read or is not one."""
    return parse_document(read_bytes(path, limit_bytes=limit_bytes), os.fspath(path))


def parse_document(text: bytes | str, file: str, *, as_json: bool = False) -> Document:
    """The document in a text: JSON when the file's name or the caller says so, else YAML."""
    # Editors on Windows write a mark at the beginning that is no part of the text.
    data = _utf8(text, file).removeprefix(_BOM)
    if as_json or _is_json(file):
        value = _json(data, file)
    else:
        value = build_value(data, file)
    return Document(value, file=file, text=data)


def read_bytes(path: FilePath, *, limit_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file; `InvalidFile` for anything else, and for one that is too large."""
    name = os.fspath(path)
    try:
        found = os.stat(name)
        # A pipe or a device would block, or never end.
        if not stat.S_ISREG(found.st_mode):
            raise InvalidFile("not a regular file", file=name)
        if found.st_size > limit_bytes:  # before any of it is in memory
            raise InvalidFile(f"larger than {limit_bytes:,} bytes", file=name)
        with Path(name).open("rb") as stream:
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
    """The file a case means by a relative path; a `ValueError` says why it may not be used."""
    # Windows reads both kinds of slashes and drives too: so a case is refused on every system or on none.
    path = PureWindowsPath(text)
    if path.anchor:
        raise ValueError(f"{text!r} is an absolute path; expected one inside the case's directory")
    if ".." in path.parts:
        raise ValueError(f"{text!r} leaves the case's directory")
    if not text.strip() or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    file = directory / text
    # Without a link on the way, a path without `..` stays inside; this is the quick answer to most cases.
    steps = accumulate((os.fspath(directory), *Path(text).parts), os.path.join)
    if any(map(os.path.islink, steps)) and not _is_within(os.path.realpath(file), os.path.realpath(directory)):
        raise ValueError(f"{text!r} is a link that leaves the case's directory")
    return file


def confined_file(directory: Path, text: str) -> Path:
    """Return the file a case means by a relative path; `InvalidFile` says why it may not be used."""
    try:
        return confined_path(directory, text)
    except ValueError as error:
        raise InvalidFile(str(error), file=str(directory / text)) from None


def _is_within(path: str, directory: str) -> bool:
    try:
        return os.path.commonpath([path, directory]) == directory
    except ValueError:  # two drives of Windows
        return False


def find_lines(data: bytes, paths: Iterable[DocumentPath]) -> list[int | None]:
    """For each path the line of that part of a YAML text, or of the nearest part around it.

    One pass that keeps only what was asked for: files may be large, and only errors ask for lines.
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
        pass  # the text is damaged further on; what was found up to here is still true
    return list(map(root.nearest, requested))


class _RequestedPart:
    """A part that somebody asked for, or that lies around one."""

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
    """A list or mapping on the way; `part` is None when nobody asked for anything in it."""

    __slots__ = ("count", "is_mapping", "member", "part")

    def __init__(self, part: _RequestedPart | None, is_mapping: bool) -> None:
        self.part = part
        self.is_mapping = is_mapping
        self.count = 0
        self.member: _RequestedPart | None = None

    def next_part(self, event: Any) -> _RequestedPart | None:
        """The part that the next node inside is: an item, a key, or the value of the key before it."""
        self.count += 1
        if self.is_mapping and self.count % 2 == 0:
            return self.member
        key = getattr(event, "value", None) if self.is_mapping else self.count - 1
        part = self.part.inner.get(key) if self.part is not None and key is not None else None
        if part is not None and part.line is None:
            part.line = event.start_mark.line + 1  # a member stands where its key does
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
