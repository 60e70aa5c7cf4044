"""Large values: kept once, by their content, and shared by every run and fork that holds them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.errors import CorruptStore
from replaykit.model.events import StoredEvent, encode_event
from replaykit.model.values import Raw
from replaykit.store.rows import compress, decompress, digest

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore

LARGE = 64 * 1024  # an event above this has its large fields kept apart
_FIELD = 16 * 1024  # which fields of such an event are large
_MARK = b'"$blobs":{'


class _References(Struct):
    """The part of a stored event that says which of its fields are kept apart."""

    blobs: dict[str, str] = field(default_factory=dict, name="$blobs")


_decode_one = msgspec.json.Decoder(_References).decode
_decode_many = msgspec.json.Decoder(list[_References]).decode
_decode_items = msgspec.json.Decoder(tuple[Raw, ...]).decode


def marked(body: bytes) -> bool:
    """True when the text of events may name blobs."""
    return b"$" in body and _MARK in body  # a single byte is found many times faster


def externalise(db: sqlite3.Connection, run: int, event: StoredEvent, body: bytes) -> bytes:
    """The event's text with its large fields put into blobs, inside a transaction."""
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
            references[info.encode_name] = _put(db, run, bytes(text)).hex()
            small[info.name] = info.default
    if not references:
        return body
    rest = encode_event(replace(event, **small))
    return rest[:-1] + b',"$blobs":' + msgspec.json.encode(references) + b"}"


def internalise(store: SQLiteStore, events: list[StoredEvent], body: bytes) -> list[StoredEvent]:
    """The events with the fields put back that `externalise` took out."""
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


def _put(db: sqlite3.Connection, run: int, body: bytes) -> bytes:
    address = digest(body)
    found = db.execute("SELECT n FROM blobs WHERE hash = ?", (address,)).fetchone()
    if found is None:
        cursor = db.execute(
            "INSERT INTO blobs (hash, size, data) VALUES (?, ?, ?)",
            (address, len(body), compress(body)),
        )
        found = (cursor.lastrowid,)
    db.execute("INSERT OR IGNORE INTO uses VALUES (?, ?)", (run, *found))
    return address


def release(db: sqlite3.Connection, run: int) -> None:
    """Let go of a run's blobs, and of those that nobody else holds for good; inside a transaction."""
    db.execute(
        "DELETE FROM blobs WHERE n IN (SELECT blob FROM uses WHERE run = ?)"
        " AND n NOT IN (SELECT blob FROM uses WHERE run <> ?)",
        (run, run),
    )
    db.execute("DELETE FROM uses WHERE run = ?", (run,))


def fetch(store: SQLiteStore, address: str) -> bytes:
    """The value at this address, or CorruptStore."""
    where = f"blob {address}"
    try:
        rows = store.query("SELECT size, data FROM blobs WHERE hash = ?", bytes.fromhex(address))
    except ValueError:
        raise CorruptStore("not an address", where=where) from None
    if not rows:
        raise CorruptStore("the blob is gone", where=where)
    return check(where, bytes.fromhex(address), *rows[0])


def check(where: str, address: bytes, size: int, data: object) -> bytes:
    """The value in a blob's row, verified against its address."""
    if not isinstance(data, bytes):
        raise CorruptStore("the row is damaged", where=where)
    body = decompress(data, where)
    if len(body) != size or digest(body) != address:
        raise CorruptStore("the content does not match its address", where=where)
    return body
