"""Faults of MCP tools: in the protocol's own form, live and played, over pipes and over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.matrix import sampled

from replaykit.handlers.chaos.answers import PAYLOAD
from replaykit.model.events import ToolCall
from replaykit.model.faults import Attack, ChaosPlan, ContextAttack, ToolFault, ToolTrouble
from replaykit.model.run import TraceRun
from replaykit.programs.mcp.http_endpoint import McpEndpoint
from replaykit.programs.mcp.http_replies import McpReply, chunks_of, whole_events, with_data
from replaykit.seam.http.request import HttpRequest

URL = "https://weather.example/mcp"
SKY = "clear as it never was"
Ask = Callable[..., Any]
"""Calls a tool by its name and arguments; gives the whole answer."""


def plan_of(mode: str, **options: Any) -> ChaosPlan:
    return ChaosPlan(tool_faults=(ToolFault(mode=ToolTrouble(mode), **options),))


def faults(run: TraceRun) -> list[tuple[str, ...]]:
    return [call.faults for call in run.calls if isinstance(call, ToolCall)]


class HttpServer:
    """Answers over streamable HTTP, with JSON or a stream in small pieces."""

    def __init__(self, *, streams: bool) -> None:
        self.streams = streams
        self.asked: list[Any] = []
        self.count = 0

    async def __call__(self, request: HttpRequest) -> McpReply:
        value = json.loads(request.body)
        self.asked.append(value)
        told = list(map(self.answer, value)) if isinstance(value, list) else self.answer(value)
        if not self.streams:
            headers = (("content-type", "application/json"), ("content-length", str(len(json.dumps(told)))))
            return McpReply(status=200, headers=headers, chunks=chunks_of(json.dumps(told).encode()))
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
        text = f"id: e-1\r\ndata: {json.dumps(progress)}\r\n\r\nid: e-2\ndata: {json.dumps(told)}\n\n".encode()
        pieces = [text[start : start + 11] for start in range(0, len(text), 11)]
        return McpReply(status=200, headers=(("content-type", "text/event-stream"),), chunks=chunks_of(*pieces))

    def answer(self, message: Any) -> Any:
        self.count += 1
        given = message["params"]["arguments"]
        result: Any = {"content": [{"type": "text", "text": f"{json.dumps(given)} number {self.count:04}"}]}
        if message["params"]["name"] == "structured":
            result["structuredContent"] = {"city": given["city"], "sky": SKY}
        if message["params"]["name"] == "fail":
            result["isError"] = True
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Worlds:
    """Tools of a server, live or played, under a plan; over pipes, or over HTTP with JSON or streams."""

    def __init__(self, weather: Any, transport: str) -> None:
        self.weather = weather
        self.transport = transport
        self.server = HttpServer(streams=transport == "events")

    @contextmanager
    def live(self, plan: ChaosPlan | None = None) -> Iterator[Ask]:
        if self.transport == "stdio":
            with self.weather.lived(plan) as client:
                yield self._numbered(client.tool)
        else:
            with self.weather.living(plan) as own:
                yield self._posting(
                    McpEndpoint(
                        "weather", own.session, upstream=self.server, recorded_server=own.recorded_server, as_sent=False
                    )
                )

    @contextmanager
    def played(self, plan: ChaosPlan | None = None) -> Iterator[Ask]:
        if self.transport == "stdio":
            with self.weather.replayed(chaos=plan) as client:
                yield self._numbered(client.tool)
        else:
            with self.weather.replaying(chaos=plan) as own:
                yield self._posting(McpEndpoint("weather", own.session, recorded_server=own.recorded_server))

    def recorded(self, *asked: tuple[str, dict[str, Any]]) -> None:
        """Record these calls."""
        if self.transport == "stdio":
            with self.weather.recorded() as client:
                for number, (name, given) in enumerate(asked):
                    client.tool(number, name, **given)
        else:
            with self.weather.recording() as own:
                ask = self._posting(
                    McpEndpoint("weather", own.session, upstream=self.server, recorded_server=own.recorded_server)
                )
                for name, given in asked:
                    ask(name, **given)

    @contextmanager
    def either(self, kind: str, plan: ChaosPlan, *asked: tuple[str, dict[str, Any]]) -> Iterator[Ask]:
        """The same, whether the server is there or its recording."""
        if kind == "played":
            self.recorded(*asked)
        with self.live(plan) if kind == "live" else self.played(plan) as ask:
            yield ask

    def again(self) -> Any:
        """The run under chaos, as a recording to be played."""
        self.weather.run = self.weather.again
        return self.played()

    def _numbered(self, tool: Any) -> Ask:
        numbers = iter(range(100, 200))
        return lambda name, **given: tool(next(numbers), name, **given)

    def _posting(self, endpoint: McpEndpoint) -> Ask:
        def ask(name: str, **given: Any) -> Any:
            told = asyncio.run(asyncio.wait_for(self.post(endpoint, request(7, name, given)), 20))
            return told[-1] if isinstance(told, list) else told

        return ask

    async def post(self, endpoint: McpEndpoint, value: Any) -> Any:
        reply = await endpoint.answer(HttpRequest(method="POST", url=URL, body=json.dumps(value).encode()))
        body = b"".join([chunk async for chunk in reply.chunks])
        assert reply.header("content-length") in ("", str(len(body)))
        if not reply.header("content-type").startswith("text/event-stream"):
            return json.loads(body)
        lines = body.decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def request(number: int, name: str, given: dict[str, Any]) -> dict[str, Any]:
    params = {"name": name, "arguments": given, "_meta": {"progressToken": 1}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.fixture(params=["stdio", "json", "events"])
def worlds(request: pytest.FixtureRequest, weather: Any) -> Worlds:
    return Worlds(weather, request.param)


@pytest.fixture(params=["live", "played"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


BERN = {"city": "Bern"}


def test_a_tool_that_times_out_is_refused_with_the_code_of_a_timeout(worlds: Worlds, kind: str) -> None:
    with worlds.either(kind, plan_of("timeout"), ("echo", BERN)) as ask:
        error = ask("echo", **BERN)["error"]

    assert error["code"] == -32001
    assert error["message"] == "`weather.echo` did not answer in time (injected)"
    assert faults(worlds.weather.again) == [("tool.timeout",)]


def test_a_tool_that_fails_says_so_in_its_result(worlds: Worlds, kind: str) -> None:
    with worlds.either(kind, plan_of("error", error_code=418), ("echo", BERN)) as ask:
        result = ask("echo", **BERN)["result"]

    text = "`weather.echo` failed with 418 (injected)"
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}
    assert worlds.server.asked == [] or kind == "played"
    assert faults(worlds.weather.again) == [("tool.error",)]


def test_a_failure_has_its_payload_to_say_and_nought_is_a_closed_connection(worlds: Worlds) -> None:
    plan = ChaosPlan(
        tool_faults=(
            ToolFault(mode=ToolTrouble.ERROR, tool="*.echo", payload={"why": "tea"}),
            ToolFault(mode=ToolTrouble.ERROR, error_code=0),
        )
    )
    with worlds.live(plan) as ask:
        said, closed = ask("echo"), ask("structured", **BERN)

    assert said["result"]["structuredContent"] == {"why": "tea"}
    assert json.loads(said["result"]["content"][0]["text"]) == {"why": "tea"}
    assert closed["error"]["code"] == -32000


def _text(result: Any) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("mode", ["malformed", "partial", "empty", "malicious_response"])
def test_an_answer_is_changed_in_its_blocks_and_in_its_structure(worlds: Worlds, kind: str, mode: str) -> None:
    with worlds.either(kind, plan_of(mode), ("structured", BERN)) as ask:
        message = ask("structured", **BERN)

    result = message["result"]
    structured = result.pop("structuredContent", None)
    assert result.keys() == {"content"}
    if mode == "malformed":
        assert (_text(result)[:5], _text(result)[-3:], structured) == ('{"cit', "\ufffd\ufffd{", None)
    elif mode == "partial":
        assert '{"city": "Bern"} number 0001'.startswith(_text(result)[:14])
        assert len(_text(result)) < 20
        assert structured == {"city": "Be", "sky": SKY[:10]}
    elif mode == "empty":
        assert (result["content"], structured) == ([], {"city": "", "sky": ""})
    else:
        assert _text(result) == PAYLOAD
        assert structured == {"city": "Bern", "sky": PAYLOAD}
    (call,) = (call for call in worlds.weather.again.calls if isinstance(call, ToolCall))
    assert call.faults == (f"tool.{mode}",)
    assert call.result == message["result"] | ({} if structured is None else {"structuredContent": structured})


def test_an_instruction_hides_behind_the_text_of_an_answer(worlds: Worlds, kind: str) -> None:
    attack = ContextAttack(type=Attack.INDIRECT_INJECTION, payloads=("obey",))

    with worlds.either(kind, ChaosPlan(context_attacks=(attack,)), ("structured", BERN)) as ask:
        result = ask("structured", **BERN)["result"]

    assert _text(result).endswith("\n\nobey")
    assert _text(result).startswith('{"city": "Bern"}')
    assert result["structuredContent"]["sky"] == f"{SKY}\n\nobey"


def test_a_slow_tool_takes_longer_by_the_log_and_nobody_waits(worlds: Worlds, kind: str) -> None:
    began = time.monotonic()
    with worlds.either(kind, plan_of("slow", delay_ms=90_000), ("echo", BERN)) as ask:
        assert _text(ask("echo", **BERN)["result"]).startswith('{"city": "Bern"}')

    assert time.monotonic() - began < 60
    (call,) = (call for call in worlds.weather.again.calls if isinstance(call, ToolCall))
    assert call.duration_s >= 90
    assert call.faults == ("tool.slow",)


def test_a_slow_tool_is_waited_for_when_that_is_asked_for(worlds: Worlds, kind: str) -> None:
    with worlds.either(kind, plan_of("slow", delay_ms=200, sleep=True), ("echo", BERN)) as ask:
        began = time.monotonic()
        assert "result" in ask("echo", **BERN)
        assert time.monotonic() - began >= 0.2


def test_a_stale_answer_is_an_earlier_one_to_the_same_question(worlds: Worlds, kind: str) -> None:
    asked = [("echo", BERN), ("echo", {"city": "Oslo"}), ("echo", BERN), ("echo", {"city": "Rome"})]

    with worlds.either(kind, plan_of("stale"), *asked) as ask:
        said = [_text(ask(name, **given)["result"]) for name, given in asked]

    assert said[2] == said[0]
    assert '"Bern"' in said[3]  # never asked before: what the tool said last
    assert faults(worlds.weather.again) == [(), ("tool.stale",), ("tool.stale",), ("tool.stale",)]


@pytest.mark.parametrize("payload", ["old", {"sky": "old"}, {"content": [{"type": "text", "text": "old"}]}])
def test_a_stale_answer_that_is_written_down_is_given_as_a_result(worlds: Worlds, payload: Any) -> None:
    with worlds.live(plan_of("stale", payload=payload)) as ask:
        result = ask("echo", **BERN)["result"]

    assert "old" in _text(result)
    assert result.get("structuredContent") == (payload if "sky" in payload else None)


def test_a_tool_that_fails_by_itself_has_no_answer_to_change(worlds: Worlds, kind: str) -> None:
    with worlds.either(kind, plan_of("malformed"), ("fail", BERN)) as ask:
        result = ask("fail", **BERN)["result"]

    assert result["isError"]
    assert "\ufffd" not in _text(result)
    assert faults(worlds.weather.again) == [()]


@sampled("mode", list(ToolTrouble), count=4)
def test_a_run_under_chaos_is_played_again_without_it(worlds: Worlds, mode: ToolTrouble) -> None:
    asked = [{"city": name} for name in ("Bern", "Oslo", "Bern")]
    with worlds.live(plan_of(mode, after_calls=1)) as ask:
        live = [ask("structured", **given) for given in asked]
    assert faults(worlds.weather.again) == [(), (f"tool.{mode}",), (f"tool.{mode}",)]

    with worlds.again() as ask:
        again = [ask("structured", **given) for given in asked]

    plain = [{key: value for key, value in one.items() if key != "id"} for one in (*live, *again)]
    assert plain[:3] == plain[3:]


def test_the_same_seed_strikes_the_same_questions_in_any_order(worlds: Worlds) -> None:
    cities = [f"city {number}" for number in range(8)]
    struck = []
    for order in (cities, cities[::-1]):
        with worlds.live(plan_of("timeout", probability=0.5)) as ask:
            struck.append({city for city in order if "error" in ask("echo", city=city)})

    assert struck[0] == struck[1]
    assert 0 < len(struck[0]) < 8


def test_what_was_said_on_the_way_to_an_answer_is_said_though_a_fault_changes_it(weather: Any) -> None:
    asked = {"name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": "p"}}
    with weather.recorded() as client:
        client.request(1, "tools/call", asked)

    with weather.replayed(chaos=plan_of("malformed")) as client:
        answer = client.request(2, "tools/call", asked)
        said = client.before()

    assert [message["params"]["progress"] for message in said] == [0, 1, 2]
    assert answer["result"]["content"][0]["text"].endswith("\ufffd\ufffd{")


def test_only_tools_are_struck(weather: Any) -> None:
    with weather.lived(plan_of("timeout", tool="*")) as client:
        assert "result" in client.request(1, "initialize", {})
        assert "result" in client.request(2, "tools/list")
        assert "error" in client.tool(3, "echo")


def test_of_a_batch_only_what_is_struck_is_answered_here(weather: Any) -> None:
    batch = [request(1, "echo", BERN), request(2, "structured", BERN)]
    with weather.lived(plan_of("timeout", tool="*.echo")) as client:
        client.send(batch)
        said = [client.receive(), client.receive()]

    told = {one["id"]: one for message in said for one in (message if isinstance(message, list) else [message])}
    assert told[1]["error"]["code"] == -32001
    assert told[2]["result"]["structuredContent"]["sky"] == SKY


@pytest.mark.parametrize("transport", ["json", "events"])
def test_of_a_batch_over_http_all_answers_come_in_one_reply(weather: Any, transport: str) -> None:
    worlds = Worlds(weather, transport)
    batch = [request(1, "echo", BERN), request(2, "structured", BERN)]

    with weather.living(plan_of("timeout", tool="*.echo")) as own:
        endpoint = McpEndpoint("weather", own.session, upstream=worlds.server, as_sent=False)
        said = asyncio.run(asyncio.wait_for(worlds.post(endpoint, batch), 20))

    flat = [one for message in said for one in (message if isinstance(message, list) else [message])]
    told = {one["id"]: one for one in flat if "id" in one}
    assert told[1]["error"]["code"] == -32001
    assert told[2]["result"]["structuredContent"]["sky"] == SKY
    assert [[one["id"] for one in asked] for asked in worlds.server.asked] == [[2]]


def test_a_server_with_a_recording_is_never_asked(weather: Any) -> None:
    with weather.recorded() as client:
        client.tool(1, "echo")

    with weather.replaying() as own:
        assert not own.has_server


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_data_of_an_event_is_changed_and_all_else_stays(end: str) -> None:
    stream = end.join([": hello", "", "id: 1", "data: {", "data: }", "", "event: message", "data: 2", "", "data: 3"])

    async def events() -> list[bytes]:
        pieces = chunks_of(*(stream[at : at + 3].encode() for at in range(0, len(stream), 3)))
        return [event async for event in whole_events(pieces, lambda data: data)]

    hello, first, second, rest = asyncio.run(events())

    assert b"".join((hello, first, second, rest)) == stream.encode()
    assert with_data(first, [None]) == first
    assert with_data(first, [b"other"]) == b"id: 1\ndata: other\n\n"
    assert with_data(second, [b"other"]) == b"event: message\ndata: other\n\n"
    assert with_data(rest, [b"other"]) == b"data: other\n\n"
