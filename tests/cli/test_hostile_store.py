"""A store is data: whatever a stranger's file defines, every verb says quickly that it is none."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.commands import Ran

import replaykit as rk
from replaykit.errors import CorruptStore
from replaykit.intake.receiver.spool import Spool

ENDLESS = "WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless) SELECT"
COLUMNS = "n, 'x' AS id, 'x' AS name, 'error' AS status, 0.0 AS started_at, x'' AS header"
VIEW = f"CREATE VIEW runs AS {ENDLESS} {COLUMNS} FROM endless"
CHANGES = {
    "a view in the place of a table": ["DROP TABLE runs", VIEW],
    "a view beside the tables": [f"CREATE VIEW more AS {ENDLESS} n FROM endless"],
    "a trigger": [f"CREATE TRIGGER waits AFTER INSERT ON runs BEGIN {ENDLESS} n FROM endless; END"],
    "a virtual table": ["DROP TABLE blobs", "CREATE VIRTUAL TABLE blobs USING fts5(hash, size, data)"],
    "a computed column": [
        "DROP TABLE events",
        "CREATE TABLE events (key INTEGER PRIMARY KEY, data BLOB AS (zeroblob(1000000000)))",
    ],
    "an index on an expression": ["CREATE INDEX slow ON runs (hex(zeroblob(100000000)))"],
    "a missing table": ["DROP TABLE uses"],
}


@pytest.fixture
def endless() -> Path:
    """A store whose `runs` never end."""
    rk.Store.open(".replaykit/store.db").close()
    change(Path(".replaykit/store.db"), *CHANGES["a view in the place of a table"])
    return Path(".replaykit/store.db")


def change(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


LINES = (
    *("runs", "runs --json", "show x", "tree x", "checkpoints x", "compare x y", "export x", "stats", "verify"),
    *("golden x", "keep x", "prune", "prune --dry-run", "backup copy.db", "scaffold x --out cases/x", "serve --port 0"),
    *(
        "fork x --step step_1 --agent replaykit.demo:looping_agent --input y",
        "resume x --step step_1 --agent replaykit.demo:looping_agent",
        "record -- echo hi",
    ),
    *("redact x", "record --recover"),
)


@pytest.mark.usefixtures("endless")
def test_every_verb_names_a_store_that_is_none_at_once(replaykit: Callable[..., Ran]) -> None:
    begun = time.monotonic()

    for line in LINES:
        ran = replaykit(*line.split())
        assert ran.code == 3, (line, ran)
        assert "`runs` is a view" in ran.out + ran.err, (line, ran)

    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_has_the_tables_of_a_store_and_nothing_else(tmp_path: Path, what: str, read_only: bool) -> None:
    file = tmp_path / "store.db"
    rk.Store.open(file).close()
    change(file, *CHANGES[what])

    with pytest.raises(CorruptStore, match="not the tables of a store"):
        rk.Store.open(file, read_only=read_only)


def test_a_store_that_somebody_has_analysed_is_one(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    rk.Store.open(file).close()
    change(file, "ANALYZE")

    rk.Store.open(file).close()


def test_a_backup_with_a_view_is_not_restored(endless: Path, replaykit: Callable[..., Ran]) -> None:
    endless.rename("stranger.db")

    ran = replaykit("store", "restore", "stranger.db")

    assert (ran.code, "`runs` is a view" in ran.err) == (3, True), ran
    assert not endless.exists()


def test_a_spool_has_its_own_tables_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "spool.db"
    Spool(file).close()
    change(file, "DROP TABLE parts", f"CREATE VIEW parts AS {ENDLESS} n FROM endless")

    with pytest.raises(CorruptStore, match="`parts` is a view"):
        Spool(file)
