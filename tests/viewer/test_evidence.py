"""Replays and cases, beside the runs that they are about."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.viewer.serving import documents_of, served, suites_of

import replaykit as rk
from replaykit.candidates.python import PythonCandidate
from replaykit.errors import InvalidFile, ReplayKitError, RunNotFound, UsageError
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import EvidenceReader
from replaykit.viewer.share import write_shared_file
from replaykit.viewer.target import ViewTarget, find_target

AGENT = """
import replaykit as rk

@rk.tool
def lookup(user):
    return {"charges": 3}

def answer(question):
    lookup("ann")
    raise RuntimeError("out of luck")
"""


@pytest.fixture
def documents(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Documents]:
    """The documents of a project with a failed run, a case of it, and a replay that left evidence."""
    monkeypatch.syspath_prepend(str(own_directory))
    (own_directory / "failing_agent.py").write_text(AGENT)
    from failing_agent import answer

    store = rk.Store.open(".replaykit/store.db")
    with pytest.raises(RuntimeError), rk.record("billing", input="Why?", store=store):
        answer("Why?")
    case = rk.scaffold(store.load("billing"), "cases/billing")
    result = rk.replay(case, PythonCandidate("failing_agent:answer"), evidence="runs")
    assert result.verdict == "reproduced", result.text
    yield documents_of(store)
    store.close()


def test_replays_and_cases_are_listed(documents: Documents) -> None:
    home = documents.home()

    assert [(replay.case_id, replay.verdict) for replay in home.replays] == [("billing", "reproduced")]
    assert [case.name for case in home.cases] == ["cases/billing"]


def test_a_replay_leads_to_its_run_and_to_its_case(documents: Documents) -> None:
    name = documents.home().replays[0].name

    page = documents.evidence.replay_page(name)

    assert page.result.verdict == "reproduced"
    assert page.result.run is None, "the run has an address of its own"
    assert (page.run, page.recorded) == (f"replay:{name}", "case:cases/billing")
    run = documents.spool(page.run).finished_page()
    assert (run.address, run.header.status, run.opens_at) == (page.run, "error", 0)
    assert documents.spool(page.recorded).event(0).row.title == "lookup(user='ann')"


def test_a_case_is_judged_on_its_recorded_run(documents: Documents) -> None:
    page = documents.evidence.case_page("cases/billing")

    assert page.text.startswith("replaykit:")
    assert page.observed
    assert all(finding.holds for finding in page.observed)
    assert page.proof.startswith("seen red with the recorded run on 20")
    assert page.problems == ()


def test_a_case_without_a_trace_says_so(documents: Documents) -> None:
    directory = Path("cases/written")
    directory.mkdir()
    case = {"replaykit": 2, "id": "written", "observed": [{"status_is": "error"}]}
    (directory / "case.yaml").write_text(json.dumps(case))

    assert documents.evidence.case_page("cases/written").problems == ("The case has no source trace to judge.",)
    with pytest.raises(UsageError, match="has no source trace"):
        documents.spool("case:cases/written")


def test_they_are_served_under_names_with_slashes(documents: Documents) -> None:
    name = documents.home().replays[0].name
    with served(documents) as client:
        assert client.get("api/case/cases%2Fbilling").json["title"]
        assert client.get(f"api/replay/{name}").json["result"]["verdict"] == "reproduced"
        assert client.rows("case%3Acases%2Fbilling")[-1]["page"]["opens_at"] == 0
        assert client.rows(f"replay%3A{name}")[0]["rows"][0][2] == "lookup(user='ann')"


def test_what_is_not_listed_is_not_read(documents: Documents) -> None:
    Path("secret").mkdir()
    Path("secret/result.json").write_text("{}")
    Path("secret/case.yaml").write_text("replaykit: 2\nid: secret\n")

    for name in ("../secret", "secret/../../secret", "", ".", "..", "/etc"):
        with pytest.raises(UsageError, match="no replay"):
            documents.evidence.replay_page(name)
    for name in ("secret", "../cases/billing", "/etc"):
        with pytest.raises(UsageError, match="no case"):
            documents.evidence.case_page(name)


def test_broken_evidence_is_listed_as_such(documents: Documents) -> None:
    Path("runs/20990101-000000-broken").mkdir()
    Path("runs/20990101-000000-broken/result.json").write_text("{")

    newest = documents.home().replays[0]

    assert newest.name == "20990101-000000-broken"
    assert newest.reason.startswith("it cannot be read")
    with pytest.raises(UsageError, match="cannot be read"):
        documents.evidence.replay_page(newest.name)


@pytest.mark.parametrize(
    ("words", "route"),
    [
        ((), ""),
        (("last",), "#/run/RUN"),
        (("billing", "RUN"), "#/compare/RUN/RUN"),
        (("cases/billing",), "#/case/cases%2Fbilling"),
        (("runs/REPLAY",), "#/replay/REPLAY"),
        (("runs/REPLAY/result.json",), "#/replay/REPLAY"),
    ],
)
def test_the_words_of_the_command_line_lead_to_a_page(documents: Documents, words: tuple[str, ...], route: str) -> None:
    names = {"RUN": documents.home().runs[0].id, "REPLAY": documents.home().replays[0].name}

    def filled(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        found = find_target(tuple(map(filled, words)), store, documents.evidence, suites_of(documents))

    assert found.route == filled(route)


@pytest.mark.parametrize(("word", "error"), [("nobody", RunNotFound), ("no/where", UsageError), ("runs", InvalidFile)])
def test_a_wrong_target_is_an_error(documents: Documents, word: str, error: type[ReplayKitError]) -> None:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store, pytest.raises(error):
        find_target((word,), store, documents.evidence, suites_of(documents))


def test_a_project_without_a_store_has_a_page() -> None:
    documents = Documents(None, EvidenceReader(Path("runs"), [Path("cases")]), project="new")

    assert documents.home().runs == ()
    with pytest.raises(RunNotFound, match="no store yet"):
        documents.spool("last")
    with pytest.raises(UsageError, match="no store yet"):
        find_target(("last",), None, documents.evidence, suites_of(documents))


def test_replays_and_cases_are_shared_with_their_runs(documents: Documents) -> None:
    name = documents.home().replays[0].name
    for address in (f"replay:{name}", "case:cases/billing"):
        write_shared_file(Path("out.html"), documents, ViewTarget((address,)).shared_pages(documents))
        text = Path("out.html").read_text()
        path = address.replace(":", "/").replace("cases/", "cases%2F")
        assert f'data-path="{path}"' in text
        assert f'data-path="run/{address.replace(":", "%3A").replace("/", "%2F")}/event"' in text


DEEP = b"[" * 100_000
ODD_NAME = os.fsdecode(b"odd-\xff")


@pytest.mark.parametrize(
    "text", [b'{"case_id":"\xff","verdict":"fixed"}', b'{"case_id":"a","verdict":"fixed","x":' + DEEP, DEEP, b""]
)
def test_a_damaged_result_is_listed_with_its_problem(documents: Documents, text: bytes) -> None:
    damaged = Path("runs/damaged")
    damaged.mkdir()
    (damaged / "result.json").write_bytes(text)

    with served(documents) as client:
        home = client.get("api/home").json
        page = client.get("api/replay/damaged")

    reasons = {replay["name"]: replay.get("reason", "") for replay in home["replays"]}
    assert len(reasons) == 2
    assert "it cannot be read" in reasons["damaged"]
    assert page.status == 404
    assert "cannot be read" in page.json["problem"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take no such names")
def test_names_that_are_not_utf8_are_shown_escaped(documents: Documents) -> None:
    shutil.copytree(next(Path("runs").glob("*/result.json")).parent, f"runs/{ODD_NAME}")
    shutil.copytree("cases/billing", f"cases/{ODD_NAME}")
    Path(f"cases/{ODD_NAME}-damaged").mkdir()
    Path(f"cases/{ODD_NAME}-damaged/case.yaml").write_text("nonsense: 1")

    with served(documents) as client:
        home = client.get("api/home").json
        page = client.get("api/case/cases%2Fodd-%5Cudcff")
        damaged = client.get("api/case/cases%2Fodd-%5Cudcff-damaged")
        replay = client.get("api/replay/odd-%5Cudcff")

    assert "odd-\\udcff" in [replay["name"] for replay in home["replays"]]
    assert [case["name"] for case in home["cases"]] == [
        "cases/billing",
        "cases/odd-\\udcff",
        "cases/odd-\\udcff-damaged",
    ]
    assert page.status == 200
    assert page.json["path"] == "cases/odd-\\udcff/case.yaml"
    assert (damaged.status, replay.status) == (404, 404)


@pytest.mark.parametrize("name", ["x" * 300, "a%00b"])
@pytest.mark.parametrize("page", ["replay", "case", "suite"])
def test_impossible_names_lead_nowhere(documents: Documents, page: str, name: str) -> None:
    shown = Documents(None, documents.evidence, suites=suites_of(documents))
    with served(shown) as client:
        answer = client.get(f"api/{page}/{name}")

    assert answer.status == 404
    assert answer.json["problem"]
    assert documents.evidence.name_of(f"runs/{name}") == ""
