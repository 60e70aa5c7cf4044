"""W21: what is sent to an HTTP agent is JSON whatever the input holds, and the answer is where the path says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


class Agent:
    """A WSGI application that remembers what it was asked, and answers as it is told."""

    def __init__(self, answer: Any = None, status: str = "200 OK") -> None:
        self.asked: list[Any] = []
        self.answer = {"output": "unavailable"} if answer is None else answer
        self.status = status

    def __call__(self, environ: Any, start_response: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if not environ["PATH_INFO"].startswith("/replaykit"):
            self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"], body, environ))
        else:
            start_response("404 Not Found", [])
            return [b"nothing here"]
        start_response(self.status, [("Content-Type", "application/json")])
        return [self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()]


NASTY = 'say "hi"\nthere \\ {prompt} \u2028 é'


def test_w21_a_template_is_filled_with_escaped_text(files: Any, replaykit: Run, served: Any) -> None:
    agent = Agent()
    template = '{"messages": [{"role": "user", "content": "Q: {prompt}"}], "raw": {input}, "n": 1}'
    files.config(served(agent) + "/ask", agent={"type": "http", "request_template": template})

    assert replaykit("replay", files.session(input=NASTY)).code == 0

    sent = json.loads(agent.asked[0][3])
    assert sent == {"messages": [{"role": "user", "content": f"Q: {NASTY}"}], "raw": NASTY, "n": 1}


def test_w21_the_documented_response_path_finds_the_text(files: Any, replaykit: Run, served: Any) -> None:
    agent = Agent({"choices": [{"message": {"content": "unavailable, HELLO"}}]})
    path = "$.choices[0].message.content"
    files.config(served(agent), agent={"type": "http", "response_path": path})

    assert replaykit("replay", files.session(), "--json").result["run"]["output"] == "unavailable, HELLO"


@pytest.mark.parametrize(
    ("agent", "answer", "output"),
    [
        ({"response_path": "data.items.0.text"}, {"data": {"items": [{"text": "unavailable"}]}}, "unavailable"),
        ({}, {"response": "unavailable", "id": 1}, "unavailable"),
        ({}, {"only": "unavailable"}, "unavailable"),
        ({}, ["unavailable"], ["unavailable"]),
        ({}, b"unavailable, in plain text", "unavailable, in plain text"),
    ],
)
def test_an_output_is_found(
    files: Any, replaykit: Run, served: Any, agent: dict[str, Any], answer: Any, output: Any
) -> None:
    files.config(served(Agent(answer)), agent={"type": "http", **agent})

    assert replaykit("replay", files.session(), "--json").result["run"]["output"] == output


@pytest.mark.parametrize(
    ("status", "answer", "verdict", "told"),
    [
        ("500 Oops", b"boom", "broken", "answered 500: boom"),
        ("200 OK", {"error": "no tokens left"}, "broken", "no tokens left"),
        ("404 Not Found", b"", "inconclusive", "answered 404"),
        ("302 Found", b"", "inconclusive", "answered 302"),
    ],
)
def test_a_failure_is_the_agents_own_or_cannot_be_told(
    files: Any, replaykit: Run, served: Any, status: str, answer: Any, verdict: str, told: str
) -> None:
    files.config(served(Agent(answer, status)), agent={"type": "http"})

    ran = replaykit("replay", files.session(), "--json")

    assert ran.result["verdict"] == verdict
    assert told in json.dumps(ran.result)


def test_an_answer_without_the_path_cannot_be_told(files: Any, replaykit: Run, served: Any) -> None:
    files.config(served(Agent({"a": 1})), agent={"type": "http", "response_path": "$.b"})

    ran = replaykit("replay", files.session(), "--json")

    assert (ran.code, ran.result["verdict"]) == (3, "inconclusive")
    assert "answered without $.b" in ran.result["reason"]


def test_method_parameters_and_headers_are_as_configured(
    files: Any, replaykit: Run, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_TOKEN", "s3cr3t-token")
    agent = Agent()
    http = {
        "type": "http",
        "method": "GET",
        "query_params": {"q": "{prompt}", "lang": "en"},
        "headers": {"Authorization": "Bearer ${AGENT_TOKEN}", "X-Stage": "${STAGE:-test}"},
    }
    files.config(served(agent) + "/ask", agent=http)

    assert replaykit("replay", files.session(input="a b&c")).code == 0

    method, path, query, body, environ = agent.asked[0]
    assert (method, path, query, body) == ("GET", "/ask", "q=a+b%26c&lang=en", b"")
    assert environ["HTTP_AUTHORIZATION"] == "Bearer s3cr3t-token"
    assert environ["HTTP_X_STAGE"] == "test"


def test_the_agent_is_reset_over_http_before_each_case(files: Any, replaykit: Run, served: Any) -> None:
    agent = Agent()
    url = served(agent)
    files.config(f"{url}/ask", agent={"type": "http", "reset_endpoint": f"{url}/reset"})
    files.session("replays/a.yaml")
    files.session("replays/b.yaml")

    assert replaykit("replay", "replays").code == 0
    assert [path for _, path, *_ in agent.asked] == ["/reset", "/ask"] * 2


def test_an_agent_that_is_not_there_is_an_error(files: Any, replaykit: Run) -> None:
    files.config("http://127.0.0.1:1/ask", agent={"type": "http", "retries": 1})

    ran = replaykit("replay", files.session(), "--json")

    assert (ran.code, ran.result["verdict"]) == (3, "inconclusive")
    assert "cannot be reached" in ran.result["reason"]


def test_an_agent_that_does_not_answer_in_time_has_timed_out(files: Any, replaykit: Run, served: Any) -> None:
    over = threading.Event()

    def slow(environ: Any, start_response: Any) -> Any:
        if not environ["PATH_INFO"].startswith("/replaykit"):
            over.wait(20)
        start_response("404 Not Found", [])
        return [b""]

    files.config(f"{served(slow)}/ask", agent={"type": "http", "timeout": 300})
    ran = replaykit("replay", files.session(), "--json")
    over.set()

    assert (ran.code, ran.result["run"]["status"]) == (1, "timeout")


def test_context_goes_to_the_agent_with_the_input(files: Any, replaykit: Run, served: Any) -> None:
    agent, context = Agent(), [{"role": "system", "content": "be brief"}]
    files.config(served(agent), agent={"type": "http"})

    replaykit("replay", files.session(context=context))

    assert json.loads(agent.asked[0][3]) == {"input": "hello", "context": context}
