"""Rows found in raw pages: whatever SQLite wrote, in any size of page, whole or on overflow pages."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.store.image import BASE, Image
from replaykit.store.repair.cells import Cell, _written, cells, varint
from replaykit.store.repair.trees import named_runs

SIZES = [512, 1024, 4096, 65536]
KEYS = st.integers(1, 2**62)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.dictionaries(KEYS, st.tuples(INTEGERS, INTEGERS, INTEGERS, st.binary(max_size=9000)), max_size=12)


def found(path: Path, size: int | None = None) -> list[Cell]:
    with closing(Image(path, size)) as image:
        return [cell for page, version, data in image.versions() for cell in cells(image, page, version, data)]


def written(path: Path, rows: dict[int, tuple[object, ...]], size: int) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {size}")
        db.execute("CREATE TABLE t (key INTEGER PRIMARY KEY, a, b, c, data BLOB)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(key, *row) for key, row in rows.items()])
        db.execute("COMMIT")


@given(ROWS, st.sampled_from(SIZES))
def test_every_row_that_sqlite_wrote_is_found(rows: dict[int, tuple[object, ...]], size: int) -> None:
    path = Path("rows.db")
    written(path, rows, size)
    seen = {(cell.key, cell.columns[1:]) for cell in found(path) if len(cell.columns) == 5}
    assert seen >= set(rows.items())


@given(st.integers(0, 2**56 - 1), st.binary(max_size=5))
def test_numbers_are_read_as_they_are_written(value: int, after: bytes) -> None:
    text = _written(value)
    assert varint(text + after, 0) == (value, len(text))


@given(st.binary(max_size=12), st.integers(0, 20))
def test_a_number_past_the_end_is_no_error(data: bytes, at: int) -> None:
    value, end = varint(data, at)
    assert value >= 0
    assert end > at


@given(st.binary(max_size=3 * 512))
def test_whatever_the_bytes_are_there_is_no_error(data: bytes) -> None:
    path = Path("junk.db")
    path.write_bytes(data)
    for size in (512, None):
        for cell in found(path, size):
            assert 2 <= len(cell.columns) <= 6
        with closing(Image(path, size)) as image:
            named_runs(image)


def test_a_chain_of_pages_that_leads_back_to_itself_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    written(path, {1: (1, 2, 3, bytes(range(256)) * 20)}, 512)
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 512 + 1):
        data[(page - 1) * 512 : (page - 1) * 512 + 4] = struct.pack(">I", 3)
    path.write_bytes(data)
    assert [cell for cell in found(path) if cell.key == 1 and len(cell.columns) == 5] == []


def test_the_size_of_pages_is_what_the_file_says_and_else_what_is_usual(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    written(path, {}, 65536)
    assert Image.likely_sizes(path) == [65536, 4096]
    path.write_bytes(b"")
    assert Image.likely_sizes(path) == [4096]
    path.write_bytes(b"x" * 100)
    assert Image.likely_sizes(path) == [4096]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Path]:
    """A database whose rows are all in its log, one transaction each."""
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (key INTEGER PRIMARY KEY, a, b, c, data BLOB)")
        for key in range(1, 9):
            db.execute("INSERT INTO t VALUES (?, 1, 2, 3, ?)", (key, bytes([key]) * 100))
        yield path


def keys_in_force(path: Path) -> set[int]:
    """The rows in the newest version of each page."""
    with closing(Image(path)) as image:
        newest = [(number, frames[-1]) for number, frames in image.frames.items()]
        return {
            cell.key
            for number, frame in newest
            for cell in cells(image, number, frame, image.frame(frame))
            if len(cell.columns) == 5 and isinstance(cell.columns[4], bytes)
        }


def test_every_frame_of_a_whole_log_is_in_force(logged: Path) -> None:
    with closing(Image(logged)) as image:
        frames = sum(map(len, image.frames.values()))
        assert frames == (logged.with_name("log.db-wal").stat().st_size - 32) // (24 + 4096)
    assert keys_in_force(logged) == set(range(1, 9))


@pytest.mark.parametrize("place", [8, 12, 16, 20, 24 + 2000])
def test_damage_to_a_frame_costs_that_frame_alone(logged: Path, place: int) -> None:
    log = logged.with_name("log.db-wal")
    data = bytearray(log.read_bytes())
    frames = (len(data) - 32) // (24 + 4096)
    data[32 + (frames - 4) * (24 + 4096) + place] ^= 1
    log.write_bytes(data)
    assert keys_in_force(logged) == set(range(1, 9))  # each later frame has the rows of those before


def test_a_cut_off_log_is_read_up_to_its_last_whole_transaction(logged: Path) -> None:
    log = logged.with_name("log.db-wal")
    log.write_bytes(log.read_bytes()[: -(24 + 4096) - 100])
    assert keys_in_force(logged) == set(range(1, 7))


def test_frames_without_an_end_of_their_transaction_are_not_in_force(logged: Path) -> None:
    log = logged.with_name("log.db-wal")
    data = bytearray(log.read_bytes())
    last = len(data) - (24 + 4096)
    data[last + 4 : last + 8] = bytes(4)  # the mark that says that the transaction ends here
    log.write_bytes(data)
    assert keys_in_force(logged) == set(range(1, 8))
    assert BASE < 0
