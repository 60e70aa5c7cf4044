"""The sources of a configuration: whose contract they keep, where they are kept, and what is told of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.langsmith_server import FakeLangSmith, incident

import replaykit as rk
from replaykit.cases.find import Unusable
from replaykit.cases.session import Session
from replaykit.errors import NothingSelected
from replaykit.intake import store_import
from replaykit.intake.source_sessions import sessions_of
from replaykit.intake.source_subjects import subjects_of
from replaykit.intake.store_import import StoreResult, store_run
from replaykit.project.project import Project, load_project
from replaykit.project.sources import SessionSource, SourceType

Run = Callable[..., Any]
PROJECT = {"type": "langsmith", "project": "my-production-agent", "auto_import": True}
INVARIANTS = [{"id": "answers", "type": "output_not_empty"}]


def project(*sources: dict[str, Any], contracts: tuple[str, ...] = ("Only",), **parts: Any) -> Project:
    known = {name: {"invariants": INVARIANTS} for name in contracts}
    value = {"replaykit": 1, "contracts": known, "replays": {"sources": list(sources)}, **parts}
    Path("replaykit.yaml").write_text(json.dumps(value, indent=1))
    return load_project("replaykit.yaml")


def contract(made: Project) -> str:
    (one,) = sessions_of(made).sessions
    return one.contract if isinstance(one, Session) else one.reason


@pytest.mark.parametrize(
    ("contracts", "said", "chosen"),
    [
        (("Only",), {}, "Only"),
        (("A", "default"), {}, "default"),
        (("A", "B"), {"contract": "B"}, "B"),
        (("Only",), {"contract": "contracts/other.yaml"}, "contracts/other.yaml"),
    ],
)
@pytest.mark.usefixtures("langsmith")
def test_the_contract_is_the_one_that_is_named_or_the_only_one_or_the_default(
    contracts: tuple[str, ...], said: dict[str, str], chosen: str
) -> None:
    assert contract(project({**PROJECT, **said}, contracts=contracts)) == chosen


@pytest.mark.parametrize(("contracts", "hint"), [(("A", "B"), "'A', 'B'"), ((), "none is there yet")])
@pytest.mark.usefixtures("langsmith")
def test_where_none_can_be_chosen_that_is_an_error_with_the_line(contracts: tuple[str, ...], hint: str) -> None:
    made = project(PROJECT, contracts=contracts)

    told = contract(made)

    line = Path("replaykit.yaml").read_text().splitlines().index('    "type": "langsmith",')
    assert f"replaykit.yaml:{line}: langsmith my-production-agent: which contract" in told
    assert hint in told


def test_a_project_without_such_runs_is_told_and_is_no_error(langsmith: FakeLangSmith) -> None:
    langsmith.runs = []

    given = sessions_of(project(PROJECT))

    assert (given.sessions, given.notices) == ((), ("langsmith my-production-agent: no run is of that kind",))
    with pytest.raises(NothingSelected):
        subjects_of(project(PROJECT))


def test_with_nothing_but_healthy_sources_ci_says_that_nothing_was_tested(
    replaykit: Run, langsmith: FakeLangSmith
) -> None:
    langsmith.runs = []
    project(PROJECT, agent={"type": "python", "endpoint": "json:dumps"})

    ran = replaykit("ci", "--only", "replay")

    assert ran.code == 5
    assert "no run is of that kind" in ran.err


def test_more_runs_than_the_limit_are_told(langsmith: FakeLangSmith) -> None:
    langsmith.runs += incident("second")

    given = sessions_of(project({**PROJECT, "limit": 1}))

    assert len(given.sessions) == 1
    assert given.notices == ("langsmith my-production-agent: there are more than 1 such runs: raise the limit",)


def test_one_source_that_fails_stops_no_other(langsmith: FakeLangSmith) -> None:
    unknown = {"type": "langsmith", "project": "nope"}

    given = sessions_of(project(unknown, PROJECT, {"type": "langsmith_run", "run_id": "nowhere"}))

    first, second, third = given.sessions
    assert isinstance(first, Unusable)
    assert isinstance(third, Unusable)
    assert (first.id, second.id, third.id) == ("langsmith nope", "abc123def456", "langsmith nowhere")


@pytest.mark.usefixtures("langsmith")
def test_a_kept_file_that_somebody_spoiled_is_an_error_and_is_not_fetched_again() -> None:
    made = project({"type": "langsmith_run", "run_id": "abc123def456"})
    sessions_of(made)
    kept = Path("replays/langsmith/abc123def456.yaml")
    kept.write_text("tool_responses: [\n")

    (one,) = sessions_of(made).sessions

    assert isinstance(one, Unusable)
    assert str(kept) in one.reason


@pytest.mark.usefixtures("langsmith")
def test_sources_are_kept_beside_the_configuration_wherever_one_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("deep").mkdir()
    project({"type": "langsmith_run", "run_id": "abc123def456"})
    Path("replaykit.yaml").rename("deep/replaykit.yaml")

    sessions_of(load_project("deep/replaykit.yaml"))

    assert [str(file) for file in Path().rglob("*.yaml")] == [
        "deep/replaykit.yaml",
        "deep/replays/langsmith/abc123def456.yaml",
    ]


@pytest.mark.parametrize("name", ["../../evil", "a/b", "..", "C:\\x", "con", "ü" * 90])
def test_no_name_leads_out_of_where_sources_are_kept(langsmith: FakeLangSmith, name: str) -> None:
    langsmith.runs = incident(name)
    langsmith.projects = {name: "f966cc8b-6350-4583-99cf-1876b52b0f4e"}

    given = sessions_of(project({"type": "langsmith", "project": name}))

    (one,) = given.sessions
    assert isinstance(one, Session)
    assert one.id == name
    inside = Path("replays/langsmith").resolve()
    assert one.file.resolve().is_relative_to(inside)
    assert SessionSource(type=SourceType.RUN, run_id=name).place.parts[:-1] == ()


def test_two_that_bring_in_the_same_run_at_once_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, looked = threading.Barrier(2), store_import._compared
    found: list[StoreResult] = []
    wrong: list[Exception] = []

    def look(store: Any, run: rk.TraceRun) -> StoreResult:
        seen = looked(store, run)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # if both could look before one of them writes, they would meet here
        return seen

    def bring_in() -> None:
        try:
            with rk.Store.open(tmp_path / "s.db") as store:
                found.append(store_run(store, rk.TraceRun(id="one")))
        except rk.ReplayKitError as error:
            wrong.append(error)

    monkeypatch.setattr(store_import, "_compared", look)
    threads = [threading.Thread(target=bring_in) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert (sorted(found), wrong) == ([StoreResult.IMPORTED, StoreResult.UNCHANGED], [])
