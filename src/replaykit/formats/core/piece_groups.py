"""Group the lines of a file by key, in little memory however large the file is.

Of a large file that can be read again, only the positions of its lines are kept. Lines of packed files and pipes move,
beyond a budget, to an unnamed temporary file: no other process can open it, and it ends with this one.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import BinaryIO

from replaykit.errors import InvalidFile

BUDGET = 64 * 1024 * 1024
_AT_ONCE = 512
_OVERHEAD = 120  # Python's overhead for a piece, in bytes

Piece = tuple[bytes, int, int]
"""A line or a part of one, its number, and a note of the caller."""


class PieceGroups:
    """Takes pieces by key; returns the pieces of each key in line order, keys in the order of their first piece."""

    def __init__(self, file: str, budget: int = BUDGET, *, original: BinaryIO | None = None) -> None:
        self._name = file
        self._budget = budget
        self._held: dict[str, list[Piece]] = {}
        self._size = 0
        # Four numbers for each piece on disk: offset, size, line, note.
        self._spilled: dict[str, array[int]] = {}
        self._file: BinaryIO | None = None
        self._placed: dict[str, array[int]] = {}  # the same numbers for pieces in the original file
        self._original = original
        if original is None:
            self._state = None
        else:
            self._state = _state(os.fstat(original.fileno()))
        self.reads_again = self._state is not None and self._state[2] > budget
        """True if pieces may be added by their offset in the original file."""

    def __enter__(self) -> PieceGroups:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._file, self._original):
            if file is not None:
                file.close()

    def add(self, key: str, text: bytes, line: int, note: int = 0) -> None:
        pieces = self._held.get(key)
        if pieces is None:
            pieces = self._held[key] = []
        pieces.append((text, line, note))
        self._size += len(text) + _OVERHEAD
        if self._size > self._budget:
            try:
                self._spill()
            except OSError as error:
                raise self._no_room(error) from None

    def add_place(self, key: str, place: int, size: int, line: int, note: int = 0) -> None:
        """Add a piece that is read from the original file when its group is."""
        places = self._placed.get(key)
        if places is None:
            if not self._placed:
                self._check_named()
            places = self._placed[key] = array("Q")
        places.extend((place, size, line, note))

    def holds(self, key: str) -> bool:
        """Return whether there are pieces of that key that `groups` has not returned yet."""
        return key in self._held or key in self._spilled or key in self._placed

    def groups(self) -> Iterator[tuple[str, list[Piece]]]:
        """Yield each key with its pieces, and forget them."""
        for key in list(dict.fromkeys(chain(self._placed, self._spilled, self._held))):
            parts = [
                self._read(self._original, self._placed.pop(key, None)),
                self._read(self._file, self._spilled.pop(key, None)),
                self._held.pop(key, []),
            ]
            filled_parts = [part for part in parts if part]
            yield (
                key,
                filled_parts[0] if len(filled_parts) == 1 else sorted(chain.from_iterable(filled_parts), key=_line),
            )

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the gathering)
        place = self._file.seek(0, os.SEEK_END)
        for key, pieces in self._held.items():
            places = self._spilled.setdefault(key, array("Q"))
            for text, line, note in pieces:
                places.extend((place, len(text), line, note))
                place += len(text)
        _write(self._file.fileno(), [text for pieces in self._held.values() for text, _line, _note in pieces])
        self._held.clear()
        self._size = 0

    def _read(self, file: BinaryIO | None, places: array[int] | None) -> list[Piece]:
        if places is None or file is None:
            return []
        number = file.fileno()
        numbers = iter(places)
        pieces: list[Piece] = []
        for place, size, line, note in zip(numbers, numbers, numbers, numbers, strict=True):
            text = os.pread(number, size, place)
            if len(text) != size:
                raise self._changed() if file is self._original else self._lost(line)
            pieces.append((text, line, note))
        if file is self._original and not self._holds_still(os.fstat(number)):
            raise self._changed()
        return pieces

    def _check_named(self) -> None:
        """Check that the file that is read line by line is the one that was opened here, and was not replaced since."""
        try:
            is_same = self._holds_still(os.stat(self._name))
        except OSError:
            is_same = False
        if not is_same:
            raise self._changed()

    def _holds_still(self, status: os.stat_result) -> bool:
        """Return whether this is the file that was opened; it may have grown, as files of collectors do."""
        now, before = _state(status), self._state
        return before is not None and now[:2] == before[:2] and (now[2] > before[2] or now == before)

    def _changed(self) -> InvalidFile:
        hint = f"Import it when it is complete, or import what it holds now: replaykit import - < {self._name}"
        return InvalidFile("changed while it was read", file=self._name, hint=hint)

    def _lost(self, line: int) -> InvalidFile:
        return InvalidFile("its temporary copy cannot be read", file=self._name, line=line)

    def _no_room(self, error: OSError) -> InvalidFile:
        reason = f"too large to combine in memory, and no room on disk: {error.strerror or error}"
        return InvalidFile(reason, file=self._name, hint="TMPDIR names the directory for temporary files.")


def _line(piece: Piece) -> int:
    return piece[1]


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return what identifies a file and its version."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _write(file: int, texts: list[bytes]) -> None:
    for first in range(0, len(texts), _AT_ONCE):
        batch = texts[first : first + _AT_ONCE]
        written = os.writev(file, batch)
        if written < sum(map(len, batch)):  # a disk that is nearly full accepts a part, then nothing
            unwritten = memoryview(b"".join(batch))[written:]
            while unwritten:
                unwritten = unwritten[os.write(file, unwritten) :]
