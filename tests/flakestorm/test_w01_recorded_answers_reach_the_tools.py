"""W1: what a session says that the tools answered is what the agent's tools answer, and no real tool is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.incident import market_data_api, web_search

import replaykit as rk

Run = Callable[..., Any]


def test_the_documented_incident_passes_with_an_honest_agent_and_touches_no_real_tool(
    files: Any, replaykit: Run
) -> None:
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("replay", session, "-c", "flakestorm.yaml", "--json")

    assert (ran.code, ran.result["verdict"]) == (0, "fixed")
    assert [finding["id"] for finding in ran.result["desired"]] == ["says-so", "no-figure"]
    assert not files.touched


def test_the_agent_meets_the_status_and_the_response_as_a_tool_error(files: Any, replaykit: Run) -> None:
    files.agents("""
        def telling(question):
            seen = []
            for tool in (market_data_api, web_search):
                try:
                    tool(question)
                except rk.ToolError as error:
                    seen.append([error.status, error.response])
            return {"unavailable": seen}
    """)
    files.config("agents:telling")
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("replay", session, "--json")

    assert ran.result["run"]["output"] == {"unavailable": [[504, None], [0, "Connection reset by peer"]]}


def test_recorded_latency_is_seen_and_not_slept(files: Any, replaykit: Run) -> None:
    session = files.write("replays/incident_001.yaml", files.incident)

    run = replaykit("replay", session, "--json").result["run"]

    first = next(event for event in run["events"] if event["name"] == "market_data_api")
    assert first["duration_s"] == 30.0
    assert run["ended_at"] - run["started_at"] < 20


def test_each_answer_is_given_once_in_its_order_and_then_the_tool_is_blocked(files: Any, replaykit: Run) -> None:
    files.agents("""
        def asking(question):
            return f"unavailable {web_search('a')} {web_search('b')}"
        def asking_more(question):
            asking(question)
            web_search("c")
    """)
    answers = [{"tool": "web_search", "response": 1}, {"tool": "web_search", "response": 2}]
    session = files.session(tool_responses=answers)

    files.config("agents:asking")
    assert replaykit("replay", session, "--json").result["run"]["output"] == "unavailable 1 2"

    files.config("agents:asking_more")
    ran = replaykit("replay", session, "--json")
    assert (ran.code, ran.result["verdict"]) == (1, "diverged")
    assert [told["kind"] for told in ran.result["deviations"]] == ["missing"]
    assert not files.touched


def test_a_tool_that_was_not_recorded_is_blocked_even_when_the_agent_swallows_it(files: Any, replaykit: Run) -> None:
    files.agents("""
        def swallowing(question):
            try:
                market_data_api(question)
            except Exception:
                return "unavailable"
    """)
    files.config("agents:swallowing")

    ran = replaykit("replay", files.session(tool_responses=[]), "--json")

    assert (ran.code, ran.result["verdict"]) == (1, "diverged")
    assert "left the tape" in ran.result["reason"]
    assert not files.touched


def finance_app(environ: Any, start_response: Any) -> Any:
    """An agent behind HTTP whose real tools raise."""
    question = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))["input"]
    said = "The figure is unavailable."
    for tool in (market_data_api, web_search):
        try:
            said = tool(question)
        except rk.ToolError:
            continue
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"output": said}).encode()]


def test_an_http_agent_with_the_middleware_is_served_the_same_incident(
    files: Any, replaykit: Run, served: Callable[[Any], str]
) -> None:
    url = served(rk.middleware.wsgi(finance_app, enabled=True))
    files.config(f"{url}/ask", agent={"type": "http"})
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("replay", session, "--json")

    assert (ran.code, ran.result["verdict"]) == (0, "fixed")
    assert [event["name"] for event in ran.result["run"]["events"]] == ["market_data_api", "web_search"]
    assert ran.result["deviations"] == []
    assert not files.touched


def test_an_http_agent_without_it_is_not_asked_and_nothing_is_claimed(
    files: Any, replaykit: Run, served: Callable[[Any], str]
) -> None:
    url = served(finance_app)
    files.config(f"{url}/ask", agent={"type": "http"})
    session = files.write("replays/incident_001.yaml", files.incident)

    ran = replaykit("replay", session, "--json")

    assert (ran.code, ran.result["verdict"]) == (3, "inconclusive")
    assert "takes no tape" in ran.result["reason"]
    assert "agent.tools: live" in ran.result["reason"]
    assert not files.touched


def test_an_http_agent_with_live_tools_is_asked_when_the_person_who_runs_it_allows_that_and_the_result_tells(
    files: Any, replaykit: Run, served: Callable[[Any], str]
) -> None:
    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return [b'{"output": "unavailable"}']

    files.config(f"{served(app)}/ask", agent={"type": "http", "tools": "live"})
    session = files.write("replays/incident_001.yaml", files.incident)

    refused = replaykit("replay", session, "--json")
    ran = replaykit("replay", session, "--live", "*", "--json")

    assert (refused.code, refused.result["verdict"]) == (3, "inconclusive")
    assert refused.result["reason"].endswith("which was not allowed\nTo allow it: --live '*'")
    assert [told["kind"] for told in refused.result["deviations"]] == ["refused"]
    assert (ran.result["verdict"], ran.result["offline"]) == ("fixed", False)
    assert [told["kind"] for told in ran.result["deviations"]] == ["live"]


def test_an_http_agent_with_live_tools_is_asked_once_though_the_session_has_another_take(
    files: Any, replaykit: Run, served: Callable[[Any], str]
) -> None:
    requests: list[str] = []

    def app(environ: Any, start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] == "POST":
            requests.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [b'{"output": "unavailable"}']

    session = files.write("replays/incident_001.yaml", files.incident)
    retaped = replaykit("retape", session, "-c", "flakestorm.yaml", "--json")
    assert retaped.code == 0, retaped
    files.config(f"{served(app)}/ask", agent={"type": "http", "tools": "live"})

    ran = replaykit("replay", session, "--live", "*", "--json")

    assert (ran.result["verdict"], ran.result["offline"]) == ("fixed", False)
    assert requests.count("/ask") == 1


FAULTS = {"tool_faults": [{"tool": "*", "mode": "error", "error_code": 500, "message": "down"}]}


def test_faults_reach_the_tools_behind_the_middleware_and_are_refused_without_it(
    files: Any, replaykit: Run, served: Callable[[Any], str]
) -> None:
    chaos = files.write("faults.yaml", json.dumps(FAULTS))
    answers = [{"tool": tool, "response": "$5 billion"} for tool in ("market_data_api", "web_search")]
    session = files.session(tool_responses=answers)

    files.config(served(rk.middleware.wsgi(finance_app, enabled=True)), agent={"type": "http"})
    assert replaykit("replay", session, "--json").result["run"]["output"] == "$5 billion"
    taped = replaykit("replay", session, "--chaos", chaos, "--json").result
    files.config(served(finance_app), agent={"type": "http", "tools": "live"})
    plain = replaykit("replay", session, "--chaos", chaos, "--json").result

    assert (taped["verdict"], taped["run"]["output"]) == ("fixed", "The figure is unavailable.")
    assert plain["verdict"] == "inconclusive"
    assert "faults cannot reach its tools" in plain["reason"]
    assert not files.touched
