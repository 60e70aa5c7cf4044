"""Rows: how headers and packs are written to and read from their tables."""

from __future__ import annotations

import sqlite3

import msgspec
import zstandard

from replaykit.errors import CorruptStore, RunExists
from replaykit.model.nesting import check_nesting
from replaykit.model.run import RunHeader
from replaykit.store.frames import checksum, compress, seal, unseal

_encode_header = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(RunHeader).decode


def insert_run(db: sqlite3.Connection, header: RunHeader) -> int:
    """Enter a run, inside a transaction; gives its number."""
    try:
        cursor = db.execute(
            "INSERT INTO runs (id, name, status, started_at, header) VALUES (?, '', '', 0, x'')", (header.id,)
        )
    except sqlite3.IntegrityError:
        raise RunExists(f"a run with the id {header.id!r} is in the store already") from None
    number = cursor.lastrowid or 0
    write_header(db, number, header)
    return number


def write_pack(
    db: sqlite3.Connection, key: int, bodies: list[bytes], first_seq: int, compressor: zstandard.ZstdCompressor
) -> None:
    """Write events as one pack, inside a transaction."""
    frame = compress(b"[" + b",".join(bodies) + b"]", compressor)
    crc = checksum(key, len(bodies), first_seq)  # a pack may be passed over without its data being read
    db.execute("INSERT INTO packs VALUES (?, ?, ?, ?, ?)", (key, len(bodies), first_seq, crc, seal(key, frame)))


def write_header(db: sqlite3.Connection, number: int, header: RunHeader) -> None:
    """Replace a run's header, inside a transaction."""
    db.execute(
        "UPDATE runs SET name = ?, status = ?, started_at = ?, header = ? WHERE n = ?",
        (header.name, header.status.value, header.started_at, seal(number, _encode_header(header)), number),
    )


def read_header(number: int, run_id: str, data: bytes) -> RunHeader:
    """A run's header from its row, checked."""
    where = f"run {run_id}, header"
    try:
        text = unseal(number, data, where)
        check_nesting(text)
        header = _decode_header(text)
    except msgspec.MsgspecError as error:
        raise CorruptStore(f"not a run header ({error})", where=where) from None
    if header.id != run_id:
        raise CorruptStore(f"the row says {run_id!r}, the header {header.id!r}", where=where)
    return header


def missing_events(run: str, first: int, end: int) -> CorruptStore:
    """The error for a hole in a run."""
    return CorruptStore(f"events {min(first, end)} to {max(first, end) - 1} are missing", where=f"run {run}")
