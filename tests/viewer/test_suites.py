"""Suites: results of `ci` with their history, as documents of the page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.trials.test_ci import FAULT, FINE, project, session
from tests.trials.test_ci_files import results_file
from tests.trials.test_ci_history import item, result
from tests.viewer.serving import served

from replaykit.cli import run
from replaykit.errors import InvalidFile, UsageError
from replaykit.model.values import raw
from replaykit.trials.ci_history import add_run
from replaykit.trials.ci_result import CiItem, CiOutcome
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import EvidenceReader
from replaykit.viewer.suites import SuiteReader
from replaykit.viewer.target import find_target

HISTORY, RESULTS, RUNS = Path(".replaykit/history"), Path(".replaykit/ci"), Path(".replaykit/runs")
FAILED = CiOutcome.FAILED


def reader() -> SuiteReader:
    return SuiteReader(RESULTS, HISTORY, EvidenceReader(RUNS, ()))


def documents() -> Documents:
    return Documents(None, EvidenceReader(RUNS, ()), suites=reader())


def page_of(*items: CiItem, **members: Any) -> Any:
    """Return the document of a suite with these items, as the page reads it."""
    suites = reader()
    suites.add_result("x", result(100.0, *items, **members))
    return json.loads(msgspec.json.encode(suites.suite("x").page))


def test_an_item_is_a_short_array_with_its_history() -> None:
    for at, outcome in ((1.0, CiOutcome.PASSED), (2.0, FAILED), (200.0, CiOutcome.PASSED)):
        add_run(HISTORY, result(at, item("a", outcome)))

    page = page_of(item("a", FAILED, verdict="broken", reason="no\nanswer", duration_s=0.5, contract="c", scenario="s"))

    assert [one["at"] for one in page["runs"]] == [1.0, 2.0, 100.0]
    assert page["items"] == [
        ["replay", "a", "failed", "broken", "no answer", 0.5, 0, "", "pff", "failing", 1, "c", "s", 0]
    ]


def test_items_that_one_fix_may_mend_share_a_cause() -> None:
    page = page_of(
        item("a", FAILED, error="no answer after 3.1 s"),
        item("b"),
        item("c", FAILED, error="no answer after 4.7 s"),
        item("d", FAILED, error="refused"),
    )

    assert [one[6] for one in page["items"]] == [0, None, 0, 1]


def test_a_result_without_a_time_comes_after_all_others() -> None:
    add_run(HISTORY, result(1.0, item("a")))

    assert [one["at"] for one in page_of(item("a"), started_at=0.0)["runs"]] == [1.0, 0.0]


def test_a_damaged_history_is_named_and_hides_nothing() -> None:
    HISTORY.mkdir(parents=True)
    (HISTORY / "20260101-000000-x.jsonl").write_text("{}\n")

    page = page_of(item("a"))

    assert len(page["items"]) == 1
    assert "not a history" in page["notices"][0]


def test_a_large_suite_is_compact() -> None:
    page = page_of(*(item(f"case-{number}", verdict="fixed", duration_s=0.125) for number in range(20_000)))

    assert len(json.dumps(page)) / 20_000 < 130


def test_an_item_links_to_its_replay_where_there_is_one(tmp_path: Path) -> None:
    for directory in (RUNS / "here", tmp_path / "elsewhere"):
        directory.mkdir(parents=True)
        (directory / "result.json").write_text("{}")
    places = [str(RUNS / "here"), str(RUNS / "deleted"), str(tmp_path / "elsewhere"), str(RUNS), ""]

    page = page_of(*(item(str(number), FAILED, evidence=place) for number, place in enumerate(places)))

    assert [one[7] for one in page["items"]] == ["here", "", "", "", ""]


def test_an_item_in_full_is_that_of_the_json() -> None:
    suites = reader()
    suites.add_result("x", result(1.0, item("a"), item("b", FAILED, output_json=raw({"n": 1.0}))))

    assert json.loads(suites.suite("x").item_json(1)) == {
        "part": "replay",
        "id": "b",
        "outcome": "failed",
        "output": {"n": 1.0},
    }
    with pytest.raises(UsageError, match="no item 2"):
        suites.suite("x").item_json(2)


def test_ci_leaves_a_suite_that_the_viewer_serves() -> None:
    faulty = {"name": "faulty", **FAULT}
    contracts = {"polite": {"invariants": [FINE], "chaos_matrix": [{"name": "calm"}, faulty]}}
    sessions = [session("a", 200, contract="polite"), session("b", 200, contract="polite")]
    project(
        "ci_agents:careless",
        inputs=["Where is it?"],
        contract=None,
        contracts=contracts,
        replays={"sessions": sessions},
    )
    assert run(["ci"]) == 1

    with served(documents()) as client:
        (listed,) = client.get("api/home").json["suites"]
        page = client.get(f"api/suite/{listed['name']}").json
        by_place = {(one[0], one[12]): one for one in page["items"]}
        broken = by_place["contract", "faulty"]
        full = client.get(f"api/suite/{listed['name']}/item/{page['items'].index(broken)}").json
        rows = client.rows(f"replay:{broken[7]}".replace(":", "%3A"))
        missing = client.get("api/suite/nobody"), client.get(f"api/suite/{listed['name']}/item/99")

    assert listed["items"] == len(page["items"]) == 4
    assert by_place["contract", "calm"][2] == "passed"
    assert (broken[2], broken[11], broken[13]) == ("failed", "polite", 1)
    assert full["faults"] == ["tool.error in lookup (event 0)"]
    assert rows[-1]["page"]["totals"]["errors"] == 1
    assert [answer.status for answer in missing] == [404, 404]


def test_only_complete_results_are_listed_and_a_named_file_says_what_is_wrong() -> None:
    project(replays={"sessions": [session("a", 200)]})
    run(["ci"])
    (file,) = RESULTS.iterdir()
    file.with_name("30000101-000000.jsonl").write_bytes(file.read_bytes().rpartition(b'{"end"')[0])
    file.with_name("notes.jsonl").write_text("{}\n")

    assert [listed.name for listed in reader().listed()] == [file.stem]
    assert reader().newest() == file.stem
    with pytest.raises(InvalidFile, match="incomplete"):
        reader().suite("30000101-000000")


def test_a_file_that_changed_is_read_again() -> None:
    project(replays={"sessions": [session("a", 200)]})
    run(["ci"])
    (file,) = RESULTS.iterdir()
    suites = reader()
    before = suites.suite(file.stem)
    assert suites.suite(file.stem) is before

    file.write_bytes(file.read_bytes().replace(b'"fixed"', b'"mended"'))

    assert suites.suite(file.stem).page.items[0].verdict == "mended"


def test_ci_and_a_results_file_are_targets() -> None:
    with pytest.raises(UsageError, match="no results of ci"):
        find_target(("ci",), None, EvidenceReader(RUNS, ()), reader())
    project(replays={"sessions": [session("a", 200)]})
    run(["ci"])
    (file,) = RESULTS.iterdir()

    for word in ("ci", str(file)):
        assert find_target((word,), None, EvidenceReader(RUNS, ()), reader()).route == f"#/suite/{file.stem}"
    with pytest.raises(UsageError, match="cannot be compared"):
        find_target(("ci", "ci"), None, EvidenceReader(RUNS, ()), reader())


def test_a_shard_is_shown_too() -> None:
    project(replays={"sessions": [session("a", 200), session("b", 200)]})
    run(["ci", "--shard", "1/2"])

    suites = reader()
    name = suites.add_results(Path(".replaykit/shards/shard-1-of-2.jsonl"))

    assert suites.suite(name).page.verdict.startswith("passed: shard 1 of 2")


def test_damaged_files_of_ci_are_skipped_on_the_home_page_and_named_on_their_own() -> None:
    add_run(HISTORY, result(1.0, item("a")))
    (HISTORY / os.fsdecode(b"20260101-000000-\xff.jsonl")).write_bytes(b"[" * 100_000 + b"\n")
    good = results_file(RESULTS)
    head, _, rest = good.read_bytes().partition(b"\n")
    (RESULTS / "deep-header.jsonl").write_bytes(b'{"x":' + b"[" * 100_000 + b"\n" + rest)
    (RESULTS / "deep-item.jsonl").write_bytes(head + b"\n" + b"[" * 100_000 + b'\n{"end":1}\n')
    (RESULTS / "no-part.jsonl").write_bytes(head.replace(b'"part":"replay"', b'"part":"chaos"') + b"\n" + rest)
    (RESULTS / os.fsdecode(b"odd-\xff.jsonl")).write_bytes(good.read_bytes())

    with served(documents()) as client:
        listed = [suite["name"] for suite in client.get("api/home").json["suites"]]
        good_page = client.get("api/suite/results").json
        problems = {name: client.get(f"api/suite/{name}") for name in ("deep-header", "deep-item", "no-part")}

    assert listed == ["results", "odd-\\udcff", "no-part", "deep-item"]
    assert "not a history" in good_page["notices"][0]
    assert {answer.status for answer in problems.values()} == {404}
    assert "not results of" in problems["deep-header"].json["problem"]
    assert "the line is damaged" in problems["deep-item"].json["problem"]
    assert "an item of the part 'replay'" in problems["no-part"].json["problem"]
