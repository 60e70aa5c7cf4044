"""Database files from untrusted sources, opened as SQLite recommends and read only if their schema is the expected one.

Views and triggers are programs, and an endless one would hang the reader. The schema is therefore compared before any
table is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from replaykit.errors import CorruptStore

_SETTINGS = (
    "PRAGMA trusted_schema = OFF",  # the schema may call only harmless functions
    "PRAGMA cell_size_check = ON",  # detect damage when a page is read, not later
    "PRAGMA mmap_size = 0",  # with mmap, truncating the file meanwhile would crash the process
)
_INTERNAL = "sqlite_"


def distrust(db: sqlite3.Connection) -> None:
    """Treat the file's schema as untrusted."""
    for setting in _SETTINGS:
        db.execute(setting)


def check_definitions(db: sqlite3.Connection, statements: str, *, what: str, where: str) -> None:
    """Raise `CorruptStore` unless the schema consists of exactly these statements."""
    problem = next(_problems(db, statements), "")
    if problem:
        raise CorruptStore(
            f"these are not the tables of a {what}: {problem}",
            where=where,
            hint="See what is left: replaykit store verify --repair",
        )


def _problems(db: sqlite3.Connection, statements: str) -> Iterator[str]:
    expected = {_name(sql): _plain(sql) for sql in statements.split(";") if sql.strip()}
    found = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    for kind, name, sql in found:
        if kind not in ("table", "index"):
            yield f"`{name}` is a {kind}"
        elif not _is_expected(kind, name, sql or "", expected):
            yield f"the {kind} `{name}` is defined in another way"
    for name in expected.keys() - {row[1] for row in found}:
        yield f"`{name}` is missing"


def _is_expected(kind: str, name: str, sql: str, expected: Mapping[str, str]) -> bool:
    if name.startswith(_INTERNAL):  # SQLite's own: AUTOINCREMENT counter, implicit indexes, statistics
        return not sql or sql.startswith(f"CREATE {kind.upper()} {_INTERNAL}")
    return _plain(sql) == expected.get(name)


def _name(sql: str) -> str:
    """Return the name in `CREATE TABLE name (…)` or `CREATE INDEX name ON …`."""
    return sql.split()[2]


def _plain(sql: str) -> str:
    return " ".join(sql.split())
