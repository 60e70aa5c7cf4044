"""Runs that LangSmith keeps: found by id or in a project, whole, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.langsmith_server import KEY, FakeLangSmith, Said, flat, incident

import replaykit as rk
from replaykit.cases.session import load_session
from replaykit.formats.core.labels import labels_of
from replaykit.model.events import ToolCall

Run = Callable[..., Any]
ONE = ("import", "langsmith", "--trace", "abc123def456")
ALL = ("import", "langsmith", "--project", "my-production-agent", "--json")


def kept(run_id: str = "abc123def456") -> rk.TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


@pytest.mark.parametrize("versions", [(1,), (1, 2)])
def test_a_run_comes_in_with_the_runs_below_it_from_every_page(
    replaykit: Run, langsmith: FakeLangSmith, versions: tuple[int, ...]
) -> None:
    langsmith.versions, langsmith.page = versions, 2

    ran = replaykit(*ONE, "--json")

    assert (ran.code, ran.results) == (0, {"abc123def456": "imported"})
    run = kept()
    assert (run.input, run.status, str(run.error)) == (
        "What was ACME Corp's Q3 revenue?",
        "error",
        "ValueError: no figure",
    )
    assert [(call.name, call.arguments) for call in run.tool_calls] == [
        ("market_data_api", {"company": "ACME"}),
        ("web_search", {"query": "ACME"}),
    ]
    assert run.tool_calls[1].result == "Nothing found"
    assert run.origin.format == "langsmith"
    pages = [seen.body.get("cursor") for seen in langsmith.seen if seen.path == f"/api/v{versions[-1]}/runs/query"]
    assert pages == [None, "2", "4"]


def test_both_versions_give_the_same_run(replaykit: Run, langsmith: FakeLangSmith) -> None:
    langsmith.versions = (1,)
    replaykit(*ONE)

    langsmith.versions = (1, 2)
    ran = replaykit(*ONE, "--store", "second.db")

    assert ran.code == 0
    with rk.Store.open("second.db") as store:
        second = store.load("abc123def456")
    assert second.events == kept().events
    assert (second.input, second.started_at, second.ended_at) == (kept().input, kept().started_at, kept().ended_at)


def test_a_run_that_comes_in_twice_is_one_run(replaykit: Run, langsmith: FakeLangSmith) -> None:
    replaykit(*ONE)

    ran = replaykit(*ONE, "--json")

    assert ran.results == {"abc123def456": "unchanged"}
    assert len(json.loads(replaykit("runs", "--json").out)["runs"]) == 1


def test_a_run_that_has_gone_on_since_is_brought_up_to_date(replaykit: Run, langsmith: FakeLangSmith) -> None:
    replaykit(*ONE)
    langsmith.runs[-1]["outputs"] = {"output": "A figure"}

    ran = replaykit(*ONE, "--json")

    assert ran.results == {"abc123def456": "updated"}
    assert kept().tool_calls[1].result == "A figure"


def test_a_recorded_run_is_never_overwritten(replaykit: Run, langsmith: FakeLangSmith, monkeypatch: Any) -> None:
    run = rk.TraceRun(id="abc123def456", name="mine")
    with rk.Store.open(".replaykit/store.db") as store:
        store.add(run)

    ran = replaykit(*ONE, "--json")

    assert (ran.code, ran.results) == (1, {"abc123def456": "failed"})
    assert "the store holds another run 'abc123def456' already: recorded" in ran.err
    assert kept().name == "mine"


def test_a_run_inside_of_a_trace_comes_in_with_what_is_below_it_alone(replaykit: Run, langsmith: FakeLangSmith) -> None:
    ran = replaykit("import", "langsmith", "--trace", "abc123def456-tools")

    assert ran.code == 0
    assert "the run it is a part of is not in the file" in ran.err
    assert [event.name for event in kept("abc123def456-tools").tool_calls] == ["market_data_api", "web_search"]
    assert not kept("abc123def456-tools").llm_calls


def test_several_runs_are_named_and_one_that_is_not_there_stops_no_other(
    replaykit: Run, langsmith: FakeLangSmith
) -> None:
    ran = replaykit(*ONE, "--trace", "nowhere", "--trace", "abc123def456", "--json")

    assert (ran.code, ran.results) == (1, {"abc123def456": "imported", "nowhere": "failed"})


def test_a_run_is_found_in_its_project_where_the_first_version_is_gone(
    replaykit: Run, langsmith: FakeLangSmith
) -> None:
    langsmith.versions = (2,)

    alone = replaykit(*ONE)
    ran = replaykit(*ONE, "--project", "my-production-agent", "--json")

    assert (alone.code, "name its project too" in alone.err) == (2, True)
    assert (ran.code, ran.results) == (0, {"abc123def456": "imported"})


@pytest.mark.parametrize("versions", [(1,), (1, 2)])
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), ["late", "abc123def456", "quick"]),
        (("--status", "all"), ["late", "abc123def456", "quick", "troubled", "well"]),
        (("--status", "warning"), ["troubled"]),
        (("--min-latency-ms", "6000"), ["late", "abc123def456"]),
        (("--min-latency-ms", "6000.5"), []),
        (("--limit", "2"), ["late", "abc123def456"]),
        (("--since", "24h"), []),
        (("--since", "2001-01-01"), ["late", "abc123def456", "quick"]),
    ],
)
def test_the_runs_of_a_project_that_are_wanted_come_in_newest_first(
    replaykit: Run, langsmith: FakeLangSmith, versions: tuple[int, ...], options: tuple[str, ...], wanted: list[str]
) -> None:
    failed = {"error": "ValueError('no')", "status": "error", "inputs": {"input": "Hi"}}
    troubled = flat("troubled", after_s=-20)
    langsmith.versions, langsmith.page = versions, 3
    langsmith.runs += [
        flat("late", after_s=60, **failed),
        flat("quick", after_s=-10, **failed, end_time=flat("x", after_s=-9)["start_time"]),
        troubled,
        flat("web_search", "tool", above=troubled, after_s=-20, error="TimeoutError('no')", status="error"),
        flat("well", after_s=-30, outputs={"output": "fine"}),
        flat("going", after_s=9, status="pending"),
    ]

    ran = replaykit(*ALL, *options)

    found = list(ran.results) if ran.code != 5 else []
    assert (ran.code, found) == (0 if wanted else 5, wanted)
    assert ("has not ended" in ran.err) == (options[:1] == ("--status",))
    assert ("raise the limit" in ran.err) == (options == ("--limit", "2"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no traces selected"),
        (("--project", "nope"), "LangSmith has no project 'nope'"),
        (("--trace", "nope"), "LangSmith has no run 'nope'"),
        (("--trace", "../sessions?name=x"), "LangSmith has no run '../sessions?name=x'"),
        (("--project", "my-production-agent", "--since", "lst_7_days"), "did you mean 'last_7_days'?"),
        (("--trace", "abc123def456", "--run", "--dry-run"), "cannot be combined"),
    ],
)
def test_a_wrong_call_is_told_and_makes_no_store(
    replaykit: Run, langsmith: FakeLangSmith, arguments: tuple[str, ...], said: str
) -> None:
    ran = replaykit("import", "langsmith", *arguments)

    assert ran.code == 2
    assert said in ran.err
    assert not Path(".replaykit").exists()


@pytest.mark.parametrize("more", [("--since", "7d"), ("--status", "all"), ("--limit", "3"), ("--min-latency-ms", "1")])
def test_what_chooses_among_many_does_not_go_with_one(
    replaykit: Run, langsmith: FakeLangSmith, more: tuple[str, ...]
) -> None:
    ran = replaykit(*ONE, *more)

    assert (ran.code, langsmith.seen) == (2, [])
    assert f"--trace names one, and {more[0]} chooses among many" in ran.err


def test_a_dry_run_shows_a_table_and_writes_nothing(replaykit: Run, langsmith: FakeLangSmith) -> None:
    ran = replaykit(*ONE, "--dry-run", "-o", "replays")

    assert ran.code == 0
    assert "abc123def456  imported  error" in ran.out
    assert "nothing was written; a real import would give: 1 imported" in ran.out
    assert not list(Path().iterdir())


def test_a_session_holds_what_was_really_seen(replaykit: Run, langsmith: FakeLangSmith) -> None:
    replaykit(*ONE, "-o", "replays", "--contract", "Finance")

    session = load_session(Path("replays/abc123def456.yaml"))

    assert (session.source, session.contract, session.name) == ("langsmith", "Finance", "agent")
    failed, found = session.calls
    assert (failed.name, failed.arguments, failed.duration_s) == ("market_data_api", {"company": "ACME"}, 6.0)
    assert failed.error is not None
    assert "gave no answer: TimeoutError: no answer in 30 s" in failed.error.message
    assert (found.result, found.error) == ("Nothing found", None)


def test_a_session_of_json_is_written_where_the_file_says_so(replaykit: Run, langsmith: FakeLangSmith) -> None:
    assert replaykit(*ONE, "-o", "one.json").code == 0

    assert json.loads(Path("one.json").read_text())["tool_responses"][1]["response"] == "Nothing found"


def test_one_file_holds_no_two_runs(replaykit: Run, langsmith: FakeLangSmith) -> None:
    langsmith.runs += incident("second")

    ran = replaykit(*ALL, "-o", "one.yaml")

    assert ran.code == 2
    assert "-o replays/" in ran.err


def test_a_session_that_was_changed_by_hand_is_not_overwritten_unless_asked(
    replaykit: Run, langsmith: FakeLangSmith
) -> None:
    replaykit(*ONE, "-o", "replays")
    file = Path("replays/abc123def456.yaml")
    theirs = file.read_text() + "contract: Mine\n"
    file.write_text(theirs)

    ran = replaykit(*ONE, "-o", "replays")

    assert (ran.code, "Replace it: --force" in ran.err, file.read_text()) == (1, True, theirs)
    assert replaykit(*ONE, "-o", "replays", "--force").code == 0
    assert file.read_text() != theirs


def test_answers_inside_of_a_tool_are_not_given_to_a_candidate(replaykit: Run, langsmith: FakeLangSmith) -> None:
    outer = langsmith.runs[-1]
    langsmith.runs.append(flat("inner", "tool", above=outer, after_s=4, outputs={"output": 1}))

    replaykit(*ONE, "-o", "one.yaml")

    assert [call.name for call in load_session(Path("one.yaml")).calls] == ["market_data_api", "web_search"]
    assert [event.name for event in kept().events if isinstance(event, ToolCall)][-1] == "inner"


def test_no_session_is_made_where_an_answer_is_missing_before_others(replaykit: Run, langsmith: FakeLangSmith) -> None:
    tools = langsmith.runs[2]
    langsmith.runs[-1]["outputs"] = None
    langsmith.runs.append(flat("web_search", "tool", above=tools, after_s=9, id="more", outputs={"output": 2}))

    ran = replaykit(*ONE, "-o", "one.yaml", "--json")

    assert (ran.code, ran.results) == (1, {"abc123def456": "imported"})
    assert "an answer of 'web_search' is not known, and later ones are" in ran.err
    assert not Path("one.yaml").exists()


def test_what_is_stored_apart_is_fetched_without_the_key(replaykit: Run, langsmith: FakeLangSmith) -> None:
    langsmith.versions = (1,)
    langsmith.payloads = {"/blob/in": {"input": "the whole question"}, "/blob/out": {"output": "a long answer"}}
    question, answer = {"presigned_url": f"{langsmith.url}/blob/in?sig=s"}, {"presigned_url": "/blob/out?sig=s"}
    langsmith.runs[0] |= {"inputs": None, "inputs_s3_urls": {"ROOT": question}}
    langsmith.runs[-1] |= {"outputs": None, "outputs_s3_urls": {"ROOT": answer}}

    ran = replaykit(*ONE)

    assert ran.code == 0
    assert (kept().input, kept().tool_calls[1].result) == ("the whole question", "a long answer")
    blobs = [seen for seen in langsmith.seen if seen.path.startswith("/blob")]
    assert len(blobs) == 2
    assert not [seen for seen in blobs if "x-api-key" in seen.headers]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            {"ROOT": {"presigned_url": "https://u@bucket.example/x?sig=secret"}},
            "REPLAYKIT_PAYLOAD_HOSTS=bucket.example",
        ),
        ({"ROOT": {"presigned_url": "http://169.254.169.254/latest"}}, "at 169.254.169.254, which is not allowed"),
        ({"ROOT": {"presigned_url": "file:///etc/passwd"}}, "which is not allowed"),
        ({"ROOT": {"presigned_url": "http://[/"}}, "the address is not valid"),
        ({"ROOT": {"presigned_url": "/gone"}}, "answered 401"),
        ({"ROOT": 3}, "no address is given"),
        ({"other": {}}, "no address is given"),
    ],
)
def test_what_is_stored_where_nobody_allowed_is_not_fetched_and_no_session_lies_about_it(
    replaykit: Run, langsmith: FakeLangSmith, place: Any, said: str
) -> None:
    langsmith.versions = (1,)
    langsmith.runs[0] |= {"inputs": None, "inputs_s3_urls": place}

    ran = replaykit(*ONE, "-o", "one.yaml")

    assert ran.code == 1
    assert said in ran.err
    assert "secret" not in ran.err + ran.out
    assert "its input is not known" in ran.err
    assert not Path("one.yaml").exists()


@pytest.mark.parametrize("versions", [(1,), (1, 2)])
def test_feedback_that_says_failure_makes_the_run_one(
    replaykit: Run, langsmith: FakeLangSmith, versions: tuple[int, ...]
) -> None:
    said = {
        "correctness": {"n": 2, "avg": 0.0, "values": {}, "comments": ["made up", "no source"]},
        "tone": {"n": 1, "avg": None, "values": {"friendly": 1}, "comments": []},
        "empty": {"n": 0, "avg": None, "values": {}},
    }
    fine = {"error": None, "status": "success", "outputs": {"output": "19.9"}, "feedback_stats": said}
    langsmith.runs, langsmith.versions = incident(**fine), versions

    ran = replaykit(*ONE)

    assert (ran.code, kept().status) == (0, "error")
    labels = {label.name: (label.value, label.failed, label.why) for label in labels_of(kept())}
    assert labels == {"correctness": (0.0, True, "made up; no source"), "tone": ("friendly", False, "")}


def test_half_a_character_in_one_run_costs_no_other(replaykit: Run, langsmith: FakeLangSmith) -> None:
    broken = incident("broken", inputs={"input": "half \ud83d and \U0001f600"})
    broken[0]["name"] = "na\ud800me\x1b[31m"
    langsmith.runs += broken + incident("odd", inputs={"input": float("nan")})

    ran = replaykit(*ALL, "-o", "replays")

    assert (ran.code, ran.results) == (0, dict.fromkeys(["abc123def456", "broken", "odd"], "imported"))
    assert kept("broken").input == "half \ufffd and \U0001f600"
    assert load_session(Path("replays/broken.yaml")).name == "na\ufffdme [31m"
    assert "\x1b[31m" not in replaykit("import", "langsmith", "--trace", "broken").out


def test_nothing_of_the_key_is_left_behind(replaykit: Run, langsmith: FakeLangSmith) -> None:
    told = []
    for said in (None, Said(418, {"detail": f"bad key {KEY}"}), Said(302, b"", {"location": "http://127.0.0.1:9/x"})):
        langsmith.said = lambda seen, said=said: said
        told.append(replaykit("--debug", *ONE, "-o", "replays"))

    assert [ran.code for ran in told] == [0, 3, 3]
    assert not [ran for ran in told if KEY in ran.out + ran.err]
    assert "bad key ${LANGSMITH_API_KEY}" in told[1].err
    files = [file for file in Path().rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


def test_the_workspace_is_named_in_every_request(
    replaykit: Run, langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_WORKSPACE_ID", "w-1")

    replaykit(*ALL)

    assert {seen.headers.get("x-tenant-id") for seen in langsmith.seen} == {"w-1"}


def test_runs_are_replayed_right_away(replaykit: Run, langsmith: FakeLangSmith) -> None:
    Path("agents.py").write_text(
        "import replaykit as rk\n@rk.tool\ndef market_data_api(company): raise SystemError\n"
        "def answer(question):\n    try:\n        market_data_api(company='ACME')\n    except rk.ToolError:\n"
        "        return 'unavailable'\n"
    )
    config = {"replaykit": 1, "agent": {"type": "python", "endpoint": "agents:answer"}}
    contract = {"invariants": [{"id": "says-so", "type": "contains", "value": "unavailable"}]}
    Path("replaykit.yaml").write_text(json.dumps({**config, "contracts": {"Finance": contract}}))

    ran = replaykit(*ONE, "--run", "--json")

    (result,) = json.loads(ran.out)["results"]
    assert (ran.code, result["case_id"], result["verdict"]) == (0, "abc123def456", "fixed")
    assert "1 imported; 1 session" in ran.err
    langsmith.runs += incident("mute", inputs=None)
    assert replaykit(*ALL, "--run").code == 1
