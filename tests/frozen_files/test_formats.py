"""Files of every released version are read by this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.frozen_files.agents import PAGE, ROUNDS, chatting_agent

import replaykit as rk
from replaykit import demo
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.proof import Standing, standing_of
from replaykit.cases.upgrade import outdated_files, write_files
from replaykit.formats.files import import_trace

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if path.name.startswith("v"))
"""Of cases and fixtures; the store and the run log have stayed as they were in the first."""
STORES = [path for path in VERSIONS if (path / "store.db").exists()]
CONVERSATIONS = [path for path in VERSIONS if (path / "conversation").exists()]


def by_name(path: Path) -> str:
    return path.name


@pytest.fixture(params=VERSIONS, ids=by_name)
def version(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of one version's files, so that reading cannot change them."""
    return Path(shutil.copytree(request.param, tmp_path / "files"))


@pytest.fixture(params=STORES, ids=by_name)
def version_of_store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same, of those that changed the store."""
    return Path(shutil.copytree(request.param, tmp_path / "files"))


@pytest.fixture(params=CONVERSATIONS, ids=by_name)
def conversation(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of one version's case of a conversation."""
    return Path(shutil.copytree(request.param / "conversation", tmp_path / "conversation"))


def test_the_store_is_whole_and_its_runs_are_read(version_of_store: Path) -> None:
    with rk.Store.open(version_of_store / "store.db", read_only=True) as store:
        assert list(store.verify()) == []
        run = store.load("billing")
        assert (run.input, run.status.value, run.tags) == (demo.QUESTION, "error", ("frozen",))
        assert [call.name for call in run.tool_calls] == ["find_customer"] + ["lookup_billing"] * 5
        assert store.state_at("billing", 42)["n"] == 42
        assert len(store.state_at("billing")["messages"]) == 69
        assert store.load("large").events[0].content == "0123456789abcdef" * 6000


def test_the_store_can_be_written_to(version_of_store: Path) -> None:
    with rk.Store.open(version_of_store / "store.db") as store:
        with rk.record("new", store=store) as run:
            run.note("written by this version")
        assert len(store.load("new").events) == 1


def test_the_run_log_is_read(version_of_store: Path) -> None:
    (run,) = import_trace(version_of_store / "run-log.json").runs

    assert run.error is not None
    assert run.error.message.startswith("Max tool call limit")


def test_the_case_replays(version: Path) -> None:
    case = rk.load_case(version / "case")

    assert rk.replay(case, demo.looping_agent).verdict is rk.Verdict.REPRODUCED
    assert rk.replay(case, demo.patient_agent).verdict is rk.Verdict.FIXED


def test_the_case_of_a_conversation_replays_and_was_seen_red(conversation: Path) -> None:
    case = rk.load_case(conversation)

    assert rk.replay(case, chatting_agent).verdict is rk.Verdict.REPRODUCED
    assert standing_of(case)[0] is Standing.RED


def test_the_source_trace_of_a_conversation_holds_what_its_fixtures_hold(conversation: Path) -> None:
    (run,) = import_trace(conversation / "source-trace.json").runs
    calls = read_fixtures(conversation)

    assert [call.arguments for call in run.calls] == [call.arguments for call in calls]
    assert [call.result for call in run.calls] == [call.result for call in calls]
    assert len(calls[ROUNDS - 1].arguments["messages"]) == 2 * ROUNDS - 1
    assert calls[-1].result == PAGE


def test_upgrading_a_conversation_keeps_its_calls_and_its_proof(conversation: Path) -> None:
    calls, trace = read_fixtures(conversation), import_trace(conversation / "source-trace.json").runs

    write_files(outdated_files(conversation))

    assert read_fixtures(conversation) == calls
    assert import_trace(conversation / "source-trace.json").runs == trace
    assert standing_of(rk.load_case(conversation))[0] is Standing.RED
    assert (conversation / "fixtures" / "complete.json").stat().st_size < 15_000
    assert (conversation / "source-trace.json").stat().st_size < 20_000
    assert outdated_files(conversation) == []
