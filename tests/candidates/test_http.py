"""An endpoint as a candidate: a real server on loopback, and everything it can answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.candidates import http_client
from replaykit.candidates.http import HttpCandidate
from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo, LlmCall
from replaykit.model.values import raw

MakeCase = Callable[..., Path]
FIXED = {"status": "success", "final_output": "You paid for a year."}


class Endpoint:
    """An agent behind HTTP: answers what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.wait_s = 200, b"", 0.0
        self.requests: list[Any] = []
        self.leaving = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                endpoint.requests.append({"path": self.path, "type": self.headers["content-type"], "body": body})
                endpoint.leaving.wait(endpoint.wait_s)
                self.send_response(endpoint.status)
                self.send_header("content-length", str(len(endpoint.body)))
                self.end_headers()
                self.wfile.write(endpoint.body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that went away early is part of these tests."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/agents/billing"

    def answers(self, value: Any, status: int = 200) -> HttpCandidate:
        self.body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.status = status
        return HttpCandidate(self.url)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    thread = threading.Thread(target=endpoint.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield endpoint
    endpoint.leaving.set()
    endpoint.server.shutdown()
    endpoint.server.server_close()
    thread.join()


def _read_request(stream: Any) -> None:
    """Read all of it: hanging up on unread bytes would reset the connection."""
    length = 0
    while (line := stream.readline().strip().lower()) != b"":
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    stream.read(length)


@contextmanager
def speaking(*pieces: bytes, pause_s: float = 0.0) -> Iterator[HttpCandidate]:
    """A server that says just these bytes to whoever connects, with pauses, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            try:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as request:
                    _read_request(request)
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(pause_s)
            except OSError:
                pass

        thread = threading.Thread(target=speak)
        thread.start()
        yield HttpCandidate(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()


def refused(case: Path, candidate: HttpCandidate, **options: Any) -> str:
    """The reason why there is no verdict."""
    result = rk.replay(case, candidate, **{"timeout_s": 10, **options})
    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert result.run is None
    return result.reason


def test_an_answer_that_keeps_the_contract_is_judged(make_case: MakeCase, endpoint: Endpoint) -> None:
    case = make_case()

    fixed = rk.replay(case, endpoint.answers(FIXED))
    broken = rk.replay(case, endpoint.answers({"status": "error", "errors": ["out of luck"]}))

    assert (fixed.verdict, broken.verdict) == (rk.Verdict.FIXED, rk.Verdict.REPRODUCED)
    assert fixed.candidate == endpoint.url


def test_tool_calls_in_the_answer_are_judged(make_case: MakeCase, endpoint: Endpoint) -> None:
    case = make_case(desired=[{"max_tool_calls": 1}])
    calls = [{"tool_name": "lookup", "tool_args": {"user": "u1"}, "tool_output": "x"}] * 2

    result = rk.replay(case, endpoint.answers({**FIXED, "tool_calls": calls}))

    assert result.verdict is rk.Verdict.BROKEN
    assert "at most 1" in result.reason


def test_the_request_carries_the_case_the_input_and_the_recorded_answers(
    make_case: MakeCase, endpoint: Endpoint, frozen: Any
) -> None:
    calls = [
        frozen(0, "lookup", {"amount": 49.99}, user="u1"),
        frozen(1, "refund", error=ErrorInfo(type="TimeoutError", message="too late"), amount=49.99),
    ]

    rk.replay(make_case(calls=calls, input={"question": "why?"}), endpoint.answers(FIXED))

    (request,) = endpoint.requests
    assert (request["path"], request["type"]) == ("/agents/billing", "application/json")
    assert json.loads(request["body"]) == {
        "case": "billing",
        "input": {"question": "why?"},
        "tool_responses": [
            {"tool": "lookup", "arguments": {"user": "u1"}, "response": {"amount": 49.99}},
            {"tool": "refund", "arguments": {"amount": 49.99}, "error": "TimeoutError: too late"},
        ],
    }


def test_whether_the_recorded_answers_were_used_is_not_known_and_said(
    make_case: MakeCase, endpoint: Endpoint, frozen: Any
) -> None:
    taped = rk.replay(make_case("a", calls=[frozen(0, "lookup", "x")]), endpoint.answers(FIXED))
    plain = rk.replay(make_case("b"), endpoint.answers(FIXED))

    assert [deviation.kind for deviation in taped.deviations] == ["unwatched"]
    assert plain.deviations == ()


def test_recorded_model_calls_are_no_tool_responses(make_case: MakeCase, endpoint: Endpoint, frozen: Any) -> None:
    model = LlmCall(seq=1, name="gpt-4o", arguments_json=raw({"messages": []}), result_json=raw("hello"))

    rk.replay(make_case(calls=[frozen(0, "lookup", "x"), model]), endpoint.answers(FIXED))

    sent = json.loads(endpoint.requests[0]["body"])["tool_responses"]
    assert [response["tool"] for response in sent] == ["lookup"]


@pytest.mark.parametrize("given", [2**70, {"$dict": [[1, "one"]]}], ids=["a large number", "keys that are numbers"])
def test_any_input_of_a_case_can_be_sent(make_case: MakeCase, endpoint: Endpoint, given: Any) -> None:
    result = rk.replay(make_case(input=given), endpoint.answers(FIXED))

    assert result.verdict is rk.Verdict.FIXED


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_an_http_error_is_no_answer(make_case: MakeCase, endpoint: Endpoint, status: int) -> None:
    reason = refused(make_case(), endpoint.answers(FIXED, status))

    assert f"answered {status}" in reason
    assert endpoint.url in reason


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe"])
def test_an_answer_that_is_not_json_says_so(make_case: MakeCase, endpoint: Endpoint, body: bytes) -> None:
    assert "is not JSON" in refused(make_case(), endpoint.answers(body))


def test_an_answer_of_the_wrong_shape_says_so(make_case: MakeCase, endpoint: Endpoint) -> None:
    reason = refused(make_case(), endpoint.answers({"answer": "You paid for a year."}))

    assert "wrong shape" in reason
    assert "describe it in replaykit.yaml: agent: {type: http, endpoint: URL}" in reason


def test_an_answer_that_is_too_large_is_not_read_to_its_end(
    make_case: MakeCase, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MAX_OUTPUT_BYTES", 1000)

    assert "more than 1,000 bytes" in refused(make_case(), endpoint.answers(b" " * 5000))


def test_an_endpoint_that_is_not_there_is_said_to_be_unreachable(make_case: MakeCase) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    reason = refused(make_case(), HttpCandidate(f"http://127.0.0.1:{port}/"))

    assert "cannot be reached" in reason
    assert str(port) in reason


def test_an_endpoint_that_hangs_up_is_no_answer(make_case: MakeCase) -> None:
    with speaking() as candidate:
        assert "broke off" in refused(make_case(), candidate)


def test_a_slow_answer_is_a_run_with_the_status_timeout(make_case: MakeCase, endpoint: Endpoint) -> None:
    endpoint.wait_s = 30

    result = rk.replay(make_case(observed=[{"status_is": "timeout"}]), endpoint.answers(FIXED), timeout_s=0.3)

    assert result.run is not None
    assert result.run.status == "timeout"
    assert result.verdict is rk.Verdict.REPRODUCED
    assert result.duration_s < 10


def test_an_answer_that_drips_is_a_timeout_too(make_case: MakeCase) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    with speaking(head, *[b" "] * 200, pause_s=0.1) as candidate:
        result = rk.replay(make_case(), candidate, timeout_s=0.4)

    assert result.run is not None, result.reason
    assert result.run.status == "timeout"
    assert result.duration_s < 10


RUBBISH = {
    "no HTTP at all": b"rubbish\r\n\r\n",
    "a chunk that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a chunk that ends early": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{",
    "a header without end": b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000 + b": b\r\n\r\n{}",
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH.keys())
def test_an_endpoint_that_speaks_rubbish_is_a_verdict(make_case: MakeCase, rubbish: bytes) -> None:
    with speaking(rubbish) as candidate:
        refused(make_case(), candidate)


def test_an_answer_that_ends_early_has_broken_off(make_case: MakeCase) -> None:
    with speaking(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"status": "succ') as candidate:
        assert "broke off" in refused(make_case(), candidate)


def test_an_endpoint_cannot_send_the_reader_to_a_file(make_case: MakeCase) -> None:
    Path("answer.json").write_text(json.dumps(FIXED))
    target = Path("answer.json").absolute().as_uri().encode()
    with speaking(b"HTTP/1.1 302 Found\r\nLocation: " + target + b"\r\nContent-Length: 0\r\n\r\n") as candidate:
        assert "302" in refused(make_case(), candidate)


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host/x", "file:///etc/passwd", "http://", "//host/x"])
def test_what_is_no_address_is_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError, match="not an address of an agent"):
        HttpCandidate(url)


@pytest.mark.parametrize(
    "url", ["http://[::1/agent", "http://127.0.0.1:port/", "http://127.0.0.1:1/a b", "http://127.0.0.1:1/é"]
)
def test_an_address_that_cannot_be_used_is_wrong_usage_or_no_answer(make_case: MakeCase, url: str) -> None:
    try:
        refused(make_case(), HttpCandidate(url))
    except UsageError:
        pass


def test_the_answer_is_evidence(make_case: MakeCase, endpoint: Endpoint) -> None:
    result = rk.replay(make_case(), endpoint.answers(FIXED), evidence="evidence")

    directory = Path(str(result.directory))
    assert json.loads((directory / "runner-output.json").read_text()) == FIXED
    assert sorted(file.name for file in directory.iterdir()) == [
        "result.json",
        "runner-output.json",
        "stderr.log",
        "stdout.log",
        "summary.md",
    ]
