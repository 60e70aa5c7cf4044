"""A disk that is full: the agent goes on as if nobody recorded it, and the run says where the recording stopped."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.errors import RecordingWarning, StoreFull
from replaykit.handlers.recording.run import Run
from replaykit.model.run import RunHeader
from replaykit.model.values import raw
from replaykit.report.runs import run_text
from replaykit.store.sqlite import SQLiteStore

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))
from replaykit.cli import run
sys.exit(run(sys.argv[1:]))
"""
AGENT = """
import replaykit as rk

@rk.tool
def look(number):
    return "x" * 5000

print(sum(len(look(number)) for number in range(300)))
"""


@rk.tool
def look(size: int) -> str:
    return "".join(map(str, range(size)))


def fill(store: rk.Store, *, pages: int = 0) -> None:
    """Let the store grow by no more than so many pages."""
    assert isinstance(store, SQLiteStore)
    store.query(f"PRAGMA max_page_count = {store.query('PRAGMA page_count')[0][0] + pages}")


def test_a_run_that_cannot_begin_runs_unrecorded(store: rk.Store) -> None:
    with rk.record("before", input="why?", store=store):
        look(1)
    fill(store)

    with pytest.warns(RecordingWarning, match="recording stopped"):
        with rk.record("billing", input="x" * 100_000, store=store) as run:
            run.output = look(10)

    assert run.output == "0123456789"
    assert [header.name for header in store.headers()] == ["before"]


def test_a_full_disk_is_an_error_of_its_own(store: rk.Store) -> None:
    fill(store)

    with pytest.raises(StoreFull, match="disk is full"):
        store.begin(RunHeader(id="r1", input_json=raw("x" * 100_000)))


def ask_and_tell(run: Run) -> list[str]:
    answers = [look(5000) for _ in range(20)]
    run.message("user", "still there?")
    run.note("more", "x" * 20_000)
    return answers


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: to who writes, the disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_what_cannot_be_written_does_not_reach_the_agent(store: rk.Store) -> None:
    with rk.record("billing", input="why?", store=store) as run:
        look(10)
        with pytest.warns(RecordingWarning, match="recording stopped") as told, no_file_above(60_000):
            answers = ask_and_tell(run)
        run.output = "done"

    assert len(set(answers)) == 1
    assert len(told) == 1, "it is said once"
    recorded = store.load(run.id)
    assert recorded.output == "done"
    assert 1 <= len(recorded.events) < 21
    assert "the disk is full" in recorded.metadata["recording_stopped"]
    assert "the recording stopped" in run_text(recorded)
    assert list(store.verify()) == []


def test_a_run_whose_end_cannot_be_written_either_ends_without_an_error(store: rk.Store) -> None:
    def agent() -> str:
        with rk.record("billing", input="why?", store=store) as run:
            fill(store)
            run.output = look(5000) * 10
        return str(run.output)

    with pytest.warns(RecordingWarning, match="recording stopped"):
        answer = agent()

    assert list(store.verify()) == []
    assert len(answer) > 100_000


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_an_agent_runs_when_there_is_no_room_for_a_store() -> None:
    code = "import resource, replaykit as rk\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    code += "with rk.record('billing', input='why?') as run:\n    print(run.input)\n"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (0, "why?\n"), done.stderr
    assert "RecordingWarning: recording stopped" in done.stderr


def limited(size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may write no file beyond that size."""
    command = [sys.executable, "-c", LIMITED.replace("LIMIT_BYTES", str(size)), *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_a_program_runs_when_nothing_of_it_can_be_recorded() -> None:
    done = limited(0, "record", "--", "echo", "hi")

    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
    assert "not recorded" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_a_program_that_cannot_be_recorded_keeps_its_exit_code() -> None:
    done = limited(0, "record", "--", sys.executable, "-c", "print('hi'); raise SystemExit(7)")

    assert (done.returncode, done.stdout) == (7, "hi\n"), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_a_program_goes_on_when_the_disk_is_full_in_the_middle() -> None:
    Path("agent.py").write_text(AGENT)

    done = limited(200_000, "record", "--", sys.executable, "agent.py")

    assert (done.returncode, done.stdout) == (0, "1500000\n"), done.stderr
    assert "recording stopped" in done.stderr
