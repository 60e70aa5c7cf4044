"""Large values, stored once by content and shared by all runs and forks that use them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec
import zstandard
from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.errors import CorruptStore
from replaykit.model.events import StoredEvent, encode_event
from replaykit.model.values import Raw
from replaykit.store.rows import compress, decompress, digest

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore

LARGE = 64 * 1024  # events above this size have their large fields stored separately
_FIELD = 16 * 1024  # size above which a field of such an event is large
_MARK = b'"$blobs":{'


class _References(Struct):
    """The part of a stored event that lists its separately stored fields."""

    blobs: dict[str, str] = field(default_factory=dict, name="$blobs")


_decode_one = msgspec.json.Decoder(_References).decode
_decode_many = msgspec.json.Decoder(list[_References]).decode
_decode_items = msgspec.json.Decoder(tuple[Raw, ...]).decode


def marked(body: bytes) -> bool:
    """Return whether the text of events may refer to blobs."""
    return b"$" in body and _MARK in body  # searching for a single byte first is many times faster


def externalise(
    db: sqlite3.Connection, run: int, event: StoredEvent, body: bytes, compressor: zstandard.ZstdCompressor
) -> bytes:
    """Move an event's large fields into blobs and return the remaining text. Call inside a transaction."""
    if len(body) <= LARGE:
        return body
    small: dict[str, object] = {}
    references: dict[str, str] = {}
    for info in msgspec.structs.fields(event):
        value = getattr(event, info.name)
        if info.name == "items_json" and value:
            text = b"[" + b",".join(map(bytes, value)) + b"]"
        else:
            text = value
        if isinstance(text, Raw | bytes) and len(text) > _FIELD:
            references[info.encode_name] = _put(db, run, bytes(text), compressor).hex()
            small[info.name] = info.default
    if not references:
        return body
    rest = encode_event(replace(event, **small))
    return rest[:-1] + b',"$blobs":' + msgspec.json.encode(references) + b"}"


def internalise(store: SQLiteStore, events: list[StoredEvent], body: bytes) -> list[StoredEvent]:
    """Return the events with their large fields restored."""
    references = _decode_many(body) if body[:1] == b"[" else [_decode_one(body)]
    return [
        _fill(store, event, reference.blobs) if reference.blobs else event
        for event, reference in zip(events, references, strict=True)
    ]


def _fill(store: SQLiteStore, event: StoredEvent, references: dict[str, str]) -> StoredEvent:
    names = {info.encode_name: info.name for info in msgspec.structs.fields(event)}
    values: dict[str, object] = {}
    for encoded, address in references.items():
        name = names.get(encoded, "")
        text = fetch(store, address)
        if not name.endswith("_json"):
            raise CorruptStore(f"no large field {encoded!r} in such an event", where=f"event {event.seq}")
        values[name] = _decode_items(text) if name == "items_json" else Raw(text)
    return replace(event, **values)


def _put(db: sqlite3.Connection, run: int, body: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
    address = digest(body)
    found = db.execute("SELECT n FROM blobs WHERE hash = ?", (address,)).fetchone()
    if found is None:
        cursor = db.execute(
            "INSERT INTO blobs (hash, size, data) VALUES (?, ?, ?)",
            (address, len(body), compress(body, compressor)),
        )
        found = (cursor.lastrowid,)
    db.execute("INSERT OR IGNORE INTO uses VALUES (?, ?)", (run, *found))
    return address


def release(db: sqlite3.Connection, run: int) -> None:
    """Delete a run's references to blobs, and the blobs that no other run uses. Call inside a transaction."""
    db.execute(
        "DELETE FROM blobs WHERE n IN (SELECT blob FROM uses WHERE run = ?)"
        " AND n NOT IN (SELECT blob FROM uses WHERE run <> ?)",
        (run, run),
    )
    db.execute("DELETE FROM uses WHERE run = ?", (run,))


def fetch(store: SQLiteStore, address: str) -> bytes:
    """Return the value at an address, or raise `CorruptStore`."""
    where = f"blob {address}"
    try:
        rows = store.query("SELECT size, data FROM blobs WHERE hash = ?", bytes.fromhex(address))
    except ValueError:
        raise CorruptStore("not an address", where=where) from None
    if not rows:
        raise CorruptStore("the blob is gone", where=where)
    return check(where, bytes.fromhex(address), *rows[0])


def check(where: str, address: bytes, size: int, data: object) -> bytes:
    """Return the value of a blob's row, verified against its address."""
    if not isinstance(data, bytes):
        raise CorruptStore("the row is damaged", where=where)
    body = decompress(data, where)
    if len(body) != size or digest(body) != address:
        raise CorruptStore("the content does not match its address", where=where)
    return body
