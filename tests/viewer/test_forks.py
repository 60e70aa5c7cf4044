"""Forks from the page: as on the command line, with the same questions before anything happens for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.viewer.serving import Answer, Client, documents_of, served

import replaykit as rk
from replaykit.viewer.forks import PageForks

AGENT = """
import sys
from pathlib import Path

import replaykit as rk

@rk.tool(effects="none")
def price(order):
    return 20

@rk.tool
def refund(amount):
    with open("refunds.txt", "a") as file:
        file.write(f"{amount}\\n")
    return "refunded"

def answer(question):
    print("the agent prints")
    Path("command.txt").write_text(repr(sys.orig_argv))
    amount = price(7)
    return f"{refund(amount)} {amount}"
"""


@pytest.fixture
def client(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of a server that knows the agent of its run."""
    (own_directory / "refunding_agent.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(own_directory))
    from refunding_agent import answer

    with rk.Store.open("store.db") as store:
        with rk.record("refund", input="refund 7", store=store) as run:
            run.output = answer("refund 7")
        with served(documents_of(store), forks=PageForks(store.path, "refunding_agent:answer")) as client:
            yield client


def forked(client: Client, **request: Any) -> Answer:
    body = {"run": "refund", "step": "step_1", **request}
    return posted(client, json.dumps(body).encode())


def posted(client: Client, body: bytes, **headers: str) -> Answer:
    own = {"Content-Type": "application/json", "Origin": f"http://{client.host}"}
    return client.ask(urlsplit(client.url).path + "api/fork", method="POST", body=body, **{**own, **headers})


def refunds() -> list[str]:
    return Path("refunds.txt").read_text().split()


def test_a_fork_stops_at_an_effect_until_it_is_allowed_by_name(client: Client) -> None:
    stopped = forked(client, result=5).json

    (question,) = (deviation for deviation in stopped["deviations"] if deviation["kind"] == "undecided")
    assert question["name"] == "refund"
    assert refunds() == ["20"], "only the recording did it"

    done = forked(client, result=5, live=["refund"], attempt=stopped["run_id"]).json

    assert (done["status"], done["output"]) == ("success", "refunded 5")
    assert refunds() == ["20", "5"]
    assert client.get(f"api/run/{done['run_id']}/family").json["children"]
    assert client.rows(done["run_id"])[-1]["page"]["header"]["origin"]["step"] == "step_1"


def test_a_fork_with_the_same_answers_needs_no_consent(client: Client) -> None:
    assert forked(client, input="refund order 7").json["output"] == "refunded 20"
    assert refunds() == ["20"]


def test_no_value_is_among_the_arguments_of_a_process(client: Client) -> None:
    assert forked(client, input="the secret plan").json["output"] == "refunded 20"

    command = Path("command.txt").read_text()
    assert "replaykit" in command
    assert "secret" not in command


def test_a_value_may_be_larger_than_an_argument(client: Client) -> None:
    assert forked(client, input="x" * 200_000).json["output"] == "refunded 20"


@pytest.mark.parametrize(
    ("request_members", "problem"),
    [
        ({"run": "nobody"}, "no run 'nobody'"),
        ({"run": "--help"}, "no run is called '--help'"),
        ({"step": "step_9", "result": 1}, "step_9"),
        ({"result": 1, "error": "Boom"}, "change the same call"),
        ({"arguments": [1]}, "expected a JSON object"),
        ({"live": "refund"}, "the request is no fork"),
    ],
)
def test_a_fork_that_cannot_be_made_is_a_problem_in_words(
    client: Client, request_members: dict[str, Any], problem: str
) -> None:
    answer = forked(client, **request_members)

    assert answer.status == 404
    assert problem in answer.json["problem"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"run":"refund","step":"step_1","result":"\xff"}', "the request is no fork"),
        (b'{"run":"refund","step":"step_1","error":"\xff"}', "the request is no fork"),
        (b'{"run":"refund","step":"step_1","result":' + b"[" * 100_000, "the request is no fork"),
        (b'{"run":"re\\u0000fund","step":"step_1","result":1}', "no run 're"),
        (b'{"run":"refund","step":"step_1","result":1,"tool":"price\\u0000"}', "makes no call named 'price"),
    ],
)
def test_a_body_that_no_page_sends_is_refused(client: Client, body: bytes, problem: str) -> None:
    answer = posted(client, body)

    assert answer.status == 404
    assert problem in answer.json["problem"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "attacker.example"},
    ],
)
def test_nobody_but_the_page_can_fork(client: Client, headers: dict[str, str]) -> None:
    body = json.dumps({"run": "refund", "step": "step_1", "result": 5, "live": ["refund"]}).encode()

    assert posted(client, body, **headers).status == 403
    assert client.ask(urlsplit(client.url).path + "api/fork", method="POST", body=body).status == 403
    assert len(client.get("api/home").json["runs"]) == 1


def test_without_an_agent_there_are_no_forks(store: rk.Store) -> None:
    with served(documents_of(store)) as client:
        assert "--agent" in forked(client).json["hint"]
        assert client.get("api/home").json["can_fork"] is False
