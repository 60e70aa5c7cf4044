"""The loopback server in front of an MCP server that speaks HTTP: real sockets on both sides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from replaykit.programs.mcp.http_endpoint import McpEndpoint
from replaykit.programs.mcp.http_relay import SendToServer
from replaykit.programs.mcp.http_shim import HttpShim

ACCEPT = {"Accept": "application/json, text/event-stream"}
Talk = Callable[[str, aiohttp.ClientSession], Awaitable[Any]]


def tool(number: Any, name: str = "echo") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name}}


class Server:
    """An MCP server behind a real socket."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        self.left = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        if request.path == "/.well-known/oauth-protected-resource":
            return web.json_response({"resource": "here"})
        if request.method == "GET":
            return web.Response(status=405)
        message = await request.json()
        if message["params"]["name"] == "silent":
            return await self.silent(request)
        if message["params"]["name"] == "breaks":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if message["params"]["name"] == "moved" and request.path == "/mcp":
            return web.Response(status=308, headers={"Location": str(request.url.with_path("/mcp/"))})
        if message["params"]["name"] == "moved away":
            return web.Response(status=307, headers={"Location": "https://elsewhere.example/mcp"})
        if message["params"]["name"] == "moved again and again":
            return web.Response(status=307, headers={"Location": "."})
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})

    async def silent(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(b": here\n\n")
            await asyncio.Event().wait()
        finally:
            self.left.set()
        return response


async def serving(url: str, make: Callable[[SendToServer], McpEndpoint], talk: Talk) -> Any:
    """What comes of talking to a shim in front of that URL."""
    stopped, address = asyncio.Event(), asyncio.get_running_loop().create_future()
    shim = asyncio.create_task(HttpShim(url, make).serve(0, address.set_result, stopped))
    try:
        async with aiohttp.ClientSession() as client:
            return await asyncio.wait_for(talk(await asyncio.wait_for(address, 10), client), 20)
    finally:
        stopped.set()
        await shim


def recorded(weather: Any, talk: Talk, server: Server | None = None) -> Any:
    async def main() -> Any:
        nonlocal server
        server = server or Server()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp?v=1"
        try:
            with weather.recording() as own:
                return await serving(url, lambda up: McpEndpoint("weather", own.session, upstream=up), talk)
        finally:
            await runner.cleanup()

    return asyncio.run(asyncio.wait_for(main(), 40))


def replayed(weather: Any, talk: Talk) -> Any:
    async def main() -> Any:
        with weather.replaying() as own:
            endpoint = McpEndpoint("weather", own.session, recorded_server=own.recorded_server)
            return await serving("http://127.0.0.1:9/mcp?v=1", lambda _: endpoint, talk)

    return asyncio.run(asyncio.wait_for(main(), 40))


async def ask(url: str, client: aiohttp.ClientSession) -> Any:
    async with client.post(url, json=tool(1), headers=ACCEPT) as response:
        return await response.json()


def test_a_client_talks_to_the_shim_as_it_would_to_the_server(weather: Any) -> None:
    first = recorded(weather, ask)

    assert first == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    assert replayed(weather, ask) == first


def test_the_server_sees_its_own_name_and_the_credentials_of_the_client(weather: Any) -> None:
    server = Server()

    async def talk(url: str, client: aiohttp.ClientSession) -> Any:
        async with client.post(url, json=tool(1), headers={**ACCEPT, "Authorization": "Bearer x"}) as response:
            return response.status, url

    status, url = recorded(weather, talk, server)

    assert status == 200
    assert url.endswith("/mcp?v=1")
    assert server.headers[0]["Authorization"] == "Bearer x"
    assert server.headers[0]["Accept-Encoding"] == "identity"
    assert server.headers[0]["Host"] not in url


def test_a_client_that_leaves_a_silent_stream_is_noticed(weather: Any) -> None:
    server = Server()

    async def talk(url: str, client: aiohttp.ClientSession) -> None:
        async with client.post(url, json=tool(1, "silent"), headers=ACCEPT) as response:
            assert await response.content.readline() == b": here\n"
        await asyncio.wait_for(server.left.wait(), 10)

    recorded(weather, talk, server)

    assert not weather.calls["weather.silent"].complete


def test_a_connection_that_broke_breaks_again(weather: Any) -> None:
    async def talk(url: str, client: aiohttp.ClientSession) -> Any:
        try:
            async with client.post(url, json=tool(1, "breaks"), headers=ACCEPT) as response:
                return response.status
        except aiohttp.ClientConnectionError:
            return "broken"

    assert recorded(weather, talk) == 502
    assert weather.calls["weather.breaks"].error.message == "the server closed the connection"
    assert replayed(weather, talk) == "broken"


def test_a_server_that_has_moved_a_little_is_followed_and_is_at_its_place_in_a_replay(weather: Any) -> None:
    server = Server()

    async def talk(url: str, client: aiohttp.ClientSession) -> Any:
        headers = {**ACCEPT, "Authorization": "Bearer x"}
        async with client.post(url, json=tool(1, "moved"), headers=headers, allow_redirects=False) as response:
            return response.status, await response.json()

    first = recorded(weather, talk, server)

    assert first == (200, {"jsonrpc": "2.0", "id": 1, "result": {"content": []}})
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer x", "Bearer x"]
    assert [call.name for call in weather.run.calls] == ["weather.moved"]
    assert replayed(weather, talk) == first


@pytest.mark.parametrize(
    ("name", "place"), [("moved away", "https://elsewhere.example/mcp"), ("moved again and again", ".")]
)
def test_redirects_to_other_servers_and_without_end_are_left_to_the_client(weather: Any, name: str, place: str) -> None:
    async def talk(url: str, client: aiohttp.ClientSession) -> Any:
        async with client.post(url, json=tool(1, name), headers=ACCEPT, allow_redirects=False) as response:
            return response.status, response.headers["Location"]

    assert recorded(weather, talk) == (307, place)


def test_other_pages_of_the_server_pass_and_are_not_there_in_a_replay(weather: Any) -> None:
    async def talk(url: str, client: aiohttp.ClientSession) -> Any:
        page = url.partition("/mcp")[0] + "/.well-known/oauth-protected-resource"
        async with client.get(page) as response:
            return response.status

    assert recorded(weather, talk) == 200
    assert list(weather.run.calls) == []
    assert replayed(weather, talk) == 404


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_a_page_in_a_browser_cannot_use_the_shim(weather: Any, headers: dict[str, str]) -> None:
    async def talk(url: str, client: aiohttp.ClientSession) -> Any:
        async with client.post(url, data=json.dumps(tool(1)), headers={**ACCEPT, **headers}) as response:
            return response.status

    assert recorded(weather, talk) == 403
    assert list(weather.run.calls) == []
