"""W24: the configuration and the commands of the format's own documentation, against a LangSmith on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.incident import market_data_api, web_search
from tests.langsmith_server import FakeLangSmith, flat, incident, langsmith_server, set_account
from tests.matrix import sampled

import replaykit as rk
from replaykit.cases.session import load_session

Run = Callable[..., Any]
Serve = Callable[[Any], str]

REPLAYS = """\
replays:
  sessions:
    - file: "replays/incident_001.yaml"
    - id: "inline-001"
      input: "What is the capital of France?"
      contract: "Research Agent Contract"
      tool_responses: []
  # LangSmith sources (import by project or run ID; auto_import re-fetches on each run/ci)
  sources:
    - type: langsmith
      project: "my-production-agent"
      filter:
        status: error           # error | warning | all
        date_range: last_7_days
        min_latency_ms: 5000
      auto_import: true
    - type: langsmith_run
      run_id: "abc123def456"
"""

CONFIG = """\
version: "2.0"
agent:
  endpoint: "ENDPOINT"
  type: TYPE
  timeout: 20000
contract:
  name: "Research Agent Contract"
  invariants:
    - {id: says-so, type: contains, value: unavailable, severity: critical, when: tool_faults_active}
    - {id: no-figure, type: regex, pattern: "[$][0-9]", negate: true}
    - {id: answers, type: output_not_empty}

"""

AGENT = """
    def researcher(question):
        if "France" in question:
            return "Paris"
        asked(market_data_api, question), asked(web_search, question)
        return "The figure is unavailable."

    def dreamer(question):
        return "Paris" if "France" in question else inventive(question)
"""

IDS = ["incident-2026-02-15", "inline-001", "slow", "abc123def456"]


@pytest.fixture
def langsmith(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLangSmith]:
    with langsmith_server() as fake:
        set_account(fake, monkeypatch)
        fake.runs = [
            *incident("slow"),
            *incident("fast", end_time=flat("x")["start_time"]),
            *incident("well", error=None, status="success", outputs={"output": "unavailable"}),
            *long_ago(incident("old")),
            *elsewhere(incident()),
        ]
        yield fake


def long_ago(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The trace, eight days earlier."""
    for run in runs:
        for name in ("start_time", "end_time"):
            run[name] = (datetime.fromisoformat(run[name]) - timedelta(days=8)).isoformat()
    return runs


def elsewhere(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The trace, in another project."""
    return [{**run, "session_id": "2f6e2b6a-0000-4000-8000-000000000000"} for run in runs]


@pytest.fixture
def project(files: Any) -> Any:
    """The document's configuration, with the agent and the contract that it leaves out."""
    files.agents(AGENT)
    files.write("replays/incident_001.yaml", files.incident.replace("Finance Agent", "Research Agent"))
    files.write("flakestorm.yaml", CONFIG.replace("ENDPOINT", "agents:researcher").replace("TYPE", "python") + REPLAYS)
    return files


def research_app(environ: Any, start_response: Any) -> Any:
    """An agent behind HTTP whose real tools raise."""
    question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))["input"]
    said = "Paris" if "France" in question else "The figure is unavailable."
    for tool in () if "France" in question else (market_data_api, web_search):
        try:
            tool(question)
        except rk.ToolError:
            continue
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"output": said}).encode()]


def items(ran: Any) -> dict[str, str]:
    return {item["id"]: item["outcome"] for item in json.loads(ran.out)["items"] if item["part"] == "replay"}


@sampled("version", [1, 2], count=1, start=1)
def test_ci_runs_the_documents_configuration_with_a_python_agent(
    project: Any, replaykit: Run, langsmith: FakeLangSmith, version: int
) -> None:
    langsmith.versions = (1,) if version == 1 else (1, 2)

    ran = replaykit("ci", "-c", "flakestorm.yaml", "--only", "replay", "--json")

    assert (ran.code, items(ran)) == (0, dict.fromkeys(IDS, "passed"))
    assert not project.touched
    queries = {seen.path for seen in langsmith.seen if seen.path.endswith("/runs/query")}
    assert f"/api/v{version}/runs/query" in queries


def test_ci_fails_an_agent_that_still_invents_figures(project: Any, replaykit: Run, langsmith: FakeLangSmith) -> None:
    config = Path("flakestorm.yaml")
    config.write_text(config.read_text().replace("agents:researcher", "agents:dreamer"))

    ran = replaykit("ci", "--only", "replay", "--json")

    assert (ran.code, items(ran)) == (1, {**dict.fromkeys(IDS, "failed"), "inline-001": "passed"})
    slow = next(item for item in json.loads(ran.out)["items"] if item["id"] == "slow")
    assert slow["contract"] == "Research Agent Contract"
    assert Path(slow["file"]).is_file()
    again = replaykit(*slow["command"].split()[1:])
    assert (again.code, "says-so" in again.out) == (1, True)
    assert not project.touched


def test_ci_runs_it_with_an_agent_behind_http(
    project: Any, replaykit: Run, langsmith: FakeLangSmith, served: Serve
) -> None:
    url = served(rk.middleware.wsgi(research_app, enabled=True))
    Path("flakestorm.yaml").write_text(CONFIG.replace("ENDPOINT", f"{url}/ask").replace("TYPE", "http") + REPLAYS)

    ran = replaykit("ci", "--only", "replay", "--json")

    assert (ran.code, items(ran)) == (0, dict.fromkeys(IDS, "passed"))
    assert not project.touched


def test_replay_without_a_path_merges_the_sources_as_well(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    ran = replaykit("replay", "--json")

    assert (ran.code, [result["case_id"] for result in ran.results]) == (0, IDS)


def test_what_is_imported_automatically_is_fetched_each_time_and_a_single_run_once(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    replaykit("import", "sources")
    kept = Path("replays/langsmith/abc123def456.yaml")
    assert load_session(kept).contract == "Research Agent Contract"
    langsmith.runs = [*incident("newer")]
    langsmith.seen.clear()

    ran = replaykit("replay", "--json")

    assert [result["case_id"] for result in ran.results] == [*IDS[:2], "newer", "abc123def456"]
    assert not [seen for seen in langsmith.seen if "abc123def456" in seen.path]


def test_offline_the_source_is_an_error_of_its_own_and_the_others_run(
    project: Any, replaykit: Run, langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaykit("import", "sources")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")

    ran = replaykit("ci", "--only", "replay", "--json")

    name = "langsmith my-production-agent"
    passed = [one for one in IDS if one != "slow"]
    assert (ran.code, items(ran)) == (3, {**dict.fromkeys(passed, "passed"), name: "error"})
    wrong = next(item for item in json.loads(ran.out)["items"] if item["id"] == name)
    line = Path("flakestorm.yaml").read_text().splitlines().index("    - type: langsmith") + 1
    assert (wrong["file"], wrong["line"]) == ("flakestorm.yaml", line)
    assert "cannot be reached" in wrong["reason"]
    assert wrong["command"] == "replaykit import sources -c flakestorm.yaml"
    assert replaykit("replay").code == 3


def without_auto_import() -> None:
    config = Path("flakestorm.yaml")
    config.write_text(config.read_text().replace("      auto_import: true\n", ""))


def test_a_project_that_is_not_imported_automatically_is_kept_and_needs_no_network_then(
    project: Any, replaykit: Run, langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_auto_import()
    assert replaykit("replay").code == 0
    (kept,) = Path("replays/langsmith").glob("my-production-agent-*")
    assert [file.name for file in kept.iterdir()] == ["slow.yaml"]
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")

    ran = replaykit("ci", "--only", "replay", "--json")

    assert (ran.code, items(ran)) == (0, dict.fromkeys(IDS, "passed"))


def test_what_was_kept_is_not_used_where_it_shall_be_fetched_each_time(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    config = Path("flakestorm.yaml")
    text = config.read_text()
    without_auto_import()
    replaykit("import", "sources")
    config.write_text(text)
    langsmith.runs = incident("newer")

    ran = replaykit("replay", "--json")

    assert [result["case_id"] for result in ran.results] == [*IDS[:2], "newer", "abc123def456"]


def test_another_filter_is_fetched_again(project: Any, replaykit: Run, langsmith: FakeLangSmith) -> None:
    without_auto_import()
    replaykit("import", "sources")
    config = Path("flakestorm.yaml")
    config.write_text(config.read_text().replace("min_latency_ms: 5000", "min_latency_ms: 0"))

    ran = replaykit("replay", "--json")

    assert {result["case_id"] for result in ran.results} == {*IDS, "fast"}


def test_a_run_that_cannot_be_made_a_session_is_one_error_each_time(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    without_auto_import()
    langsmith.runs += incident("mute", inputs=None)

    for _ in range(2):
        ran = replaykit("ci", "--only", "replay", "--json")

        name = "langsmith my-production-agent mute"
        assert (ran.code, items(ran)) == (3, {**dict.fromkeys(IDS, "passed"), name: "error"})
        assert "its input is not known" in ran.out


def test_a_run_that_langsmith_does_not_have_is_a_mistake_in_the_configuration(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    langsmith.runs = incident("slow")

    ran = replaykit("replay", "--json")

    assert ran.code == 2
    assert "flakestorm.yaml:" in ran.err
    assert "LangSmith has no run 'abc123def456'" in ran.err
    assert [result["verdict"] for result in ran.results] == ["fixed", "fixed", "fixed", "inconclusive"]


def test_a_run_that_is_there_as_a_file_already_is_replayed_once(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    config = Path("flakestorm.yaml")
    config.write_text(config.read_text().replace('"inline-001"', '"slow"'))

    ran = replaykit("replay", "--json")

    assert [result["case_id"] for result in ran.results] == ["incident-2026-02-15", "slow", "abc123def456"]


def test_import_sources_keeps_what_is_not_fetched_each_time(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    ran = replaykit("import", "sources", "--json")

    assert ran.code == 0
    (entry,) = json.loads(ran.out)["entries"]
    assert (entry["run"], entry["result"]) == ("abc123def456", "imported")
    assert "my-production-agent: fetched each time" in ran.err
    assert load_session(Path(entry["session"])).id == "abc123def456"
    again = replaykit("import", "sources", "--json")
    assert json.loads(again.out)["entries"][0]["result"] == "unchanged"


def test_a_run_by_its_id_is_replayed(project: Any, replaykit: Run, langsmith: FakeLangSmith) -> None:
    ran = replaykit("replay", "--from-langsmith", "abc123def456", "-c", "flakestorm.yaml", "--json")

    assert (ran.code, ran.result["case_id"], ran.result["verdict"]) == (0, "abc123def456", "fixed")
    assert "note: `replaykit import langsmith -o DIRECTORY --run` does the same" in ran.err
    assert [event["name"] for event in ran.result["run"]["events"]] == ["market_data_api", "web_search"]
    assert replaykit("show", "abc123def456").code == 0
    assert not project.touched


def test_a_run_by_its_id_is_written_and_replayed(project: Any, replaykit: Run, langsmith: FakeLangSmith) -> None:
    written = replaykit("replay", "--from-langsmith", "abc123def456", "-o", "replay.yaml")
    assert (written.code, "Result" in written.out) == (0, False)

    ran = replaykit("replay", "--from-langsmith", "abc123def456", "--run", "-o", "replay.yaml")

    assert (ran.code, "FIXED" in ran.out) == (0, True)
    session = load_session(Path("replay.yaml"))
    assert [(call.name, call.duration_s) for call in session.calls] == [("market_data_api", 6.0), ("web_search", 6.0)]
    assert session.expected_failure == "ValueError: no figure"
    assert session.contract == "Research Agent Contract"


@sampled("and_run", [(), ("--run",)], count=1, start=1)
def test_the_runs_of_a_project_are_written_one_file_each(
    project: Any, replaykit: Run, langsmith: FakeLangSmith, and_run: tuple[str, ...]
) -> None:
    chosen = ("--from-langsmith-project", "my-production-agent", "--filter-status", "error")

    ran = replaykit("replay", *chosen, "-o", "./replays/", *and_run, "--json")

    files = sorted(file.name for file in Path("replays").glob("*.yaml"))
    assert files == ["fast.yaml", "incident_001.yaml", "old.yaml", "slow.yaml"]
    assert ran.code == 0
    told = json.loads(ran.out)
    assert len(told["results" if and_run else "entries"]) == 3


def test_a_run_that_did_not_come_in_fails_a_replay_that_passes_otherwise(
    project: Any, replaykit: Run, langsmith: FakeLangSmith
) -> None:
    langsmith.runs += incident("bad", tags=3)

    ran = replaykit("replay", "--from-langsmith-project", "my-production-agent", "--json")

    assert {result["verdict"] for result in ran.results} == {"fixed"}
    assert (ran.code, "tags: expected a list" in ran.err) == (1, True)


def test_one_bad_run_of_a_project_stops_no_other(project: Any, replaykit: Run, langsmith: FakeLangSmith) -> None:
    langsmith.runs += incident("bad", tags=3) + incident("chat", inputs={"messages": [["user", "Hi"]]})

    ran = replaykit("import", "langsmith", "--project", "my-production-agent", "-o", "out", "--json")

    entries = {entry["run"]: entry for entry in json.loads(ran.out)["entries"]}
    assert ran.code == 1
    assert entries["bad"]["result"] == "failed"
    assert "tags: expected a list" in entries["bad"]["problem"]
    assert bytes(load_session(Path("out/chat.yaml")).input_json) == b'{"messages":[["user","Hi"]]}'
