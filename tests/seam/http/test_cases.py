"""A recorded run with HTTP in it becomes a case, and the case replays without a server."""

from __future__ import annotations

import json

import httpx
import pytest
import requests

import replaykit as rk
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.scaffold import scaffold

JSON = [("Content-Type", "application/json")]


@pytest.fixture
def agent(server):
    """Asks a model for a place and a service for its weather, and fails on what the service says."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Zürich"}, "finish_reason": "stop"}
    chat = server.says("/v1/chat/completions", chunks=[json.dumps({"choices": [choice]}).encode()], headers=JSON)
    weather = server.says("/weather", status=500, chunks=[b'{"error": ', b'"no weather today"}'], headers=JSON)

    def ask(question: str) -> str:
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": question}]}
        place = httpx.post(chat, json=body).json()["choices"][0]["message"]["content"]
        response = requests.get(weather, params={"place": place})
        response.raise_for_status()
        return response.text

    return ask


@pytest.fixture
def case(agent, store, tmp_path):
    with pytest.raises(requests.HTTPError):
        with rk.record("weather", input="How is the weather?", store=store) as run:
            agent("How is the weather?")
    return scaffold(store.load(run.id), tmp_path / "cases" / "weather")


def test_a_failed_run_with_exchanges_becomes_a_case_that_reproduces(case, agent, server):
    asked = len(server.requests)

    result = rk.replay(case, agent)

    assert result.verdict == "reproduced", result
    assert result.deviations == ()
    assert len(server.requests) == asked


def test_a_fix_is_seen_as_one(case, agent):
    def fixed(question):
        try:
            return agent(question)
        except requests.HTTPError as error:
            return f"no idea: {error.response.json()['error']}"

    result = rk.replay(case, fixed)

    assert result.verdict == "fixed", result
    assert result.run.output == "no idea: no weather today"


def test_fixtures_are_named_after_models_and_places(case, tmp_path):
    files = {file.name.split("-")[0] for file in (tmp_path / "cases" / "weather" / "fixtures").iterdir()}

    assert files == {"model.gpt", "exchange.get"}
    assert [call.kind for call in read_fixtures(tmp_path / "cases" / "weather")] == ["llm_call", "exchange"]


def test_an_answer_can_be_edited_in_the_fixture(case, agent, tmp_path):
    (file,) = (tmp_path / "cases" / "weather" / "fixtures").glob("exchange.*.json")
    content = json.loads(file.read_text())
    (call,) = content["calls"]
    call["items"] = ["snow, ", "and more of it"]
    call["wire"] |= {
        "status": 200,
        "reason": "OK",
        "headers": [["Content-Type", "text/plain"], ["Content-Length", "1"]],
    }
    file.write_text(json.dumps(content))

    result = rk.replay(tmp_path / "cases" / "weather", agent)

    assert result.verdict == "fixed", result
    assert result.run.output == "snow, and more of it"


def test_an_agent_that_asks_something_else_is_told_what_was_recorded(case, agent):
    def other(question):
        return httpx.get("http://elsewhere/weather").text

    result = rk.replay(case, other)

    assert result.verdict == "diverged"
    assert "request `GET elsewhere/weather`" in result.deviations[0].text
