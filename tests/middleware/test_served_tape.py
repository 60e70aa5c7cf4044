"""Tapes that are held: how long, how much, and what is told of a request that has answered and goes on."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates import http_agent
from replaykit.candidates.agents import candidate_of
from replaykit.candidates.http import HttpCandidate
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.checks.assertions import parse_assertion
from replaykit.handlers.replay.world import World
from replaykit.middleware import tape_registry as tapes_module
from replaykit.middleware.messages import TAPE_HEADER, TAPE_PATH, TapeOffer
from replaykit.middleware.served_tape import ServedRequest
from replaykit.middleware.tape_registry import EXPIRES_S, TapeRegistry, TapeReply, TapeRequest, is_about_tapes
from replaykit.model.events import ToolCall
from replaykit.model.matching import MatchMode, MatchRules
from replaykit.model.values import raw
from replaykit.seam import guard

Serve = Callable[[Any], str]
POST = TapeRequest(method="POST", path=TAPE_PATH, headers={}, client="127.0.0.1")


@rk.tool
def lookup(user: str) -> str:
    raise SystemError("the real tool was called")


def calls(*answers: Any) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(seq=seq, name="lookup", result_json=raw(answer)) for seq, answer in enumerate(answers))


def offer(answer: Any = "x") -> bytes:
    world = World(case_id="case", calls=calls(answer), rules=MatchRules(mode=MatchMode.SEQUENCE))
    return msgspec.json.encode(TapeOffer(world=world))


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


def handed(tapes: TapeRegistry, body: bytes | None = None) -> str:
    return str(json.loads(tapes.answer(POST, body or offer()).body)["tape"])


def begun(tapes: TapeRegistry, name: str) -> ServedRequest | TapeReply:
    return tapes.begin(TapeRequest(method="POST", path="/", headers={TAPE_HEADER: name}, client="127.0.0.1"))


def test_a_tape_that_is_left_behind_expires(clock: Clock) -> None:
    tapes = TapeRegistry(clock=clock)
    name = handed(tapes)

    clock.at = EXPIRES_S - 1
    assert isinstance(begun(tapes, handed(tapes)), ServedRequest)
    clock.at = EXPIRES_S
    gone = begun(tapes, name)

    assert isinstance(gone, TapeReply)
    assert gone.status == 404


def test_a_tape_is_kept_as_long_as_a_request_is_at_work_in_it(clock: Clock) -> None:
    tapes = TapeRegistry(clock=clock)
    name = handed(tapes)
    serving = begun(tapes, name)
    assert isinstance(serving, ServedRequest)

    with serving.at_work():
        clock.at = 100 * EXPIRES_S
        assert isinstance(begun(tapes, name), ServedRequest)
    clock.at += EXPIRES_S - 1

    assert isinstance(begun(tapes, name), ServedRequest)


def test_all_tapes_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes, body = TapeRegistry(), offer("x" * 1000)
    monkeypatch.setattr(tapes_module, "MAX_HELD_BYTES", 2 * len(body))

    first, second, third = (handed(tapes, body) for _ in range(3))

    assert isinstance(begun(tapes, first), TapeReply)
    assert isinstance(begun(tapes, second), ServedRequest)
    assert isinstance(begun(tapes, third), ServedRequest)


@pytest.mark.parametrize(
    ("path", "is_one"),
    [(TAPE_PATH, True), (f"{TAPE_PATH}/x", True), (f"{TAPE_PATH}s", False), ("/", False), ("", False)],
)
def test_the_addresses_of_tapes_are_these(path: str, is_one: bool) -> None:
    assert is_about_tapes(path) is is_one


def test_a_request_without_a_tape_is_handed_on_as_it_is() -> None:
    """The same objects, and nothing put in place of anything."""
    seen: list[Any] = []
    before = set(guard._guards)

    async def inner(*given: Any) -> None:
        seen.append((given, before.issuperset(guard._guards)))

    scope = {"type": "http", "method": "GET", "path": "/ask", "headers": [(b"host", b"x")]}
    wrapped: Any = rk.middleware.asgi(inner, enabled=True)
    asyncio.run(wrapped(scope, handed, begun))
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/ask"}
    plain: Any = rk.middleware.wsgi(lambda *given: [given], enabled=True)

    assert seen == [((scope, handed, begun), True)]
    assert all(one is other for one, other in zip(seen[0][0], (scope, handed, begun), strict=True))
    ((given, start),) = plain(environ, handed)
    assert given is environ
    assert start is handed


def test_what_else_an_application_offers_is_still_there() -> None:
    class App:
        config = {"DEBUG": True}

        def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
            return []

    wrapped: Any = rk.middleware.wsgi(App(), enabled=True)

    assert wrapped.config is App.config


def project_of(url: str, **agent: Any) -> rk.Project:
    value = {"replaykit": 1, "agent": {"type": "http", "endpoint": f"{url}/ask", **agent}}
    Path("replaykit.yaml").write_text(json.dumps(value))
    return rk.load_project("replaykit.yaml")


def replayed(url: str, *answers: Any, timeout_s: float = 20) -> rk.ReplayResult:
    return rk.replay(case_of(*answers, timeout_s=timeout_s), candidate_of(project_of(url)))


def case_of(*answers: Any, timeout_s: float = 20) -> ReplayCase:
    return ReplayCase(
        id="c",
        scenario=Scenario(input_json=raw("u1"), match=MatchRules(mode=MatchMode.SEQUENCE), timeout_s=timeout_s),
        tape=calls(*answers),
        observed=(parse_assertion("status_is", "error"),),
        desired=(parse_assertion("status_is", "success"),),
    )


class App:
    """Answers at once, and goes on after that until it is told to end."""

    def __init__(self, body: bytes = b'{"output": "a"}') -> None:
        self.body = body
        self.over = threading.Event()
        self.answered = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size = str(len(self.body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
        await send({"type": "http.response.body", "body": self.body})
        self.answered.set()
        await asyncio.to_thread(self.over.wait, 20)
        lookup("later")


def test_what_an_agent_does_after_its_answer_is_waited_for(served: Serve) -> None:
    app = App()
    url = served(rk.middleware.asgi(app, enabled=True))
    threading.Thread(target=lambda: (app.answered.wait(20), time.sleep(0.1), app.over.set())).start()

    result = replayed(url, "taped")

    assert result.passed, result.reason
    assert result.run is not None
    assert [call.name for call in result.run.tool_calls] == ["lookup"]
    assert result.deviations == ()


def test_an_agent_that_is_at_work_when_its_time_is_up_has_timed_out_though_it_has_answered(served: Serve) -> None:
    app = App()
    result = replayed(served(rk.middleware.asgi(app, enabled=True)), timeout_s=0.5)
    app.over.set()

    assert result.run is not None, result.reason
    assert (result.run.status, result.run.error and result.run.error.message) == (
        "timeout",
        "answered, and was still at work after 0.5 s",
    )


def test_an_endpoint_of_the_command_line_is_waited_for_too(served: Serve) -> None:
    app = App(b'{"status": "success", "final_output": "a"}')
    url = served(rk.middleware.asgi(app, enabled=True))
    threading.Thread(target=lambda: (app.answered.wait(20), time.sleep(0.1), app.over.set())).start()

    ended = rk.replay(case_of("taped"), HttpCandidate(f"{url}/ask"))
    app.over.clear()
    stuck = rk.replay(case_of("taped", timeout_s=0.5), HttpCandidate(f"{url}/ask"))
    app.over.set()

    assert ended.passed, ended.reason
    assert ended.run is not None
    assert [call.name for call in ended.run.tool_calls] == ["lookup"]
    assert stuck.run is not None
    assert stuck.run.status == "timeout"


@pytest.mark.parametrize("is_endpoint", [False, True])
def test_a_request_that_lost_its_header_on_the_way_is_an_error(served: Serve, is_endpoint: bool) -> None:
    """A proxy that takes unknown headers away: the agent has answered, with its tools as live as they are."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"status": "success", "final_output": "a"}'})

    inner: Any = rk.middleware.asgi(app, enabled=True)

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        headers = [pair for pair in scope["headers"] if pair[0] != TAPE_HEADER.encode()]
        await inner({**scope, "headers": headers}, receive, send)

    url = served(proxy)
    result = rk.replay(case_of("taped"), HttpCandidate(f"{url}/ask")) if is_endpoint else replayed(url, "taped")

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "did not use the tape: the request did not get to the middleware" in result.reason


def test_an_agent_that_is_stuck_and_cannot_tell_what_it_did_is_an_error(
    served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of one thread is busy with the request that does not end."""
    app = App()
    inner: Any = rk.middleware.asgi(app, enabled=True)

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "DELETE" or not scope["path"].startswith(TAPE_PATH):
            await asyncio.to_thread(app.over.wait, 20)
        await inner(scope, receive, send)

    monkeypatch.setattr(http_agent, "_PROBE_S", 0.3)
    result = replayed(served(busy), "taped", timeout_s=0.3)
    app.over.set()

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "gave no answer within 0.3 s, and does not report what it did in the meantime" in result.reason
    assert "gunicorn --threads 8" in result.reason


@pytest.fixture
def door() -> Iterator[tuple[str, int]]:
    """A place on this machine that nobody may go to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


def test_a_thread_that_is_left_behind_reaches_neither_its_tools_nor_the_network(
    served: Serve, door: tuple[str, int]
) -> None:
    go, told = threading.Event(), []

    def later() -> None:
        go.wait(20)
        for attempt in (lambda: lookup("u1"), lambda: socket.create_connection(door, 5).close()):
            try:
                attempt()
                told.append("done")
            except Exception as error:
                told.append(type(error).__name__)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        threads.append(threading.Thread(target=later))
        threads[-1].start()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"output": "a"}'})

    threads: list[threading.Thread] = []
    wrapped = rk.middleware.asgi(app, enabled=True)
    result = replayed(served(wrapped))
    go.set()
    threads[0].join(20)

    assert result.passed, result.reason
    assert told == ["Divergence", "LiveConnection"]


def test_guards_go_down_with_the_tapes_they_are_for() -> None:
    before = list(guard._guards)
    tapes = TapeRegistry()
    begun(tapes, handed(tapes))
    (own,) = (one for one in guard._guards if one not in before)

    del tapes

    assert own not in guard._guards


def test_the_request_is_sent_again_until_it_gets_to_the_process_that_has_the_tape(served: Serve) -> None:
    """Three processes in turn, as the system hands out connections."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        said = json.dumps({"output": lookup("u1")}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": said})

    processes: list[Any] = [rk.middleware.asgi(app, enabled=True) for _ in range(3)]
    numbers = iter(range(1000))

    async def turns(scope: Any, receive: Any, send: Any) -> None:
        await processes[next(numbers) % 3](scope, receive, send)

    result = replayed(served(turns), "taped")

    assert result.passed, result.reason
    assert result.run is not None
    assert result.run.output == "taped"
    assert next(numbers) > 3


def test_a_tape_that_its_own_process_has_forgotten_is_not_looked_for(served: Serve) -> None:
    asked: list[str] = []
    tapes: Any = rk.middleware.asgi(App(), enabled=True)

    async def forgetful(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        tapes._tapes._tapes.clear()
        await tapes(scope, receive, send)

    result = replayed(served(forgetful), "taped")

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "or has expired" in result.reason
    assert len(asked) <= 4
