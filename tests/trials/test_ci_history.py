"""The history of `ci`: each run is a file, and files that are copied together are one history."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.git_repository import Repository
from tests.trials.test_ci import FINE, project, session

from replaykit.cli import run
from replaykit.trials import ci_history
from replaykit.trials.ci_history import ItemStanding, add_run, read_history, read_items, standing_of
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName, CiResult

HISTORY = Path(".replaykit/history")


def item(name: str, outcome: CiOutcome = CiOutcome.PASSED, **members: object) -> CiItem:
    return CiItem(part=CiPartName.REPLAY, id=name, outcome=outcome, **members)  # type: ignore[arg-type]


def result(at: float, *items: CiItem, **members: object) -> CiResult:
    values: dict[str, object] = {"passed": True, "exit_code": 0, "score": None, "verdict": "passed", "agent": "a"}
    return CiResult(**{**values, "started_at": at, "items": items, **members})  # type: ignore[arg-type]


def all_runs(directory: Path = HISTORY) -> ci_history.SuiteHistory:
    return read_history(directory, agent="a", before=1e12)


def test_a_run_leaves_a_line_for_each_item() -> None:
    file = add_run(HISTORY, result(60.0, item("good"), item("bad", CiOutcome.FAILED, verdict="broken", error="no 7")))

    assert file.name.startswith("19700101-000100-")
    first_line = {"replaykit": 1, "kind": "ci-history", "at": 60.0, "revision": "", "settings": "", "agent": "a"}
    assert json.loads(file.read_text().splitlines()[0]) == first_line
    good, bad = read_items(file)
    assert (good.id, good.outcome, good.cause) == ("good", CiOutcome.PASSED, "")
    assert (bad.id, bad.verdict, len(bad.cause)) == ("bad", "broken", 12)


def test_items_with_one_cause_have_one_digest_in_every_run() -> None:
    first = add_run(HISTORY, result(1.0, item("a", CiOutcome.FAILED, error="no answer after 3.1 s")))
    second = add_run(HISTORY, result(2.0, item("b", CiOutcome.FAILED, error="no answer after 4.7 s")))

    assert [line.cause for line in read_items(first)] == [line.cause for line in read_items(second)]


def test_the_letters_of_an_item_are_its_outcomes_from_the_oldest_on() -> None:
    add_run(HISTORY, result(3.0, item("x", CiOutcome.ERROR)))
    add_run(HISTORY, result(1.0, item("x")))
    add_run(HISTORY, result(2.0, item("y", CiOutcome.FAILED)))

    history = all_runs()

    assert [header.at for header in history.runs] == [1.0, 2.0, 3.0]
    assert history.outcomes_of(CiPartName.REPLAY, "x") == "p.e"
    assert history.outcomes_of(CiPartName.REPLAY, "y") == ".f."
    assert history.outcomes_of(CiPartName.CHAOS, "y") == "..."


def test_runs_of_other_agents_and_later_runs_are_left_out() -> None:
    add_run(HISTORY, result(1.0, item("x")))
    add_run(HISTORY, result(2.0, item("x"), agent="b"))
    add_run(HISTORY, result(3.0, item("x")))

    assert [header.at for header in read_history(HISTORY, agent="a", before=3.0).runs] == [1.0]


@given(names=st.lists(st.sampled_from("abcd"), max_size=8), cut=st.integers(0, 8))
def test_histories_that_are_copied_together_are_one_whatever_the_order(names: list[str], cut: int) -> None:
    runs = [result(float(number), item(name)) for number, name in enumerate(names)]
    for directory in ("here", "there", "whole"):
        shutil.rmtree(directory, ignore_errors=True)
        Path(directory).mkdir()
    for one in runs:
        add_run(Path("whole"), one)
    for directory, share in (("here", runs[:cut]), ("there", runs[max(0, cut - 1) :])):  # one may be in both
        for one in reversed(share):
            add_run(Path(directory), one)

    for file in Path("there").glob("*.jsonl"):
        shutil.copy(file, "here")

    assert all_runs(Path("here")) == all_runs(Path("whole"))


def test_many_runs_that_end_at_once_are_all_there() -> None:
    runs = [result(1.0, item(f"case {number}")) for number in range(20)]
    threads = [threading.Thread(target=add_run, args=(HISTORY, one)) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(all_runs().runs) == 20


def test_a_last_line_that_was_cut_is_skipped_and_a_damaged_one_named() -> None:
    file = add_run(HISTORY, result(1.0, item("a"), item("b")))
    file.write_bytes(file.read_bytes()[:-4])
    other = add_run(HISTORY, result(2.0, item("a"), item("b")))
    other.write_bytes(other.read_bytes().replace(b'["replay","b"', b'["replay","b'))
    (HISTORY / "20260101-000000-x.jsonl").write_text("{}\n")
    (HISTORY / "20260101-000001-x.jsonl").write_text('{"replaykit":2,"kind":"ci-history"}\n')

    history = all_runs()

    assert history.outcomes[("replay", "a")][0] == "p"
    assert ("replay", "b") not in history.outcomes
    assert len(history.problems) == 3
    assert any("damaged" in problem for problem in history.problems)
    assert any("format 2" in problem for problem in history.problems)


def test_old_runs_are_deleted_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci_history, "_MAX_FILES", 3)
    for at in (5.0, 1.0, 2.0, 3.0, 4.0):
        add_run(HISTORY, result(at, item("x")))

    assert [header.at for header in all_runs().runs] == [3.0, 4.0, 5.0]

    monkeypatch.setattr(ci_history, "_MAX_BYTES", 1)
    add_run(HISTORY, result(6.0, item("x")))

    assert [header.at for header in all_runs().runs] == [6.0]


@pytest.mark.parametrize(
    ("outcomes", "codes", "standing"),
    [
        ("p", "", ItemStanding()),
        ("f", "", ItemStanding("failing")),
        ("ppp", "", ItemStanding()),
        ("..p", "", ItemStanding("new")),
        ("..f", "", ItemStanding("new")),
        ("ppf", "", ItemStanding("failing", 2)),
        ("pf.ef", "", ItemStanding("failing", 1)),
        ("fff", "", ItemStanding("failing")),
        ("ffp", "", ItemStanding("fixed", 2)),
        ("f.ppp", "", ItemStanding("fixed", 2)),
        ("pf", "aa", ItemStanding("flaky")),
        ("pfp", "abb", ItemStanding("flaky")),
        ("pf", "ab", ItemStanding("failing", 1)),
        ("pu", "aa", ItemStanding("failing", 1)),
    ],
)
def test_how_an_item_stands(outcomes: str, codes: str, standing: ItemStanding) -> None:
    assert standing_of(outcomes, codes or [""] * len(outcomes)) == standing


def test_ci_and_ci_merge_remember_their_runs_and_shards_do_not() -> None:
    project(replays={"sessions": [session("a", 200), session("b", 504)]})

    assert run(["ci", "--json"]) == 0
    assert len(list(HISTORY.glob("*.jsonl"))) == 1

    for shard in ("1/2", "2/2"):
        assert run(["ci", "--shard", shard]) == 0
    assert len(list(HISTORY.glob("*.jsonl"))) == 1

    for _ in range(2):  # the same run again adds nothing
        assert run(["ci", "merge", ".replaykit/shards"]) == 0
    files = sorted(HISTORY.glob("*.jsonl"))
    assert len(files) == 2
    assert {line.id for line in read_items(files[1])} == {"a", "b"}


def test_a_history_that_cannot_be_written_changes_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    project(replays={"sessions": [session("a", 200)]})
    Path(".replaykit").mkdir()
    HISTORY.write_text("in the way")

    assert run(["ci"]) == 0
    assert "this run is not in the history" in capsys.readouterr().err


def test_a_revision_is_known_while_the_files_are_those_of_a_commit() -> None:
    project(inputs=["Where is it?"], contract={"name": "default", "invariants": [FINE]})
    repository = Repository.new(Path())
    commit = repository.commit()

    run(["ci"])
    Path("ci_agents.py").write_text(Path("ci_agents.py").read_text() + "\n")
    run(["ci"])

    headers = [ci_history.read_run_header(file) for file in HISTORY.glob("*.jsonl")]
    assert sorted(header.revision for header in headers) == ["", commit]


def test_no_secret_reaches_the_history() -> None:
    name = "mail ann@example.org"
    project(replays={"sessions": [session(name, 200)]})

    run(["ci"])

    (file,) = HISTORY.glob("*.jsonl")
    assert "ann@example.org" not in file.read_text()
