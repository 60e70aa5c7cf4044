"""Files of JSON lines that may come from anybody: regular files, with lines up to a limit."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TypeVar

import msgspec

from replaykit.documents.document import MAX_BYTES, FilePath
from replaykit.errors import InvalidFile, StoreError
from replaykit.model.nesting import check_nesting

T = TypeVar("T")


@contextmanager
def open_regular(file: FilePath) -> Iterator[IO[bytes]]:
    """Open a regular file; raise `InvalidFile` for anything else, and `StoreError` if it cannot be read."""
    name = os.fspath(file)
    try:
        with open(name, "rb", opener=_open_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise InvalidFile("not a regular file", file=name)
            yield stream
    except OSError as error:
        raise StoreError(f"{name} cannot be read: {error.strerror}") from None


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # opening a pipe would wait for its other end


def lines_in(stream: IO[bytes], file: FilePath) -> Iterator[bytes]:
    """Yield the lines of an open file; raise `InvalidFile` at one that is too long to be held in memory."""
    number = 0
    while line := stream.readline(MAX_BYTES + 1):
        number += 1
        if len(line) > MAX_BYTES:
            raise InvalidFile(f"the line is longer than {MAX_BYTES:,} bytes", file=os.fspath(file), line=number)
        yield line


def first_line(file: FilePath) -> bytes:
    """Return the first line of a file; empty if it has none."""
    with open_regular(file) as stream:
        return next(lines_in(stream, file), b"")


def decode_line(line: bytes, kind: type[T]) -> T:
    """Decode a line; raise what `msgspec.json.decode` raises, also if it is nested too deeply or is not UTF-8."""
    check_nesting(line)
    try:
        return msgspec.json.decode(line, type=kind)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8 text: {error.reason}") from None
