"""Files of every released version are read by this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import replaykit as rk
from replaykit import demo
from replaykit.importers.files import import_trace

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if path.name.startswith("v"))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def version(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of one version's files, so that reading cannot change them."""
    return Path(shutil.copytree(request.param, tmp_path / "files"))


def test_the_store_is_whole_and_its_runs_are_read(version: Path) -> None:
    with rk.Store.open(version / "store.db", read_only=True) as store:
        assert list(store.verify()) == []
        run = store.load("billing")
        assert (run.input, run.status.value, run.tags) == (demo.QUESTION, "error", ("frozen",))
        assert [call.name for call in run.tool_calls] == ["find_customer"] + ["lookup_billing"] * 5
        assert store.state_at("billing", 42)["n"] == 42
        assert len(store.state_at("billing")["messages"]) == 69
        assert store.load("large").events[0].content == "0123456789abcdef" * 6000


def test_the_store_can_be_written_to(version: Path) -> None:
    with rk.Store.open(version / "store.db") as store:
        with rk.record("new", store=store) as run:
            run.note("written by this version")
        assert len(store.load("new").events) == 1


def test_the_run_log_is_read(version: Path) -> None:
    (run,) = import_trace(version / "run-log.json").runs

    assert run.error is not None
    assert run.error.message.startswith("Max tool call limit")


def test_the_case_replays(version: Path) -> None:
    case = rk.load_case(version / "case")

    assert rk.replay(case, demo.looping_agent).verdict is rk.Verdict.REPRODUCED
    assert rk.replay(case, demo.patient_agent).verdict is rk.Verdict.FIXED
