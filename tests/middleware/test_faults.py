"""An HTTP agent that goes wrong: every failure is told with what to do next, in time, and nobody is led elsewhere."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.matrix import examples

import replaykit as rk
from replaykit.candidates.agents import candidate_of
from replaykit.candidates.http_agent import read_agent_reply
from replaykit.candidates.http_client import HttpAnswer
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.checks.assertions import parse_assertion
from replaykit.model.events import ToolCall
from replaykit.model.values import raw

Serve = Callable[[Any], str]
Say = Callable[..., "Scripted"]


class Scripted:
    """A server that speaks bytes: what it was sent, by path, and what it says to each path."""

    def __init__(self, says: dict[str, Any]) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.over = threading.Event()
        self._says = says
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            path = lines.readline().decode().split(" ")[1]
            size, head = 0, b""
            while (line := lines.readline()).strip():
                head += line
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            self.asked.append((path, head + b"\r\n" + lines.read(size)))
            said = self._says.get(path, b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
            try:
                for piece in [said] if isinstance(said, bytes) else said(self.over):
                    connection.sendall(piece)
            except OSError:
                pass  # the other side has heard enough

    def close(self) -> None:
        if not self.over.is_set():
            self.over.set()
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def say() -> Iterator[Say]:
    servers: list[Scripted] = []

    def start(answer: Any = b"", **others: Any) -> Scripted:
        servers.append(Scripted({"/ask": answer, **{f"/{name}": said for name, said in others.items()}}))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def http(body: bytes, status: int = 200, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def replayed(url: str, *, tape: tuple[Any, ...] = (), timeout_s: float = 20, **agent: Any) -> rk.ReplayResult:
    value = {"replaykit": 1, "agent": {"type": "http", "endpoint": f"{url}/ask", **agent}}
    Path("replaykit.yaml").write_text(json.dumps(value))
    case = ReplayCase(
        id="c",
        scenario=Scenario(input_json=raw("hello"), timeout_s=timeout_s),
        tape=tape,
        observed=_ERROR,
        desired=_SUCCESS,
    )
    return rk.replay(case, candidate_of(rk.load_project("replaykit.yaml")))


def refused(url: str, **agent: Any) -> str:
    result = replayed(url, **agent)
    assert result.verdict is rk.Verdict.INCONCLUSIVE
    return result.reason


PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"


@pytest.mark.parametrize(
    ("answer", "agent", "told", "then"),
    [
        (http(PAGE, content_type="text/html"), {}, "a page of HTML: <!DOCTYPE html>", "agent.endpoint"),
        (http(PAGE), {"response_path": "$.a"}, "a page of HTML", "agent.endpoint"),
        (http(b'{"output": "a', content_type="application/json"), {}, "that cannot be read", "the agent writes"),
        (http(b"plain"), {"response_path": "$.a"}, "did not answer with JSON", "agent.response_path"),
        (http(b'{"a": 1}'), {"response_path": "$.b"}, 'without $.b: {"a":1}', "agent.response_path"),
        (
            http(b'{"a": [{"t": "x"}, {"t": "y"}]}'),
            {"response_path": "$.a[*].t"},
            "2 values at $.a[*].t",
            "agent.response_path: $.a[0].t",
        ),
        (http(b"who are you", 401), {}, "answered 401: who are you", "agent.headers"),
        (http(b"", 405), {}, "answered 405", "agent.method"),
        (http(b'{"detail": "no field q"}', 422), {}, "no field q", "agent.request_template"),
        (http(b"", 404), {}, "answered 404", "agent.endpoint"),
        (http(b"", 304), {}, "sends to nowhere", "agent.endpoint"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", {}, "broke off", "agent.endpoint"),
        (b"", {}, "broke off", "agent.endpoint"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", {}, "broke off", "agent.endpoint"),
    ],
)
def test_what_is_no_answer_is_told_with_what_to_do_next(
    say: Say, answer: bytes, agent: dict[str, Any], told: str, then: str
) -> None:
    reason = refused(say(answer).url, **agent)

    first, last = reason.splitlines()
    assert told in first
    assert "/ask" in first
    assert then in last


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (HttpAnswer(status=200, body=b"[Note] plain", content_type="text/plain"), "[Note] plain"),
        (HttpAnswer(status=200, body=b"plain", content_type="application/json"), "plain"),
        (HttpAnswer(status=200, body=b"plain", content_type="text/html; charset=utf-8"), "plain"),
        (HttpAnswer(status=200, body=b"a <html> in it"), "a <html> in it"),
        (HttpAnswer(status=200, body=b"\xff"), "\ufffd"),
        (HttpAnswer(status=204), None),
    ],
)
def test_a_plain_text_is_an_output_whatever_it_is_called(answer: HttpAnswer, output: Any) -> None:
    said = read_agent_reply(answer, None)

    assert (said.output, said.reason, said.error) == (output, "", None)


@pytest.mark.parametrize("path", [None, "$.output"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"output": "ok", "error": "no tokens left"}', "no tokens left"),
        (b'{"output": "ok", "success": false}', "success: false"),
        (b'{"output": "ok", "status": "error", "message": "try later"}', "try later"),
        (b'{"status": "error"}', "status: error"),
    ],
)
def test_an_agent_that_says_it_failed_has_failed_wherever_its_output_is(
    path: str | None, body: bytes, message: str
) -> None:
    said = read_agent_reply(HttpAnswer(status=200, body=body, content_type="application/json"), path)

    assert said.error is not None
    assert (said.error.message, said.output, said.reason) == (message, None, "")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"error": "ok"}', "$.error"),
        (b'{"status": "error"}', "$.status"),
        (b'{"output": "ok", "error": null, "success": true, "status": "done"}', None),
        (b'{"output": "ok", "error": ""}', "$.output"),
    ],
)
def test_what_is_the_output_or_says_nothing_is_no_failure(body: bytes, path: str | None) -> None:
    said = read_agent_reply(HttpAnswer(status=200, body=body, content_type="application/json"), path)

    assert (said.error, said.reason) == (None, "")
    assert said.output in ("ok", "error")


def test_a_redirect_to_another_host_is_told_and_nobody_goes_there(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", "s3cr3t-key")
    elsewhere = say(http(b'{"output": "lured"}'))
    agent = say(http(b"", 307, location=f"{elsewhere.url}/ask?key=s3cr3t-key"))

    reason = refused(agent.url, headers={"X-Key": "${AGENT_KEY}"})

    assert f"it sends to {elsewhere.url}/ask?key=${{AGENT_KEY}}, and redirects are not followed" in reason
    assert elsewhere.asked == []


def test_an_answer_of_100_mb_is_not_kept(say: Say) -> None:
    sent = []

    def large(over: threading.Event) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n"
        for _ in range(100):
            sent.append(1)
            yield b" " * 1048576

    assert "answered with more than 67,108,864 bytes" in refused(say(large).url)
    assert len(sent) < 100


def drip(over: threading.Event) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
    while not over.wait(0.05):
        yield b" "


def test_an_answer_that_drips_is_a_timeout(say: Say) -> None:
    result = replayed(say(drip).url, timeout_s=0.5)

    assert result.run is not None, result.reason
    assert (result.run.status, result.duration_s < 10) == ("timeout", True)
    assert result.run.error is not None
    assert result.run.error.message == "gave no answer within 0.5 s"


@pytest.mark.parametrize("answer", [http(b"not now", 503), b"", http(b"", 302, location="http://127.0.0.1:1/")])
def test_an_agent_that_cannot_be_reset_is_not_asked(say: Say, answer: bytes) -> None:
    agent = say(http(b'{"output": "a"}'), reset=answer)

    reason = refused(agent.url, reset_endpoint=f"{agent.url}/reset")

    assert reason.startswith(f"the agent could not be reset: {agent.url}/reset ")
    assert reason.endswith("Check agent.reset_endpoint: it gets a POST request before each case, and must answer 2xx.")
    assert agent.paths() == ["/reset"]


def test_a_reset_that_does_not_end_is_given_up(say: Say) -> None:
    agent = say(http(b'{"output": "a"}'), reset=drip)

    reason = refused(agent.url, reset_endpoint=f"{agent.url}/reset", timeout_s=0.3)

    assert "gave no answer within 0.3 s" in reason
    assert agent.paths() == ["/reset"]


TAPE = (ToolCall(seq=0, name="lookup", result_json=raw("x")),)


def test_an_agent_that_is_not_there_is_not_said_to_take_no_tape() -> None:
    reason = refused("http://127.0.0.1:1", tape=TAPE)

    assert "cannot be reached" in reason
    assert "Check that the agent is running" in reason


def test_an_agent_that_says_nothing_is_not_said_to_take_no_tape(say: Say) -> None:
    """Nor is it asked: its tools might be called for real."""
    agent = Scripted({"/replaykit/tape": drip})
    reason = refused(agent.url, tape=TAPE, timeout_s=0.3)
    agent.close()

    assert "gave no answer within 0.3 s" in reason
    assert agent.paths() == ["/replaykit/tape"]


def test_who_guards_the_agent_guards_its_tapes_and_is_told_the_same(say: Say) -> None:
    agent = say()

    refused(agent.url, tape=TAPE, headers={"X-Key": "k", "Content-Type": "text/x-own"})

    ((path, sent),) = agent.asked
    assert path == "/replaykit/tape"
    assert b"X-Key: k" in sent
    assert b"text/x-own" not in sent


def test_the_token_goes_to_no_agent_that_takes_no_tape(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_TAPE_TOKEN", "the-token")
    agent = say(http(b'{"output": "a"}'))

    assert replayed(agent.url).passed
    assert agent.paths() == ["/replaykit/tape", "/ask"]
    assert not any(b"the-token" in sent for _, sent in agent.asked)


@pytest.mark.parametrize("value", ["two\nlines", "snow ☃"])
def test_a_header_that_cannot_be_sent_says_so(say: Say, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", value)
    agent = say(http(b'{"output": "a"}'))

    reason = refused(agent.url, headers={"X-Key": "${AGENT_KEY}"})

    assert "a header contains characters that cannot be sent" in reason
    assert value not in reason
    assert agent.asked == []


def test_a_variable_that_is_not_set_names_the_line_and_the_way_out() -> None:
    text = 'replaykit: 1\nagent:\n  endpoint: http://127.0.0.1:1/\n  reset_endpoint: "${NOT_SET_HERE}/reset"\n'
    Path("replaykit.yaml").write_text(text)

    with pytest.raises(rk.ReplayKitError) as caught:
        candidate_of(rk.load_project("replaykit.yaml"), {})

    assert "replaykit.yaml:4: agent.reset_endpoint" in str(caught.value)
    assert "${NOT_SET_HERE:-...}" in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab{}\"'\n"), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("ab{}\"'\\\n\r\t☃\u2028é") | JSON)
def test_whatever_the_input_holds_the_agent_gets_it(say: Say, value: Any) -> None:
    agent = say(http(b'{"output": "a"}'))
    template = '{"text": "<{input}>", "value": {input}, "brace": "{", "escaped": "\\"{input}\\\\"}'
    config = {"replaykit": 1, "agent": {"type": "http", "endpoint": f"{agent.url}/ask", "request_template": template}}
    Path("replaykit.yaml").write_text(json.dumps(config))
    case = ReplayCase(id="c", scenario=Scenario(input_json=raw(value)), tape=(), observed=_ERROR, desired=_SUCCESS)

    assert rk.replay(case, candidate_of(rk.load_project("replaykit.yaml"))).passed
    agent.close()

    sent = json.loads(dict(agent.asked)["/ask"].partition(b"\r\n\r\n")[2])
    assert sent["value"] == value or value != value
    assert sent["text"].startswith("<")
    assert sent["brace"] == "{"
    assert sent["escaped"][0] + sent["escaped"][-1] == '"\\'
    if isinstance(value, str):
        assert (sent["text"], sent["escaped"]) == (f"<{value}>", f'"{value}\\')


_ERROR, _SUCCESS = ((parse_assertion("status_is", status),) for status in ("error", "success"))


def test_a_request_that_fails_inside_of_a_tape_is_told_with_its_own_error(served: Serve) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("revenue")

    result = replayed(served(rk.middleware.asgi(app, enabled=True)), tape=TAPE)

    assert result.run is not None, result.reason
    assert result.run.error is not None
    assert (result.run.error.type, result.run.status) == ("KeyError", "error")


def test_an_agent_that_hangs_up_inside_of_a_tape_has_broken_off(served: Serve) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99")]})
        await send({"type": "http.response.body", "body": b"{"})

    assert "broke off" in refused(served(rk.middleware.asgi(app, enabled=True)), tape=TAPE)
