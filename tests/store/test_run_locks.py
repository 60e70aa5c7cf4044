"""Who is being written: known from other stores and processes, and forgotten with the process that wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.store.run_locks import running_numbers
from replaykit.store.summaries import contents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of open files are Linux's")

WAITS = """
import sys
import replaykit as rk
with rk.Store.open(sys.argv[1]) as store, rk.record("waits", store=store) as run:
    print(run.id, flush=True)
    sys.stdin.read()
"""


def started(path: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def alive(path: Path) -> dict[str, bool]:
    with rk.Store.open(path, read_only=True) as store:
        return {run.id: run.alive for run in contents(store).runs}


def test_a_run_is_alive_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.Store.open(path) as store:
        with rk.record("a", store=store) as first:
            assert alive(path) == {first.id: True}
            with rk.Store.open(path) as other:  # closing a second store of this process lets go of nothing
                other.begin(rk.TraceRun(id="second"))
            assert alive(path) == {first.id: True, "second": False}
        assert alive(path) == {first.id: False, "second": False}


def test_a_killed_recorder_leaves_its_run_abandoned(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    process, run_id = started(path)
    assert alive(path) == {run_id: True}

    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    assert alive(path) == {run_id: False}


def test_a_deleted_run_is_let_go_of(tmp_path: Path) -> None:
    with rk.Store.open(tmp_path / "store.db") as store:
        store.begin(rk.TraceRun(id="a"))
        assert running_numbers(store.path, [1]) == {1}
        store.delete(["a"])
        assert running_numbers(store.path, [1]) == set()


def test_without_locks_every_run_without_an_end_counts_as_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rk.Store.open(tmp_path / "store.db") as store:
        store.begin(rk.TraceRun(id="a"))
    monkeypatch.setattr("replaykit.store.run_locks._HAS_LOCKS", False)
    assert alive(tmp_path / "store.db") == {"a": True}


def test_a_run_whose_input_speaks_of_a_status_is_still_alive(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.record("a", input={"status": "error"}, store=path) as run:
        assert alive(path) == {run.id: True}
