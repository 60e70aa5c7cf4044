"""The middleware: off unless it is asked for, for this machine alone, and each request inside of its own tape."""

from __future__ import annotations

import asyncio
import contextvars
import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates.agents import candidate_of
from replaykit.candidates.http import HttpCandidate
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.checks.assertions import parse_assertion
from replaykit.handlers.replay.world import World
from replaykit.middleware.messages import TAPE_HEADER, TAPE_PATH, TOKEN_HEADER, TapeOffer
from replaykit.middleware.tape_registry import MAX_REQUESTS, MAX_TAPES, TapeRegistry, TapeRequest
from replaykit.model.events import ToolCall
from replaykit.model.matching import MatchMode, MatchRules
from replaykit.model.values import raw
from replaykit.project.case_selection import select_cases
from replaykit.seam.foreign_threads import apart

Serve = Callable[[Any], str]
CALLED: list[str] = []


@rk.tool
async def lookup(user: str) -> str:
    CALLED.append(user)
    return f"really {user}"


@rk.tool
def lookup_now(user: str) -> str:
    CALLED.append(user)
    return f"really {user}"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what its tool said: twice at once when asked for `/both`."""
    assert scope["type"] == "http", scope["type"]
    body = (await receive()).get("body", b"")
    user = json.loads(body)["input"] if body else "nobody"
    if scope["path"] == "/both":
        said = " and ".join(await asyncio.gather(lookup(user), asyncio.to_thread(lookup_now, user)))
    else:
        said = await lookup(user)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"output": said}).encode()})


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


def world(*answers: Any, name: str = "lookup") -> World:
    calls = tuple(ToolCall(seq=seq, name=name, result_json=raw(answer)) for seq, answer in enumerate(answers))
    return World(case_id="case", calls=calls, rules=MatchRules(mode=MatchMode.SEQUENCE))


def asked(url: str, body: Any = None, method: str = "POST", **headers: str) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=data, method=method, headers=sent)
    try:
        with apart(), urllib.request.urlopen(request, timeout=20) as reply:  # by another process, in earnest
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else text


def offered(url: str, what: World) -> str:
    status, said = asked(url + TAPE_PATH, msgspec.json.encode(TapeOffer(world=what)))
    assert status == 200, said
    return str(said["tape"])


def test_without_being_asked_for_the_application_is_given_back_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPLAYKIT_TAPE", raising=False)
    assert rk.middleware.asgi(app) is app
    assert rk.middleware.wsgi(app) is app  # type: ignore[arg-type, comparison-overlap]

    monkeypatch.setenv("REPLAYKIT_TAPE", "1")
    assert rk.middleware.asgi(app) is not app
    assert rk.middleware.asgi(app, enabled=False) is app
    monkeypatch.setenv("REPLAYKIT_TAPE", "0")
    assert rk.middleware.asgi(app) is app


def test_a_request_in_a_tape_is_answered_from_it_and_its_log_can_be_read(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    tape = offered(url, world("from the tape"))

    said = asked(f"{url}/ask", {"input": "u1"}, **{TAPE_HEADER: tape})
    status, log = asked(f"{url}{TAPE_PATH}/{tape}", method="GET")

    assert said == (200, {"output": "from the tape"})
    assert status == 200
    assert [(event["name"], event["arguments"]) for event in log["runs"][0]["events"]] == [("lookup", {"user": "u1"})]
    assert log["runs"][0].get("deviations", []) == []
    assert CALLED == []


def test_other_requests_are_served_as_ever_meanwhile(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    offered(url, world("from the tape"))

    assert asked(f"{url}/ask", {"input": "u1"}) == (200, {"output": "really u1"})
    assert CALLED == ["u1"]


def test_a_request_without_a_tape_does_not_get_into_that_of_another() -> None:
    def answer(environ: Any, start_response: Any) -> list[bytes]:
        return [lookup_now("u1").encode()]

    application = rk.middleware.wsgi(answer, enabled=True)
    with rk.replaying(rk.Tape([])) as replayer:
        said = contextvars.Context().run(application, {"PATH_INFO": "/"}, None)

    assert said == [b"really u1"]
    assert replayer.deviations == []


def test_tasks_and_threads_of_a_request_are_in_its_tape(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    what = world("a")
    calls = (*what.calls, ToolCall(seq=1, name="lookup_now", result_json=raw("b")))
    tape = offered(url, msgspec.structs.replace(what, calls=calls))

    assert asked(f"{url}/both", {"input": "u1"}, **{TAPE_HEADER: tape}) == (200, {"output": "a and b"})
    assert CALLED == []


def test_requests_side_by_side_each_have_their_own_tape(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    tapes = [offered(url, world(f"answer {number}")) for number in range(12)]

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda tape: asked(f"{url}/ask", {"input": "x"}, **{TAPE_HEADER: tape})[1], tapes))

    assert said == [{"output": f"answer {number}"} for number in range(12)]


def test_each_request_in_one_tape_begins_at_its_beginning(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    tape = offered(url, world("first", "second"))

    said = [asked(f"{url}/ask", {"input": "x"}, **{TAPE_HEADER: tape})[1] for _ in range(2)]
    _, log = asked(f"{url}{TAPE_PATH}/{tape}", method="GET")

    assert said == [{"output": "first"}] * 2
    assert [[told["kind"] for told in run["deviations"]] for run in log["runs"]] == [["unused"]] * 2


def test_a_call_that_is_not_on_the_tape_is_stopped_and_told(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    tape = offered(url, world())

    status, _ = asked(f"{url}/ask", {"input": "x"}, **{TAPE_HEADER: tape})
    _, log = asked(f"{url}{TAPE_PATH}/{tape}", method="GET")

    assert status == 500
    assert [told["kind"] for told in log["runs"][0]["deviations"]] == ["missing"]
    assert log["runs"][0]["error"]["type"] == "Divergence"
    assert CALLED == []


def test_a_tape_that_nobody_handed_over_serves_nothing(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))

    status, said = asked(f"{url}/ask", {"input": "x"}, **{TAPE_HEADER: "0" * 32})

    assert (status, "no tape" in said["error"]) == (404, True)
    assert CALLED == []


def test_a_tape_is_forgotten_when_it_is_deleted(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    tape = offered(url, world("x"))

    assert asked(f"{url}{TAPE_PATH}/{tape}", method="DELETE")[0] == 200
    assert asked(f"{url}{TAPE_PATH}/{tape}", method="GET")[0] == 404


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"world": {}}', b'{"replaykit": 9, "world": {"case_id": "x"}}', b"\xff"]
)
def test_what_is_no_tape_is_refused(served: Serve, body: bytes) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))

    assert asked(url + TAPE_PATH, body)[0] == 400


def request(client: str = "127.0.0.1", **headers: str) -> TapeRequest:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return TapeRequest(method="GET", path=TAPE_PATH, headers=sent, client=client)


@pytest.mark.parametrize(
    ("what", "may"),
    [
        (request(), True),
        (request("::1"), True),
        (request("127.9.9.9"), True),
        (request("10.0.0.5"), False),
        (request(""), False),
        (request("testclient"), False),
        (request(origin="http://evil.test"), False),
        (request(x_forwarded_for="10.0.0.5"), False),
        (request(forwarded="for=10.0.0.5"), False),
        (request(host="localhost:8000"), True),
        (request(host="127.0.0.1:8000"), True),
        (request(host="[::1]:8000"), True),
        (request(host="agents.test"), False),
        (request(host="127.0.0.1.evil.test:8000"), False),
        (request(host="[::1"), False),
        (request(host=""), False),
    ],
)
def test_without_a_token_tapes_are_for_this_machine_alone(
    what: TapeRequest, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPLAYKIT_TAPE_TOKEN", raising=False)
    refused = TapeRegistry().refusal(what)

    assert (refused is None) is may
    assert refused is None or refused.status == 403


@pytest.mark.parametrize(
    ("given", "may"), [("the-token", True), ("another", False), ("", False), ("the-tokené", False)]
)
def test_with_a_token_whoever_has_it_may_from_anywhere(given: str, may: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_TAPE_TOKEN", "the-token")

    for client in ("127.0.0.1", "10.0.0.5"):
        assert (TapeRegistry().refusal(request(client, **{TOKEN_HEADER: given})) is None) is may


def test_what_is_held_is_bounded() -> None:
    tapes = TapeRegistry()
    body = msgspec.json.encode(TapeOffer(world=world("x")))
    posted = TapeRequest(method="POST", path=TAPE_PATH, headers={}, client="127.0.0.1")

    names = [json.loads(tapes.answer(posted, body).body)["tape"] for _ in range(MAX_TAPES + 1)]
    held = [TapeRequest(method="GET", path="/", headers={TAPE_HEADER: name}, client="127.0.0.1") for name in names]

    assert getattr(tapes.begin(held[0]), "status", None) == 404
    begun = [tapes.begin(held[1]) for _ in range(MAX_REQUESTS + 1)]
    assert getattr(begun[-1], "status", None) == 429
    assert getattr(begun[-2], "status", None) is None


def test_other_protocols_pass_through() -> None:
    seen: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    wrapped: Any = rk.middleware.asgi(inner, enabled=True)
    asyncio.run(wrapped({"type": "lifespan"}, None, None))

    assert seen == ["lifespan"]


def wsgi_call(application: Any, path: str, body: bytes = b"", **headers: str) -> tuple[str, bytes]:
    told: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }
    body = b"".join(application(environ, lambda status, headers, *_: told.append(status)))
    return told[0], body


def test_a_wsgi_application_that_streams_is_in_the_tape_to_its_last_part() -> None:
    def streaming(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"it said: "
        yield lookup_now("u1").encode()

    wrapped = rk.middleware.wsgi(streaming, enabled=True)
    _, said = wsgi_call(wrapped, TAPE_PATH, msgspec.json.encode(TapeOffer(world=world("taped", name="lookup_now"))))

    assert wsgi_call(wrapped, "/", **{TAPE_HEADER: json.loads(said)["tape"]}) == ("200 OK", b"it said: taped")
    assert wsgi_call(wrapped, "/") == ("200 OK", b"it said: really u1")


def test_an_agent_over_asgi_is_replayed_from_a_session(served: Serve) -> None:
    url = served(rk.middleware.asgi(app, enabled=True))
    Path("replaykit.yaml").write_text(
        json.dumps(
            {
                "replaykit": 1,
                "agent": {"type": "http", "endpoint": f"{url}/ask"},
                "contract": {"name": "c", "invariants": [{"id": "x", "type": "contains", "value": "tape"}]},
                "replays": {
                    "sessions": [
                        {
                            "id": "s",
                            "input": "u1",
                            "contract": "c",
                            "tool_responses": [{"tool": "lookup", "response": "on tape"}],
                        }
                    ]
                },
            }
        )
    )
    project = rk.load_project("replaykit.yaml")
    (case,) = select_cases(project).cases
    result = rk.replay(case, candidate_of(project))

    assert result.passed, result.reason
    assert result.run is not None
    assert [call.name for call in result.run.tool_calls] == ["lookup"]
    assert CALLED == []


def test_an_endpoint_of_the_command_line_is_handed_the_tape_too(served: Serve) -> None:
    async def contracted(scope: Any, receive: Any, send: Any) -> None:
        body = json.loads((await receive())["body"])
        said = {"status": "success", "final_output": await lookup(body["input"])}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})

    url = served(rk.middleware.asgi(contracted, enabled=True))
    call = ToolCall(seq=0, name="lookup", arguments_json=raw({"user": "u1"}), result_json=raw("on tape"))
    scenario = Scenario(input_json=raw("u1"))
    case = ReplayCase(id="c", scenario=scenario, tape=(call,), desired=(parse_assertion("status_is", "success"),))

    result = rk.replay(case, HttpCandidate(url))

    assert result.run is not None, result.reason
    assert (result.run.output, [c.name for c in result.run.tool_calls]) == ("on tape", ["lookup"])
    assert result.deviations == ()
    assert CALLED == []


def test_an_application_in_several_processes_says_how_to_run_it(served: Serve) -> None:
    """One process takes the tape, and all requests get to another one."""
    taking, serving = rk.middleware.asgi(app, enabled=True), rk.middleware.asgi(app, enabled=True)

    async def both(scope: Any, receive: Any, send: Any) -> None:
        await (taking if scope["path"].startswith(TAPE_PATH) else serving)(scope, receive, send)

    Path("replaykit.yaml").write_text(
        json.dumps({"replaykit": 1, "agent": {"type": "http", "endpoint": f"{served(both)}/ask"}})
    )
    case = ReplayCase(id="c", tape=(), desired=(parse_assertion("status_is", "success"),))
    result = rk.replay(case, candidate_of(rk.load_project("replaykit.yaml")))

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "others\nRun it as one process: uvicorn --workers 1" in result.reason
    assert CALLED == []
