"""An MCP endpoint over HTTP, as a function: recorded in front of a scripted server, then without one."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from replaykit.model.events import Note
from replaykit.programs.mcp.http_endpoint import McpEndpoint, speaks_mcp
from replaykit.programs.mcp.http_replies import McpReply, chunks_of, event
from replaykit.programs.mcp.messages import MISS
from replaykit.seam.http.request import HttpRequest

URL = "https://user:word@weather.example/mcp?api_key=sk-in-the-url"
ACCEPT = ("Accept", "application/json, text/event-stream")
SECRET = ("Authorization", "Bearer sk-in-a-header")
BEGUN = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def tool(number: Any, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": number}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def hello(number: Any = 0) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}


class Server:
    """A streamable HTTP server with no SDK: what it does is said by the tool that is called."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []
        self.aside: asyncio.Queue[bytes] = asyncio.Queue()
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.stopped: list[str] = []
        self.late: dict[str, Any] = {}

    async def __call__(self, request: HttpRequest) -> McpReply:
        self.seen.append(request)
        if request.method == "GET":
            return self.stream(request)
        if request.method == "DELETE":
            return McpReply(status=204, chunks=chunks_of())
        value = json.loads(request.body)
        if isinstance(value, list):
            return self.json([self.answer(message) for message in value if "id" in message])
        if "method" not in value:
            self.answers.put_nowait(value)
        if "id" not in value or "method" not in value:
            return McpReply(status=202, chunks=chunks_of())
        if value["method"] == "initialize":
            return self.json(self.answer(value), ("Mcp-Session-Id", "server-secret-session"))
        special = getattr(self, value["params"].get("name", "echo"), None)
        reply: McpReply = special(value) if special else self.json(self.answer(value))
        return reply

    def answer(self, message: Any) -> Any:
        text = json.dumps(message["params"].get("arguments"), sort_keys=True)
        content = [{"type": "text", "text": f"{text} {os.urandom(8).hex()}"}]
        return {"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}

    def json(self, value: Any, *headers: tuple[str, str], status: int = 200) -> McpReply:
        kept = (("Content-Type", "application/json"), *headers)
        return McpReply(status=status, headers=kept, chunks=chunks_of(json.dumps(value).encode()))

    def events(self, chunks: AsyncGenerator[bytes, None], *headers: tuple[str, str]) -> McpReply:
        return McpReply(
            status=200, headers=(("Content-Type", "text/event-stream; charset=utf-8"), *headers), chunks=chunks
        )

    def progress(self, message: Any) -> McpReply:
        whole = b""
        for step in range(3):
            told = {"progressToken": message["id"], "progress": step}
            whole += event(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}).encode())
        whole += event(json.dumps(self.answer(message)).encode())
        pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
        return self.events(chunks_of(*pieces))

    def zipped(self, message: Any) -> McpReply:
        whole = gzip.compress(event(json.dumps(self.answer(message)).encode()))
        return self.events(chunks_of(whole[:20], whole[20:]), ("Content-Encoding", "gzip"))

    def sample(self, message: Any) -> McpReply:
        async def chunks() -> AsyncGenerator[bytes, None]:
            asked = {"jsonrpc": "2.0", "id": 77, "method": "sampling/createMessage", "params": {"messages": []}}
            yield event(json.dumps(asked).encode())
            heard = await self.answers.get()
            result = {"content": [{"type": "text", "text": json.dumps(heard["result"])}]}
            yield event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

        return self.events(chunks())

    def sample_aside(self, message: Any) -> McpReply:
        async def chunks() -> AsyncGenerator[bytes, None]:
            asked = {"jsonrpc": "2.0", "id": 78, "method": "elicitation/create", "params": {"message": "sure?"}}
            self.aside.put_nowait(event(json.dumps(asked).encode()))
            heard = await self.answers.get()
            result = {"content": [{"type": "text", "text": json.dumps(heard["result"])}]}
            yield event(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

        return self.events(chunks())

    def breaks(self, message: Any) -> McpReply:
        async def chunks() -> AsyncGenerator[bytes, None]:
            told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "soon"}}
            yield event(json.dumps(told).encode())
            raise ConnectionResetError("gone")

        return self.events(chunks())

    def unreachable(self, message: Any) -> McpReply:
        raise ConnectionRefusedError("nobody there")

    def resumable(self, message: Any) -> McpReply:
        self.late["answer"] = self.answer(message)
        return self.events(chunks_of(b"id: e-1\ndata: \n\nretry: 10\n\n"))

    def silent(self, message: Any) -> McpReply:
        async def chunks() -> AsyncGenerator[bytes, None]:
            try:
                yield b": here\n\n"
                await asyncio.Event().wait()
            finally:
                self.stopped.append("silent")

        return self.events(chunks())

    def forbidden(self, message: Any) -> McpReply:
        return McpReply(status=401, headers=(("WWW-Authenticate", "Bearer"),), chunks=chunks_of(b"who are you?"))

    def broken(self, message: Any) -> McpReply:
        return McpReply(status=500, headers=(("Content-Type", "text/html"),), chunks=chunks_of(b"<h1>Oops</h1>"))

    def unread(self, message: Any) -> McpReply:
        return self.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "bad"}}, status=400)

    def stream(self, request: HttpRequest) -> McpReply:
        if request.header("last-event-id"):
            return self.events(chunks_of(event(json.dumps(self.late.pop("answer")).encode())))

        async def chunks() -> AsyncGenerator[bytes, None]:
            while True:
                yield await self.aside.get()

        return self.events(chunks())


class Client:
    """Posts messages to an endpoint and reads what comes back."""

    def __init__(self, endpoint: McpEndpoint) -> None:
        self.endpoint = endpoint
        self.session = ""

    def request(self, method: str, body: bytes = b"", *headers: tuple[str, str]) -> HttpRequest:
        own = (("Mcp-Session-Id", self.session), ("MCP-Protocol-Version", "2025-06-18")) if self.session else ()
        return HttpRequest(method=method, url=URL, headers=(ACCEPT, SECRET, *own, *headers), body=body)

    async def reply(self, message: Any) -> McpReply:
        return await self.endpoint.answer(self.request("POST", json.dumps(message).encode()))

    async def post(self, message: Any) -> Any:
        """What came back: a JSON value, the list of a stream's messages, or a status."""
        reply = await self.reply(message)
        return await read(reply)

    async def begin(self) -> Any:
        reply = await self.reply(hello())
        self.session = reply.header("mcp-session-id")
        answer = await read(reply)
        assert await self.post(BEGUN) == 202
        return answer

    async def listen(self, *headers: tuple[str, str]) -> McpReply:
        return await self.endpoint.answer(self.request("GET", b"", *headers))


def messages_in(chunks: bytes) -> list[Any]:
    frames = chunks.decode().split("\n\n")
    data = ["\n".join(line[6:] for line in frame.split("\n") if line.startswith("data: ")) for frame in frames]
    return [json.loads(text) for text in data if text.strip()]


async def read(reply: McpReply) -> Any:
    body = b"".join([chunk async for chunk in reply.chunks])
    if "event-stream" in reply.header("content-type"):
        body = gzip.decompress(body) if reply.header("content-encoding") else body
        return messages_in(body)
    return json.loads(body) if reply.header("content-type") == "application/json" else reply.status


async def next_message(reply: McpReply) -> Any:
    """The next message of a stream."""
    while True:
        chunk = await asyncio.wait_for(anext(reply.chunks), 10)
        if found := messages_in(chunk):
            return found[0]


Talk = Callable[[Client], Any]


def recorded(weather: Any, talk: Talk, server: Server | None = None) -> Any:
    """What a client gets that talks to the real server."""

    async def main() -> Any:
        with weather.recording() as own:
            endpoint = McpEndpoint("weather", own.session, upstream=server or Server())
            try:
                return await talk(Client(endpoint))
            finally:
                endpoint.end()

    return asyncio.run(asyncio.wait_for(main(), 20))


def replayed(weather: Any, talk: Talk) -> Any:
    """What a client gets that talks to nobody."""

    async def main() -> Any:
        with weather.replaying() as own:
            return await talk(Client(McpEndpoint("weather", own.session, recorded_server=own.recorded_server)))

    return asyncio.run(asyncio.wait_for(main(), 20))


def test_answers_in_json_come_back_in_any_order_under_their_own_ids(weather: Any) -> None:
    async def first(client: Client) -> Any:
        await client.begin()
        return [await client.post(tool(number, "echo", n=number)) for number in (1, 2, 3)]

    async def second(client: Client) -> Any:
        await client.begin()
        return [await client.post(tool(f"id-{number}", "echo", n=number)) for number in (3, 1, 2)]

    one, two, three = recorded(weather, first)
    given = replayed(weather, second)

    assert [answer["id"] for answer in given] == ["id-3", "id-1", "id-2"]
    assert [answer["result"] for answer in given] == [three["result"], one["result"], two["result"]]
    assert not weather.deviations


def test_a_stream_comes_back_as_a_stream_with_the_tokens_of_whoever_asks(weather: Any) -> None:
    async def ask(client: Client, number: Any) -> Any:
        return await client.post(tool(number, "progress"))

    first = recorded(weather, lambda client: ask(client, 1))
    second = replayed(weather, lambda client: ask(client, "own"))

    assert [message["params"] for message in second[:3]] == [{"progressToken": "own", "progress": n} for n in range(3)]
    assert second[3] == {**first[3], "id": "own"}
    assert len(first) == 4


def test_a_compressed_stream_is_passed_on_as_it_is_and_read_all_the_same(weather: Any) -> None:
    first = recorded(weather, lambda client: client.post(tool(1, "zipped")))

    assert replayed(weather, lambda client: client.post(tool(1, "zipped"))) == first[0]


def test_the_session_id_of_the_server_passes_and_a_replay_gives_another(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        await client.begin()
        await client.post(tool(1, "echo"))
        deleted = await client.endpoint.answer(client.request("DELETE"))
        gone = await client.endpoint.answer(client.request("POST", json.dumps(tool(2, "echo")).encode()))
        return client.session, deleted.status, gone.status

    server = Server()
    assert recorded(weather, talk, server) == ("server-secret-session", 204, 200)
    assert server.seen[2].header("mcp-session-id") == "server-secret-session"
    session, deleted, gone = replayed(weather, talk)

    assert session not in ("", "server-secret-session")
    assert (deleted, gone) == (200, 404)


def test_a_server_without_sessions_stays_without(weather: Any) -> None:
    class Stateless(Server):
        def json(self, value: Any, *headers: tuple[str, str], status: int = 200) -> McpReply:
            return super().json(value, status=status)

    async def talk(client: Client) -> str:
        await client.begin()
        return client.session

    assert recorded(weather, talk, Stateless()) == ""
    assert replayed(weather, talk) == ""


def test_a_session_that_began_elsewhere_is_served_by_what_it_asks(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        client.session = "from-yesterday"
        return await client.post(tool(1, "echo"))

    first = recorded(weather, talk)
    assert replayed(weather, talk) == first


def test_nothing_secret_is_written_down(weather: Any) -> None:
    async def talk(client: Client) -> None:
        await client.begin()
        await client.post(tool(1, "progress"))
        await client.endpoint.answer(client.request("DELETE"))

    recorded(weather, talk)

    assert b"weather.progress" in weather.written()
    for secret in (b"sk-in-a-header", b"sk-in-the-url", b"server-secret-session", b"word@"):
        assert secret not in weather.written()
    assert weather.calls["weather.progress"].wire.url == "https://weather.example/mcp?api_key=hidden"


def test_what_the_server_asks_inside_a_stream_is_asked_again(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        await client.begin()
        reply = await client.reply(tool(1, "sample"))
        asked = await next_message(reply)
        assert await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": "snow"}}) == 202
        answer = await next_message(reply)
        assert [chunk async for chunk in reply.chunks] == []
        return asked["method"], answer

    first = recorded(weather, talk)
    assert replayed(weather, talk) == first
    assert first[0] == "sampling/createMessage"
    assert "snow" in first[1]["result"]["content"][0]["text"]
    assert not weather.deviations


def test_what_the_server_asks_on_its_own_stream_is_asked_there_again(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        await client.begin()
        stream = await client.listen()
        reply = await client.reply(tool(1, "sample_aside"))
        asking = asyncio.create_task(next_message(reply))
        asked = await next_message(stream)
        assert not asking.done()
        await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})
        answer = await asking
        await stream.chunks.aclose()
        await reply.chunks.aclose()
        return asked["method"], answer

    first = recorded(weather, talk)
    assert replayed(weather, talk) == first
    assert first[0] == "elicitation/create"
    assert not weather.deviations


def test_what_the_server_says_on_its_own_comes_on_its_stream_after_the_same_call(weather: Any) -> None:
    changed = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///x"}}
    server = Server()

    async def first(client: Client) -> Any:
        await client.begin()
        stream = await client.listen()
        await client.post(tool(1, "echo"))
        server.aside.put_nowait(event(json.dumps(changed).encode()))
        told = await next_message(stream)
        await stream.chunks.aclose()
        return told

    async def second(client: Client) -> Any:
        await client.begin()
        stream = await client.listen()
        waiting = asyncio.create_task(next_message(stream))
        await asyncio.sleep(0)
        assert not waiting.done()
        await client.post(tool(1, "echo"))
        told = await waiting
        await stream.chunks.aclose()
        return told

    assert recorded(weather, first, server) == changed
    assert replayed(weather, second) == changed


def test_a_stream_that_is_resumed_is_one_answer(weather: Any) -> None:
    async def first(client: Client) -> Any:
        await client.begin()
        assert await client.post(tool(1, "resumable")) == []
        return (await read(await client.listen(("Last-Event-ID", "e-1"))))[0]

    async def second(client: Client) -> Any:
        await client.begin()
        return await client.post(tool(1, "resumable"))

    server = Server()
    answer = recorded(weather, first, server)

    assert server.seen[-1].header("last-event-id") == "e-1"
    assert weather.calls["weather.resumable"].result == answer["result"]
    assert replayed(weather, second) == answer


@pytest.mark.parametrize("by_client", [True, False])
def test_a_session_that_is_ended_leaves_what_was_under_way_unanswered(weather: Any, by_client: bool) -> None:
    async def talk(client: Client) -> None:
        await client.begin()
        await client.post(tool(1, "resumable"))
        if by_client:
            await client.endpoint.answer(client.request("DELETE"))

    recorded(weather, talk)

    assert not weather.calls["weather.resumable"].complete


def test_a_stream_that_broke_off_breaks_off_there_again(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        reply = await client.reply(tool(1, "breaks"))
        told = await next_message(reply)
        with pytest.raises(ConnectionResetError):
            await anext(reply.chunks)
        return told

    first = recorded(weather, talk)
    assert replayed(weather, talk) == first
    assert not weather.calls["weather.breaks"].complete
    assert weather.calls["weather.breaks"].error.message == "the server closed the connection"


def test_a_server_that_could_not_be_reached_gives_no_response_again(weather: Any) -> None:
    async def first(client: Client) -> None:
        with pytest.raises(ConnectionRefusedError):
            await client.reply(tool(1, "unreachable"))

    recorded(weather, first)

    assert replayed(weather, lambda client: client.reply(tool(1, "unreachable"))).status == 0


def test_a_client_that_leaves_a_silent_stream_leaves_the_server_too(weather: Any) -> None:
    server = Server()

    async def talk(client: Client) -> None:
        reply = await client.reply(tool(1, "silent"))
        if reply.header("cache-control"):
            waiting = asyncio.create_task(anext(reply.chunks))
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        else:
            await anext(reply.chunks)
        await reply.chunks.aclose()

    recorded(weather, talk, server)
    assert server.stopped == ["silent"]
    call = weather.calls["weather.silent"]
    assert not call.complete
    assert call.error is None

    replayed(weather, talk)
    assert not weather.deviations


def test_who_leaves_a_stream_hears_nothing_more_of_it(weather: Any) -> None:
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    server = Server()

    async def first(client: Client) -> None:
        await client.begin()
        reply = await client.reply(tool(1, "sample"))
        asked = await next_message(reply)
        await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        await read(reply)
        stream = await client.listen()
        server.aside.put_nowait(event(json.dumps(changed).encode()))
        assert await next_message(stream) == changed
        await stream.chunks.aclose()

    async def second(client: Client) -> bool:
        await client.begin()
        reply = await client.reply(tool(1, "sample"))
        asked = await next_message(reply)
        await reply.chunks.aclose()
        await client.post({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        stream = await client.listen()
        waiting = asyncio.create_task(anext(stream.chunks))
        await asyncio.sleep(0)
        silent = not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return silent

    recorded(weather, first, server)

    assert replayed(weather, second)


def test_a_request_that_is_given_up_by_name_ends_its_stream(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        await client.begin()
        reply = await client.reply(tool(3, "silent"))
        ended = asyncio.create_task(read(reply))
        given_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
        assert await client.post(given_up) == 202
        if not client.endpoint.has_server:
            return await asyncio.wait_for(ended, 3)
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)
        await reply.chunks.aclose()
        return []

    assert recorded(weather, talk) == replayed(weather, talk) == []
    assert not weather.calls["weather.silent"].complete
    assert not weather.deviations


def test_an_http_error_is_the_same_error_again(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        reply = await client.reply(tool(1, "broken"))
        return reply.status, reply.header("content-type"), [chunk async for chunk in reply.chunks]

    assert recorded(weather, talk) == replayed(weather, talk) == (500, "text/html", [b"<h1>Oops</h1>"])
    assert weather.calls["weather.broken"].error.message == "HTTP status 500"


def test_an_error_without_an_id_answers_the_request_it_came_for(weather: Any) -> None:
    recorded(weather, lambda client: client.post(tool(1, "unread")))

    answer = replayed(weather, lambda client: client.post(tool(5, "unread")))

    assert answer == {"jsonrpc": "2.0", "id": 5, "error": {"code": -32600, "message": "bad"}}


def test_a_request_for_credentials_is_no_part_of_the_recording(weather: Any) -> None:
    assert recorded(weather, lambda client: client.post(tool(1, "forbidden"))) == 401
    assert list(weather.run.calls) == []


def test_a_batch_is_answered_with_a_batch(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        return await client.post([tool(1, "echo", n=1), BEGUN, tool(2, "echo", n=2)])

    first = recorded(weather, talk)
    assert replayed(weather, talk) == first
    assert [answer["id"] for answer in first] == [1, 2]


def test_what_is_given_up_in_its_own_batch_gets_no_answer(weather: Any) -> None:
    given_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    class Silent(Server):
        async def __call__(self, request: HttpRequest) -> McpReply:
            return McpReply(status=202, chunks=chunks_of())

    async def talk(client: Client) -> Any:
        return await client.post([tool(1, "echo"), given_up])

    assert recorded(weather, talk, Silent()) == replayed(weather, talk) == 202
    assert not weather.deviations


def test_clients_that_use_the_same_ids_at_once_get_their_own_answers(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        return await asyncio.gather(*(client.post(tool(1, "progress", n=n)) for n in range(5)))

    first = recorded(weather, talk)
    assert replayed(weather, talk) == first
    assert len({json.dumps(messages[-1]) for messages in first}) == 5


def test_a_miss_is_an_answer_that_explains(weather: Any) -> None:
    recorded(weather, lambda client: client.post(tool(1, "echo", city="Bern")))

    error = replayed(weather, lambda client: client.post(tool(1, "echo", city="Rome")))["error"]

    assert error["code"] == MISS
    assert error["data"]["nearest"]["arguments"] == {"city": "Bern"}
    assert [deviation.kind for deviation in weather.deviations] == ["missing", "unused"]


def test_what_is_no_message_is_passed_on_or_refused(weather: Any) -> None:
    class Lenient(Server):
        async def __call__(self, request: HttpRequest) -> McpReply:
            return self.json({"read": request.body.decode()})

    async def talk(client: Client) -> Any:
        reply = await client.endpoint.answer(client.request("POST", b"{oops"))
        return reply.status, await read(reply)

    assert recorded(weather, talk, Lenient()) == (200, {"read": "{oops"})
    assert [event.content for event in weather.run.events if isinstance(event, Note)] == ["{oops"]
    status, refused = replayed(weather, talk)
    assert status == 400
    assert refused["error"]["code"] == -32700


def test_other_methods_are_the_servers_business_and_nobodys_in_a_replay(weather: Any) -> None:
    class Options(Server):
        async def __call__(self, request: HttpRequest) -> McpReply:
            return McpReply(status=204, headers=(("Allow", "POST"),), chunks=chunks_of())

    async def talk(client: Client) -> Any:
        return (await client.endpoint.answer(client.request("OPTIONS"))).status

    assert recorded(weather, talk, Options()) == 204
    assert replayed(weather, talk) == 405


OLDER = HttpRequest(method="GET", url="https://weather.example/sse", headers=(("accept", "text/event-stream"),))


class OlderServer(Server):
    """The older transport: a stream that names an address, and answers there what is posted to it."""

    def stream(self, request: HttpRequest) -> McpReply:
        self.aside.put_nowait(b"event: endpoint\ndata: /messages?session_id=server-secret\n\n")
        self.aside.put_nowait(b": ping\n\n")
        return super().stream(request)

    async def __call__(self, request: HttpRequest) -> McpReply:
        if request.method == "GET":
            return await super().__call__(request)
        self.seen.append(request)
        message = json.loads(request.body)
        if "id" in message:
            self.aside.put_nowait(event(json.dumps(self.answer(message)).encode()))
        return McpReply(status=202, chunks=chunks_of(b"Accepted"))


def test_the_older_transport_answers_on_its_stream(weather: Any) -> None:
    async def talk(client: Client) -> Any:
        stream = await client.endpoint.answer(OLDER)
        first = await anext(stream.chunks)
        address = first.decode().split("data: ")[1].strip()

        async def ask(message: Any) -> int:
            body = json.dumps(message).encode()
            url = f"https://weather.example{address}"
            return (
                await client.endpoint.answer(HttpRequest(method="POST", url=url, headers=(ACCEPT,), body=body))
            ).status

        assert [await ask(message) for message in (hello(), BEGUN, tool(1, "echo"))] == [202, 202, 202]
        answers = [await next_message(stream) for _ in range(2)]
        await stream.chunks.aclose()
        return first.startswith(b"event: endpoint"), address, answers

    named, address, answers = recorded(weather, talk, OlderServer())
    again = replayed(weather, talk)

    assert named
    assert address == "/messages?session_id=server-secret"
    assert again[0]
    assert again[1].startswith("/sse?session=")
    assert again[2] == answers
    assert not weather.deviations


def test_an_address_of_the_older_transport_is_led_where_the_client_finds_it(weather: Any) -> None:
    async def main() -> Any:
        with weather.recording() as own:
            server = OlderServer()
            endpoint = McpEndpoint(
                "weather", own.session, upstream=server, map_address=lambda url: url.replace("https://", "/mcp-")
            )
            get = HttpRequest(
                method="GET", url="https://weather.example/sse", headers=(("accept", "text/event-stream"),)
            )
            stream = await endpoint.answer(get)
            first = await anext(stream.chunks)
            knows = endpoint.knows(
                HttpRequest(method="POST", url="https://weather.example/messages?session_id=server-secret")
            )
            await stream.chunks.aclose()
            return first, knows

    first, knows = asyncio.run(asyncio.wait_for(main(), 20))

    assert b"data: /mcp-weather.example/messages?session_id=server-secret\n" in first
    assert knows


@pytest.mark.parametrize(
    ("method", "headers", "body", "expected"),
    [
        ("POST", [ACCEPT], b'{"jsonrpc": "2.0"}', True),
        ("POST", [("accept", "application/json")], b'{"jsonrpc": "2.0"}', False),
        ("POST", [ACCEPT], b'{"model": "m"}', False),
        ("POST", [("mcp-protocol-version", "2026-07-28")], b"", True),
        ("GET", [("Mcp-Session-Id", "x")], b"", True),
        ("GET", [("accept", "text/event-stream")], b"", False),
    ],
)
def test_requests_that_speak_mcp_are_told_by_their_headers(
    method: str, headers: Any, body: bytes, expected: bool
) -> None:
    assert speaks_mcp(HttpRequest(method=method, url=URL, headers=tuple(headers), body=body)) is expected
