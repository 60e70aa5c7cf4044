"""`import --scaffold`: a case for each way in which runs failed, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.intake.traces import ADVICE, Partial, failed, lines, native, written

import replaykit as rk
from replaykit.formats.core.registry import IMPORTERS

Run = Callable[..., Any]


def cases(ran: Any) -> dict[str, tuple[str, str] | None]:
    """Of each run: what became of its case, and where that is."""
    return {
        entry["run"]: entry["case"] and (entry["case"]["result"], entry["case"]["directory"]) for entry in ran.entries
    }


def contents(directory: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(directory).rglob("*") if file.is_file()}


@pytest.fixture
def partial() -> Iterator[None]:
    IMPORTERS.register("partial")(Partial())
    yield
    del IMPORTERS._entries["partial"]


def test_each_failed_run_becomes_a_case_that_is_named_by_it(replaykit: Run) -> None:
    runs = [native("good"), failed("Bad One", "no such order"), failed("bad-two", "no such user", agent="y")]
    written("runs.jsonl", lines(runs))

    ran = replaykit("import", "runs.jsonl", "--scaffold", "cases", "--json")

    assert ran.code == 0
    places = cases(ran)
    assert places["good"] is None
    assert places["bad-two"] == ("made", "cases/bad-two")
    assert sorted(case.name for case in Path("cases").iterdir()) == sorted(
        place[1].removeprefix("cases/") for place in places.values() if place
    )
    case = rk.load_case("cases/bad-two")
    assert (case.id, case.source.run, case.source.format) == ("bad-two", "bad-two", "run_log")
    assert {"run.error": "no such user"} in [{one.kind: one.value} for one in case.observed]
    assert replaykit("lint", "cases").code == 0


def test_runs_of_an_agent_that_fail_in_the_same_way_are_one_case(replaykit: Run) -> None:
    runs = [
        failed("first", agent="support"),
        failed("second", agent="support"),
        failed("another-agent", agent="billing"),
        failed("another-failure", "out of memory, says the kernel", agent="support"),
    ]
    written("runs.jsonl", lines(runs))

    ran = replaykit("import", "runs.jsonl", "--scaffold", "cases")

    assert ran.code == 0
    assert sorted(case.name for case in Path("cases").iterdir()) == ["another-agent", "another-failure", "first"]
    assert "second           same  cases/first (it failed as first did)" in ran.out
    assert "cases: 3 made, 1 that fail like another" in ran.out


def test_a_case_that_is_there_is_not_written_again(replaykit: Run) -> None:
    written("runs.jsonl", lines([failed("first"), failed("second")]))
    replaykit("import", "runs.jsonl", "--scaffold", "cases")
    Path("cases/first/notes.md").write_text("what somebody wrote by hand")
    before = contents("cases")

    again = replaykit("import", "runs.jsonl", "--scaffold", "cases", "--json")

    assert (again.code, cases(again)) == (0, {"first": ("there", "cases/first"), "second": ("same", "cases/first")})
    assert contents("cases") == before


def test_a_failure_that_an_earlier_import_made_a_case_of_is_known(replaykit: Run) -> None:
    replaykit("import", written("one.json", failed("monday", agent="x")), "--scaffold", "cases")
    later = lines([failed("tuesday", agent="x"), failed("elsewhere", agent="y")])

    ran = replaykit("import", written("two.jsonl", later), "--scaffold", "cases", "--json")

    assert cases(ran) == {"tuesday": ("same", "cases/monday"), "elsewhere": ("made", "cases/elsewhere")}


def test_a_failure_that_holds_a_secret_is_known_again(replaykit: Run) -> None:
    monday, tuesday = (
        failed(day, f"login of {name}.lopez@corp-mail.example was refused by the server")
        for day, name in (("monday", "ana"), ("tuesday", "eva"))
    )
    replaykit("import", written("one.json", monday), "--scaffold", "cases")

    ran = replaykit("import", written("two.json", tuesday), "--scaffold", "cases", "--json")

    assert cases(ran) == {"tuesday": ("same", "cases/monday")}
    assert not [file for file, text in contents("cases").items() if b"ana.lopez" in text]


def test_cases_that_are_broken_or_of_something_else_are_in_nobodys_way(replaykit: Run) -> None:
    written("cases/broken/case.yaml", b"replaykit: [")
    written("cases/readme.md", b"ours")
    written("cases/no-trace/case.yaml", b"replaykit: 1\nid: no-trace\nobserved:\n  - status_is: error\n")

    ran = replaykit("import", written("one.json", failed("new")), "--scaffold", "cases", "--json")

    assert (ran.code, cases(ran)) == (0, {"new": ("made", "cases/new")})


def test_a_directory_that_is_no_case_is_not_replaced(replaykit: Run) -> None:
    written("cases/mine/thesis.txt", b"years of work")

    ran = replaykit("import", written("one.json", failed("mine")), "--scaffold", "cases", "--json")

    assert ran.code == 1
    assert "no case was made of it: 'cases/mine' exists and is not empty" in ran.entries[0]["problem"]
    assert ran.results == {"mine": "imported"}
    assert contents("cases") == {"cases/mine/thesis.txt": b"years of work"}


def test_a_dry_run_says_which_cases_it_would_make(replaykit: Run) -> None:
    written("runs.jsonl", lines([failed("first"), failed("second"), failed("first")]))

    ran = replaykit("import", "runs.jsonl", "--scaffold", "cases", "--dry-run", "--json")

    assert [entry["case"]["result"] for entry in ran.entries] == ["made", "same", "there"]
    assert not Path("cases").exists()
    assert not Path(".replaykit").exists()


@pytest.mark.usefixtures("partial")
def test_a_run_that_cannot_be_replayed_is_left_out_and_told_with_what_to_turn_on(replaykit: Run) -> None:
    written("some.txt", b"PARTIAL\nempty result result+arguments\nhalf - result\n")

    ran = replaykit("import", "some.txt", "--scaffold", "cases", "--json")

    assert (ran.code, ran.results) == (1, {"empty": "imported", "half": "imported"})
    assert cases(ran) == {"empty": None, "half": ("made", "cases/half")}
    (problem,) = (entry["problem"] for entry in ran.entries if entry["problem"])
    assert "none of its 2 tool calls can be replayed" in problem
    assert "tool_2 (event 2): no arguments, no result" in problem
    assert ADVICE in problem
    notes = Path("cases/half/notes.md").read_text()
    assert "2 of 3 calls can be replayed exactly" in notes
    assert "Turn on" in notes


@pytest.mark.usefixtures("partial")
def test_such_a_run_becomes_a_case_where_that_is_allowed(replaykit: Run) -> None:
    written("some.txt", b"PARTIAL\nempty result\n")

    assert replaykit("import", "some.txt", "--allow-incomplete").code == 2
    ran = replaykit("import", "some.txt", "--scaffold", "cases", "--allow-incomplete", "--json")

    assert (ran.code, cases(ran)) == (0, {"empty": ("made", "cases/empty")})


def test_cases_and_sessions_are_made_of_one_import(replaykit: Run) -> None:
    written("runs.jsonl", lines([native("good"), failed("bad")]))

    ran = replaykit("import", "runs.jsonl", "--scaffold", "cases", "-o", "replays")

    assert ran.code == 0
    assert sorted(file.name for file in Path("replays").iterdir()) == ["bad.yaml", "good.yaml"]
    assert Path("cases/bad/case.yaml").exists()
    assert "2 imported; 2 sessions; cases: 1 made" in ran.out


def test_the_result_as_json_keeps_its_form(replaykit: Run) -> None:
    ran = replaykit("import", written("one.json", failed("bad")), "--scaffold", "cases", "--json")

    assert json.loads(ran.out).keys() == {"replaykit", "dry_run", "entries", "notes"}
    assert ran.entries[0]["case"] == {"directory": "cases/bad", "result": "made"}
