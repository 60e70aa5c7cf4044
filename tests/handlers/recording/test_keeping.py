"""Sampling of successful runs: decided at the end, by the id; whatever went wrong is kept whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.handlers.recording import automatic_pruning
from replaykit.handlers.recording.sampling import is_kept
from replaykit.model.run import RunHeader, RunStatus


def header(run_id: str, status: RunStatus = RunStatus.SUCCESS, tags: tuple[str, ...] = ()) -> RunHeader:
    return RunHeader(id=run_id, status=status, tags=tags)


@given(st.text(min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_keeps_whatever_a_smaller_one_does(run_id: str, first: float, second: float) -> None:
    small, large = sorted((first, second))
    run = header(run_id.encode("utf-8", "replace").decode())
    assert is_kept(run, large) or not is_kept(run, small)
    assert is_kept(run, 1)
    assert not is_kept(run, 0)
    assert is_kept(run, small) == is_kept(run, small)


def test_a_share_keeps_about_that_many() -> None:
    kept = sum(is_kept(header(f"20260215-143200-{number:010x}"), 0.1) for number in range(10_000))
    assert 900 < kept < 1100


@pytest.mark.parametrize("status", [status for status in RunStatus if status is not RunStatus.SUCCESS])
def test_whatever_did_not_succeed_is_kept(status: RunStatus) -> None:
    assert is_kept(header("a", status), 0)
    assert is_kept(header("a", tags=("keep",)), 0)


def test_a_successful_run_leaves_nothing_and_a_failed_one_everything(store: rk.Store) -> None:
    with rk.record("fine", store=store, sample=0) as run:
        run.note("large", os.urandom(50_000).hex())
        assert store.header(run.id).status is RunStatus.RUNNING  # it is on disk while it runs
    with pytest.raises(RuntimeError), rk.record("bad", store=store, sample=0) as failed:
        failed.note("before")
        raise RuntimeError("no")

    assert [one.id for one in store.headers()] == [failed.id]
    assert len(store.load(failed.id).events) == 1
    for table in ("events", "packs", "blobs", "uses"):
        assert store.query(f"SELECT count(*) FROM {table}") == [(1 if table == "packs" else 0,)]


def test_the_space_of_dropped_runs_is_used_again(store: rk.Store) -> None:
    def pages() -> int:
        return int(store.query("PRAGMA page_count")[0][0])

    def dropped() -> None:
        with rk.record("fine", store=store, sample=0) as run:
            run.note("large", os.urandom(30_000).hex())

    dropped()
    before = pages()
    for _ in range(30):
        dropped()
    assert pages() <= before + 2


def test_decorated_agents_are_sampled_too(store: rk.Store) -> None:
    @rk.record("agent", store=store, sample=0)
    def agent(question: str) -> str:
        if question == "bad":
            raise ValueError(question)
        return question

    agent("good")
    with pytest.raises(ValueError, match="bad"):
        agent("bad")
    assert [one.status for one in store.headers()] == [RunStatus.ERROR]


def test_the_environment_says_it_where_the_call_does_not(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_SAMPLE", "0")
    with rk.record("dropped", store=store):
        pass
    with rk.record("kept", store=store, sample=1):
        pass
    assert [one.name for one in store.headers()] == ["kept"]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match=r"from 0 \(none\) to 1 \(all\)"):
        rk.record("x", sample=share)


@pytest.mark.parametrize("share", ["many", True])
def test_a_share_that_is_no_number_is_refused(share: object) -> None:
    with pytest.raises(UsageError, match="as `sample`"):
        rk.record("x", sample=share)  # type: ignore[arg-type]


def test_a_share_in_the_environment_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_SAMPLE", "lots")
    with pytest.raises(UsageError, match="REPLAYKIT_SAMPLE='lots'"):
        rk.record("x")


KILLED = """
import os, signal, sys
import replaykit as rk
with rk.record("killed", store=sys.argv[1], sample=0) as run:
    run.note("before")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_is_kept(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "store.db")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    with rk.Store.open(tmp_path / "store.db") as store:
        assert [len(store.load(one.id).events) for one in store.headers()] == [1]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The stores for which a pruning would have been started."""
    started: list[Path] = []
    monkeypatch.setattr(automatic_pruning, "_start", started.append)
    return started


def record_one() -> None:
    with rk.record("x", store="store.db"):
        pass


def test_a_recording_starts_a_pruning_at_most_once_a_day(commands: list[Path]) -> None:
    record_one()
    assert commands == []
    Path("replaykit.yaml").write_text("replaykit: 1\nretention: {auto: true}\n")
    record_one()
    record_one()
    assert commands == [Path("store.db")]
    os.utime("store.db-pruned", (1, 1))
    record_one()
    assert len(commands) == 2


def test_what_goes_wrong_with_it_is_no_error_of_the_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\nretention: {auto: true}\n")

    def refused(store: Path) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(automatic_pruning, "_start", refused)
    record_one()
    Path("store.db-pruned").unlink()
    Path("replaykit.yaml").unlink()
    Path("replaykit.yaml").mkdir()
    record_one()


def test_only_a_python_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: started.append(args))
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    automatic_pruning._start(Path("store.db"))
    assert started == []


def test_the_process_that_is_started_prunes(own_directory: Path, ended: Callable[[], None]) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\nretention: {auto: true, successful: 0}\n")
    record_one()
    ended()
    with rk.Store.open("store.db") as store:
        assert store.headers() == []


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits for the processes that were started."""
    popen, processes = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def start(*args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        processes.append(popen(*args, **kwargs))  # type: ignore[call-overload]
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)

    def wait() -> None:
        assert [process.wait(timeout=60) for process in processes] == [0]

    return wait
