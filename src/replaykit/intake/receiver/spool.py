"""The spool: spans on disk until their trace is complete, packed by request and trace.

Ids and times are stored apart from texts. Only the texts are redacted, so no redactor can break the links between
spans.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from msgspec import Struct

from replaykit.config import make_home
from replaykit.errors import CorruptStore, FormatTooNew, StoreError
from replaykit.formats.otel import by_trace
from replaykit.formats.spans.span import Span, SpanEvent
from replaykit.model.values import Json, JsonObject
from replaykit.private_files import make_file
from replaykit.store.rows import compress, decompress, seal, unseal
from replaykit.store.schema import BUSY_TIMEOUT_S, translate
from replaykit.store.untrusted_files import check_definitions, distrust

Clean = Callable[[bytes], bytes]
"""Returns JSON text without its secrets."""

_Head = tuple[str, str, str, int, int, bool, bool, tuple[int, ...]]
# A number comes first: a list of lists that begin with a text looks like headers, which the redactor checks singly.
_SpanContent = tuple[int, str, str, str, JsonObject, list[tuple[JsonObject, str, Json]]]


class _Content(msgspec.Struct, frozen=True):
    """The texts of spans, which are redacted."""

    resources: list[JsonObject]
    spans: list[_SpanContent]


_encode_json = msgspec.json.Encoder().encode
_decode_heads = msgspec.json.Decoder(list[_Head]).decode
_decode_content = msgspec.json.Decoder(_Content).decode


def as_it_is(text: bytes) -> bytes:
    """Return the text unredacted."""
    return text


def pack(spans: list[Span], clean: Clean) -> bytes:
    """Pack spans into bytes."""
    resources: dict[int, tuple[int, JsonObject]] = {}  # spans of one request share the object
    heads: list[_Head] = []
    contents: list[_SpanContent] = []
    for span in spans:
        number, _ = resources.setdefault(id(span.resource), (len(resources), span.resource))
        times = tuple(happening.at_ns for happening in span.happenings)
        heads.append(
            (span.trace, span.id, span.parent, span.started_ns, span.ended_ns, span.failed, span.is_aside, times)
        )
        moments = [(happening.attributes, happening.name, happening.body) for happening in span.happenings]
        contents.append((number, span.name, span.message, span.scope, span.attributes, moments))
    head = _encode_json(heads)
    content = clean(_encode_json({"resources": [resource for _, resource in resources.values()], "spans": contents}))
    return b"%d\n%b%b" % (len(head), head, content)


def unpack(body: bytes) -> list[Span]:
    """Return the spans that `pack` was given; raise `ValueError` or `msgspec.MsgspecError` for other bytes."""
    size, _, rest = body.partition(b"\n")
    heads, content = _decode_heads(rest[: int(size)]), _decode_content(rest[int(size) :])
    return [
        _span(head, span_content, content.resources) for head, span_content in zip(heads, content.spans, strict=True)
    ]


def _span(head: _Head, content: _SpanContent, resources: list[JsonObject]) -> Span:
    trace, span_id, parent, started_ns, ended_ns, failed, is_aside, times = head
    number, name, message, scope, attributes, moments = content
    return Span(
        trace=trace,
        id=span_id,
        parent=parent,
        name=name,
        started_ns=started_ns,
        ended_ns=ended_ns,
        failed=failed,
        message=message,
        attributes=attributes,
        happenings=tuple(
            SpanEvent(name=what, at_ns=at_ns, attributes=event_attributes, body=body)
            for at_ns, (event_attributes, what, body) in zip(times, moments, strict=True)
        ),
        scope=scope,
        resource=resources[number],
        is_aside=is_aside,
    )


SPOOL_FORMAT = 1
APPLICATION_ID = 0x52504B4F  # "RPKO"
MAX_TRACE_BYTES = 64 * 1024 * 1024
"""The limit of one trace, unpacked: a program that never ends its trace must not fill disk or memory."""

_TABLES = """
CREATE TABLE parts (n INTEGER PRIMARY KEY, trace TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX parts_by_trace ON parts (trace);
CREATE TABLE traces (
    trace TEXT PRIMARY KEY, seen REAL NOT NULL, last INTEGER NOT NULL, made INTEGER NOT NULL, state INTEGER NOT NULL,
    size INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX traces_to_do ON traces (seen) WHERE last > made;
CREATE INDEX traces_done ON traces (seen) WHERE last = made;
"""


class TraceState(IntEnum):
    """The state of a trace."""

    OPEN = 0
    ROOTED = 1  # its root has ended, so it may be complete
    LACKING = 2  # its root has ended, but something is missing
    CLOSED = 3  # its spans were deleted, so its run cannot change any more


class SpoolResult(Struct, frozen=True, kw_only=True):
    """The result of adding spans."""

    traces: int = 0
    """The number of new traces."""
    refused: int = 0
    problem: str = ""


class Due(Struct, frozen=True):
    """A trace to turn into a run."""

    trace: str
    is_quiet: bool
    """True if nothing came for so long that missing spans are given up."""


class Spool:
    """Spans on disk. For use in one thread; several processes may share the file."""

    def __init__(self, path: Path, *, clean: Clean = as_it_is, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clean = clean
        self._clock = clock
        self._compressor = zstandard.ZstdCompressor(level=1)
        try:
            self._db = _connect(path)
        except sqlite3.Error as error:
            raise translate(error, str(path)) from None

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def keep(self, spans: Iterable[Span]) -> SpoolResult:
        """Write spans in one transaction; spans of closed and oversized traces are refused and counted."""
        bodies = [(trace, held, pack(held, self._clean)) for trace, held in by_trace(spans).items()]
        fresh, refused, problem = 0, 0, ""
        with self._transaction() as db:
            number: int = db.execute("SELECT ifnull(max(n), 0) FROM parts").fetchone()[0]
            for trace, held, body in bodies:
                row = db.execute("SELECT state, size FROM traces WHERE trace = ?", (trace,)).fetchone()
                why = _refusal(trace, row or (TraceState.OPEN, 0), len(body))
                if why:
                    refused, problem = refused + len(held), problem or why
                    continue
                fresh += row is None
                number += 1
                frame = seal(number, compress(body, self._compressor))
                db.execute("INSERT INTO parts VALUES (?, ?, ?)", (number, trace, frame))
                state = TraceState.ROOTED if any(map(_is_ended_root, held)) else TraceState.OPEN
                db.execute(_ENTER, (trace, self._clock(), number, state, len(body)))
        return SpoolResult(traces=fresh, refused=refused, problem=problem)

    def due(self, quiet_s: float, limit: int = 100) -> list[Due]:
        """Return the traces that have been quiet for that time, and those that may be complete."""
        now = self._clock()
        rows = self._rows(
            # Seen after now: the clock was set back.
            "SELECT trace, is_quiet FROM (SELECT *, seen <= ? OR seen > ? AS is_quiet FROM traces WHERE last > made)"
            " WHERE is_quiet OR state = 1 ORDER BY seen LIMIT ?",
            now - quiet_s,
            now,
            limit,
        )
        return [Due(trace, bool(is_quiet)) for trace, is_quiet in rows]

    def spans(self, trace: str) -> tuple[list[Span], int]:
        """Return all spans of a trace, and the number of their last part."""
        spans: list[Span] = []
        last = 0
        for number, data in self._rows("SELECT n, body FROM parts WHERE trace = ? ORDER BY n", trace):
            where = f"{self.path}, part {number}"
            try:
                spans += unpack(decompress(unseal(number, data, where), where))
            except (ValueError, IndexError, msgspec.MsgspecError) as error:
                raise CorruptStore(f"not spans ({error})", where=where) from None
            last = number
        return spans, last

    def settle(self, trace: str, last: int) -> bool:
        """Note that all parts up to this one are in the trace's run; true for the first time."""
        with self._transaction() as db:
            row = db.execute("SELECT made FROM traces WHERE trace = ?", (trace,)).fetchone()
            db.execute("UPDATE traces SET made = max(made, ?) WHERE trace = ?", (last, trace))
        return row is not None and row[0] == 0

    def wait(self, trace: str) -> None:
        """Note that spans are missing: the trace is due again when more come, or when it is quiet."""
        self._write(
            "UPDATE traces SET state = ? WHERE trace = ? AND state = ?", TraceState.LACKING, trace, TraceState.ROOTED
        )

    def give_up(self, trace: str) -> None:
        """Note that the parts so far cannot become a run."""
        self._write("UPDATE traces SET made = last WHERE trace = ?", trace)

    def forget(self, spans_s: float, names_s: float) -> None:
        """Delete the spans of traces that were finished so long ago, and later the traces themselves."""
        now = self._clock()
        with self._transaction() as db:
            old = "SELECT trace FROM traces WHERE last = made AND seen <= ? AND state != 3 LIMIT 1000"
            for (trace,) in db.execute(old, (now - spans_s,)).fetchall():
                db.execute("DELETE FROM parts WHERE trace = ?", (trace,))
                db.execute("UPDATE traces SET state = 3, size = 0 WHERE trace = ?", (trace,))
            db.execute("DELETE FROM traces WHERE last = made AND seen <= ? AND state = 3", (now - names_s,))

    def waiting(self) -> int:
        """Return the number of traces that are not yet runs."""
        return int(self._rows("SELECT count(*) FROM traces WHERE last > made")[0][0])

    def _rows(self, sql: str, *parameters: object) -> list[Any]:
        try:
            return self._db.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise translate(error, str(self.path)) from None

    def _write(self, sql: str, *parameters: object) -> None:
        with self._transaction() as db:
            db.execute(sql, parameters)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise translate(error, str(self.path)) from None


_ENTER = """
INSERT INTO traces VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (trace) DO UPDATE SET seen = excluded.seen,
    last = excluded.last, state = max(min(state, 1), excluded.state), size = size + excluded.size
"""


def _refusal(trace: str, known: tuple[int, int], size: int) -> str:
    state, held = known
    if state == TraceState.CLOSED:
        return f"trace {trace} is closed: its run was made long ago"
    if held + size > MAX_TRACE_BYTES:
        return f"trace {trace} is too large: {MAX_TRACE_BYTES:,} bytes of it are here already"
    return ""


def _is_ended_root(span: Span) -> bool:
    return not span.parent and not span.is_aside and span.ended_ns > 0


def _connect(path: Path) -> sqlite3.Connection:
    try:
        make_home(path.parent, files=(f"{path.name}*",))
        make_file(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from None
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S)
    try:
        # Damaged text must not raise here: the checksums report it.
        db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        distrust(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # an acknowledged span survives kill -9
        _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")
    tables, application, version = (
        db.execute(sql).fetchone()[0]
        for sql in ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
    )
    if tables == 0:
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SPOOL_FORMAT}")
    elif application != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not a spool of ReplayKit")
    elif version > SPOOL_FORMAT:
        raise FormatTooNew(f"{path} was written by a newer ReplayKit")
    check_definitions(db, _TABLES, what="spool", where=str(path))
    db.execute("COMMIT")


def spool_beside(store: Path) -> Path:
    """Return the path of a store's spool; two stores in one directory have two."""
    return store.with_name(f"{store.stem}-otlp.db")
