"""`ci --html`: the suite and the replays of its failures as one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.test_second_check import MISSED
from tests.trials.test_ci import FINE, project, session
from tests.trials.test_ci_history import item, result
from tests.viewer.page_elements import PageElements

from replaykit.cli import run
from replaykit.errors import UsageError
from replaykit.model.result import Deviation, Finding
from replaykit.model.values import raw
from replaykit.trials.ci_result import CiOutcome, CiResult
from replaykit.viewer import suite_file
from replaykit.viewer.suite_file import write_suite_file

FILE = Path("ci.html")
HOSTILE = "</script><script>alert(1)</script><!-- <img src=http://x/y onerror=alert(1)> \u202e \x1b[2J"


def written(result: CiResult) -> PageElements:
    write_suite_file(FILE, result, Path(".replaykit/runs"))
    page = PageElements(FILE.read_text())
    page.check()
    return page


def failing_suite(*names: str) -> None:
    project("ci_agents:broken", replays={"sessions": [session(name) for name in names]})


def replays_in(page: PageElements) -> list[str]:
    return [item[7] for item in page.documents["suite/ci"]["items"]]


def test_the_file_opens_the_suite_and_holds_the_runs_of_its_failures() -> None:
    failing_suite("a", "b")

    assert run(["ci", "--html", "ci.html"]) == 1

    page = PageElements(FILE.read_text())
    page.check()
    assert page.documents["home"]["opens"] == "#/suite/ci"
    replays = replays_in(page)
    assert all(replays)
    for index, name in enumerate(replays):
        assert page.documents[f"suite/ci/item/{index}"]["evidence"] == f".replaykit/runs/{name}"
        assert page.documents[f"replay/{name}"]["run"] == f"replay:{name}"
        assert page.documents[f"run/replay%3A{name}"]["header"]["status"] == "error"


def test_what_passed_is_a_row_without_details() -> None:
    page = written(result(1.0, item("good"), item("bad", CiOutcome.FAILED, error="no")))

    assert [one[1] for one in page.documents["suite/ci"]["items"]] == ["good", "bad"]
    assert "suite/ci/item/0" not in page.documents
    assert page.documents["suite/ci/item/1"]["error"] == "no"


def test_the_file_has_room_for_some_replays_and_one_of_each_cause_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_file, "MAX_REPLAYS", 2)
    statuses = [session(name) for name in ("a", "b", "c")]
    project("ci_agents:careless", replays={"sessions": [*statuses, session("d", 504)]})

    run(["ci", "--html", "ci.html"])

    page = PageElements(FILE.read_text())
    assert [bool(name) for name in replays_in(page)] == [True, False, False, True]
    assert sum(path.startswith("replay/") for path in page.documents) == 2


def test_evidence_that_cannot_be_shown_costs_only_its_own_replay() -> None:
    failing_suite("a", "b", "c")
    run(["ci"])
    events, text, _ = files = sorted(Path(".replaykit/runs").glob("*/result.json"))
    content = json.loads(events.read_bytes())
    content["run"]["events"] = [{"type": "note", "seq": 2**63, "text": "x"}]
    events.write_text(json.dumps(content))
    text.write_bytes(text.read_bytes().replace(b'"case_id": "', b'"case_id": "\xff'))
    places = [*map(str, (file.parent for file in files)), ".replaykit/runs/" + "x" * 300]

    page = written(result(1.0, *(item(place, CiOutcome.FAILED, evidence=place) for place in places)))

    assert replays_in(page) == ["", "", files[2].parent.name, ""]


def test_evidence_in_a_directory_of_its_own_is_found() -> None:
    failing_suite("a")

    run(["ci", "--html", "ci.html", "--evidence", "kept"])

    assert all(replays_in(PageElements(FILE.read_text())))


def test_merged_results_are_one_suite() -> None:
    failing_suite("a", "b")
    for shard in ("1/2", "2/2"):
        run(["ci", "--shard", shard])

    assert run(["ci", "merge", ".replaykit/shards", "--html", "ci.html"]) == 1

    assert sorted(one[1] for one in PageElements(FILE.read_text()).documents["suite/ci"]["items"]) == ["a", "b"]


def hostile_result(text: str) -> CiResult:
    finding = Finding(kind="k", holds=False, text=text, expected=text, actual=text, id="inv", severity="critical")
    members: dict[str, Any] = {
        "verdict": text,
        "reason": text,
        "divergence": Deviation(kind="missing", text=text),
        "failures": (finding,),
        "input_json": raw(text),
        "output_json": raw({text: text}),
        "error": text,
        "contract": text,
        "scenario": text,
    }
    return result(1.0, item(text or "x", CiOutcome.FAILED, **members), verdict=f"failed: {text}")


def test_hostile_text_stays_inside_of_the_documents() -> None:
    page = written(hostile_result(HOSTILE))

    assert page.documents["suite/ci/item/0"]["error"] == HOSTILE


@given(st.text(max_size=40))
def test_the_page_is_its_own_whatever_an_agent_says(text: str) -> None:
    written(hostile_result(text))


def test_a_file_that_may_hold_a_secret_is_not_written() -> None:
    missed = MISSED["openshift-token"]

    with pytest.raises(UsageError, match="second check"):
        write_suite_file(FILE, result(1.0, item("a", CiOutcome.FAILED, error=missed)), Path("runs"))

    assert not FILE.exists()


def test_a_secret_in_the_name_of_a_replay_is_refused() -> None:
    failing_suite("a")
    run(["ci"])
    (made,) = Path(".replaykit/runs").glob("*/")
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    leaky = made.rename(made.with_name(f"20261119-{secret}"))

    with pytest.raises(UsageError, match="the names of runs, replays and cases") as caught:
        written(result(1.0, item("a", CiOutcome.FAILED, evidence=str(leaky))))

    assert secret not in str(caught.value)
    assert not FILE.exists()


def test_a_placeholder_that_a_short_text_cuts_is_no_secret() -> None:
    for width in range(170, 190):  # of 200 characters that are shown
        text = f"{'x' * width} password='<secret:1c58476a>'"
        page = written(result(1.0, item("a", CiOutcome.FAILED, error=text)))
        assert page.documents["suite/ci/item/0"]["error"] == text


def test_view_shares_a_suite_as_ci_does() -> None:
    failing_suite("a")
    run(["ci"])

    assert run(["view", "ci", "--share", "ci.html"]) == 0

    page = PageElements(FILE.read_text())
    name = page.documents["home"]["opens"].removeprefix("#/suite/")
    assert page.documents[f"suite/{name}"]["items"][0][1] == "a"


def test_a_page_goes_to_a_device_as_well(capfd: pytest.CaptureFixture[str]) -> None:
    project(inputs=["Where is it?"], contract={"name": "default", "invariants": [FINE]})

    assert run(["ci", "-q", "--html", "/dev/stdout"]) == 0

    PageElements(capfd.readouterr().out).check()


def test_the_history_is_in_the_file() -> None:
    failing_suite("a")
    run(["ci"])

    run(["ci", "--html", "ci.html"])

    assert PageElements(FILE.read_text()).documents["suite/ci"]["items"][0][8:10] == ["ff", "failing"]
