"""The real SDK, and fastmcp, on both sides of the shim: recorded, then replayed with the server dead.

A replay is asked in another order than the recording was, and its client mints its ids anew.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import fastmcp
import mcp.client.session
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

import replaykit as rk
from replaykit.programs.mcp.messages import MISS

pytestmark = pytest.mark.filterwarnings("ignore")  # the SDK warns of its own past

SHIM = [sys.executable, "-m", "replaykit", "mcp", "--name", "weather", "--store", "store.db"]
OLD, LATEST, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"

SDK_SERVER = """
import os, sys
from typing import Annotated
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

server = MCPServer("weather")
nonce = lambda: os.urandom(8).hex()

class Sure(BaseModel):
    sure: bool

def ask(city: str) -> Elicit[Sure]:
    return Elicit(f"Really {city}?", Sure)

def think(city: str) -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=city))], max_tokens=9)

@server.tool()
def get(city: str) -> str:
    return f"{city} {nonce()}"

@server.tool()
async def steps(count: int, ctx: Context) -> str:
    for step in range(count):
        await ctx.report_progress(step, count)
    return nonce()

@server.tool()
def confirm(city: str, answer: Annotated[Sure, Resolve(ask)]) -> str:
    return f"{city} {answer.sure} {nonce()}"

@server.tool()
def sampled(city: str, answer: Annotated[CreateMessageResult, Resolve(think)]) -> str:
    return f"{city} {answer.content.text} {nonce()}"

@server.tool()
def fail() -> str:
    raise ToolError("out of luck")

@server.tool()
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return nonce()

@server.resource("note://{name}")
def note(name: str) -> str:
    return f"{name} {nonce()}"

@server.prompt()
def greet(who: str) -> str:
    return f"Hello {who} {nonce()}"

transport = sys.argv[1]
server.run(transport=transport, **({} if transport == "stdio" else {"port": 0}))
"""

FASTMCP_SERVER = """
import os, sys
from fastmcp import Context, FastMCP

server = FastMCP("weather")
nonce = lambda: os.urandom(8).hex()

@server.tool
def get(city: str) -> str:
    return f"{city} {nonce()}"

@server.tool
async def steps(count: int, ctx: Context) -> str:
    for step in range(count):
        await ctx.report_progress(step, count)
    return nonce()

@server.tool
def fail() -> str:
    raise ValueError("out of luck")

transport = sys.argv[1]
server.run(transport=transport, show_banner=False, **({} if transport == "stdio" else {"port": 0}))
"""


Answers = dict[str, Any]
"""What a client was told, by what it asked."""


async def sampling(context: Any, params: Any) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text=f"thought of {params.messages[0].content.text}")
    return types.CreateMessageResult(role="assistant", content=text, model="m")


async def eliciting(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"sure": True})


def text_of(result: Any) -> Any:
    return result.is_error, [block.text for block in result.content]


async def talk(client: Client, *, backwards: bool = False) -> Answers:
    """Ask for everything at once, from one end or from the other."""
    answers, progress = Answers(), []

    async def told(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    async def tool(name: str, **arguments: Any) -> None:
        callback = told if name == "steps" else None
        result = await client.call_tool(name, arguments, progress_callback=callback)
        answers[f"{name} {json.dumps(arguments)}"] = text_of(result)

    async def read() -> None:
        answers["note"] = (await client.read_resource("note://today")).contents[0].text

    async def prompt() -> None:
        answers["greet"] = (await client.get_prompt("greet", {"who": "you"})).messages[0].content.text

    asked: list[Callable[[], Awaitable[None]]] = [
        *(lambda city=city: tool("get", city=city) for city in "abc"),  # type: ignore[misc]
        lambda: tool("steps", count=3),
        lambda: tool("confirm", city="Bern"),
        lambda: tool("sampled", city="Rome"),
        lambda: tool("fail"),
        read,
        prompt,
    ]
    names = sorted(listed.name for listed in (await client.list_tools()).tools)
    await asyncio.gather(*(one() for one in (reversed(asked) if backwards else asked)))
    return Answers(answers, tools=names, progress=progress, version=client.session.protocol_version)


def recorded_id() -> str:
    with rk.Store.open("store.db", read_only=True) as store:
        return next(header.id for header in store.headers() if header.origin.kind == "recorded")


def deviations() -> list[str]:
    with rk.Store.open("store.db", read_only=True) as store:
        header = next(header for header in store.headers() if header.origin.kind == "replayed")
        return [told["kind"] for told in header.metadata["deviations"]]


@pytest.fixture
def server(own_directory: Path) -> list[str]:
    (own_directory / "server.py").write_text(SDK_SERVER)
    return [sys.executable, str(own_directory / "server.py")]


@contextmanager
def behind_http(command: list[str], transport: str) -> Iterator[str]:
    """The address of a server that speaks HTTP."""
    with subprocess.Popen([*command, transport], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, "the server did not start"
            found = re.search(r"running on (http://[\d.]+:\d+)", line)
        yield found[1]
        process.kill()


@contextmanager
def shim(*arguments: str) -> Iterator[str]:
    """The address of a shim with a port."""
    with subprocess.Popen([*SHIM, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@asynccontextmanager
async def connected(target: Any, mode: str) -> AsyncIterator[Client]:
    async with Client(target, mode=mode, elicitation_callback=eliciting, sampling_callback=sampling) as client:
        yield client


def over_stdio(command: list[str]) -> Any:
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))


async def ask(target: Any, mode: str, **how: Any) -> Answers:
    async with connected(target, mode) as client:
        return await talk(client, **how)


@pytest.fixture
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a client begins to get at a version of the protocol."""
    if request.param == MODERN:
        return "auto"
    monkeypatch.setattr(mcp.client.session, "LATEST_HANDSHAKE_VERSION", request.param)
    return "legacy"


VERSIONS = pytest.mark.parametrize("mode", [OLD, LATEST, MODERN], indirect=True)


def check(first: Answers, second: Answers) -> None:
    assert second == first
    assert len(first) == 12
    assert first["progress"] == [0, 1, 2]
    assert "Bern True" in first['confirm {"city": "Bern"}'][1][0]
    assert "thought of Rome" in first['sampled {"city": "Rome"}'][1][0]
    assert first["fail {}"][0]
    assert deviations() == []


@VERSIONS
def test_over_stdio_every_answer_comes_again_with_the_server_dead(
    server: list[str], mode: str, request: pytest.FixtureRequest
) -> None:
    first = asyncio.run(ask(over_stdio([*SHIM, "--record", "--", *server, "stdio"]), mode))
    dead = over_stdio([*SHIM, "--replay", recorded_id(), "--", "no-such-server"])
    second = asyncio.run(ask(dead, mode, backwards=True))

    check(first, second)
    assert first["version"] == request.node.callspec.params["mode"]


@VERSIONS
def test_over_http_every_answer_comes_again_with_the_server_dead(
    server: list[str], mode: str, request: pytest.FixtureRequest
) -> None:
    with behind_http(server, "streamable-http") as address, shim("--record", "--http", f"{address}/mcp") as url:
        first = asyncio.run(ask(url, mode))
    with shim("--replay", recorded_id(), "--http", f"{address}/mcp") as url:
        second = asyncio.run(ask(url, mode, backwards=True))

    check(first, second)
    assert first["version"] == request.node.callspec.params["mode"]


@pytest.mark.parametrize("mode", [OLD], indirect=True)
def test_over_the_older_transport_every_answer_comes_again(server: list[str], mode: str) -> None:
    with behind_http(server, "sse") as address, shim("--record", "--http", f"{address}/sse") as url:
        first = asyncio.run(ask(sse_client(url), mode))
    with shim("--replay", recorded_id(), "--http", f"{address}/sse") as url:
        second = asyncio.run(ask(sse_client(url), mode, backwards=True))

    check(first, second)


def test_what_was_recorded_over_one_transport_is_replayed_over_the_other(server: list[str]) -> None:
    first = asyncio.run(ask(over_stdio([*SHIM, "--record", "--", *server, "stdio"]), "legacy"))
    with shim("--replay", recorded_id(), "--http", "http://127.0.0.1:9/mcp") as url:
        second = asyncio.run(ask(url, "legacy", backwards=True))

    check(first, second)


def test_a_client_of_the_newest_version_finds_a_recording_of_an_older_one(server: list[str]) -> None:
    first = asyncio.run(ask(over_stdio([*SHIM, "--record", "--", *server, "stdio"]), "legacy"))
    second = asyncio.run(ask(over_stdio([*SHIM, "--replay", recorded_id(), "--", "x"]), "auto"))

    assert second == first
    assert deviations() == ["handshake"]


def test_a_miss_is_an_error_of_the_sdk_that_explains(server: list[str]) -> None:
    async def get(target: Any, city: str) -> Any:
        async with connected(target, "auto") as client:
            return await client.call_tool("get", {"city": city})

    asyncio.run(get(over_stdio([*SHIM, "--record", "--", *server, "stdio"]), "Bern"))
    with pytest.raises(BaseException) as caught:
        asyncio.run(get(over_stdio([*SHIM, "--replay", recorded_id(), "--", "x"]), "Rome"))

    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError)
    assert error.error.code == MISS
    assert error.error.data["nearest"]["arguments"] == {"city": "Bern"}
    assert "missing" in deviations()


def test_another_answer_to_the_server_is_told(server: list[str]) -> None:
    async def declining(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async def confirm(target: Any, callback: Any) -> Any:
        async with Client(target, mode="legacy", elicitation_callback=callback) as client:
            return text_of(await client.call_tool("confirm", {"city": "Bern"}))

    first = asyncio.run(confirm(over_stdio([*SHIM, "--record", "--", *server, "stdio"]), eliciting))
    second = asyncio.run(confirm(over_stdio([*SHIM, "--replay", recorded_id(), "--", "x"]), declining))

    assert second == first
    assert deviations() == ["answer"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_subscription_brings_the_same_changes(server: list[str], transport: str) -> None:
    async def changes(target: Any) -> Any:
        async with connected(target, MODERN) as client, client.listen(tools_list_changed=True) as events:
            changed = text_of(await client.call_tool("change", {}))
            return changed, repr(await asyncio.wait_for(anext(aiter(events)), 20))

    if transport == "stdio":
        first = asyncio.run(changes(over_stdio([*SHIM, "--record", "--", *server, "stdio"])))
        second = asyncio.run(changes(over_stdio([*SHIM, "--replay", recorded_id(), "--", "x"])))
    else:
        with (
            behind_http(server, "streamable-http") as address,
            shim("--record", "--http", f"{address}/mcp") as url,
        ):
            first = asyncio.run(changes(url))
        with shim("--replay", recorded_id(), "--http", f"{address}/mcp") as url:
            second = asyncio.run(changes(url))

    assert second == first
    assert "ToolsListChanged" in first[1]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_fastmcp_on_both_sides(own_directory: Path, transport: str, mode: str) -> None:
    (own_directory / "server.py").write_text(FASTMCP_SERVER)
    server = [sys.executable, str(own_directory / "server.py")]

    async def ask(target: Any, cities: str) -> Any:
        async with fastmcp.Client(target, mode=mode) as client:
            results = await asyncio.gather(*(client.call_tool("get", {"city": city}) for city in cities))
            steps = await client.call_tool("steps", {"count": 3})
            failed = await client.call_tool("fail", {}, raise_on_error=False)
            got = {city: result.data for city, result in zip(cities, results, strict=True)}
            return got, steps.data, failed.is_error

    def stdio(*arguments: str) -> Any:
        command = [*SHIM, *arguments]
        return {"mcpServers": {"w": {"command": command[0], "args": command[1:], "cwd": str(own_directory)}}}

    if transport == "stdio":
        first = asyncio.run(ask(stdio("--record", "--", *server, "stdio"), "abc"))
        second = asyncio.run(ask(stdio("--replay", recorded_id(), "--", "x"), "cba"))
    else:
        with behind_http(server, "http") as address, shim("--record", "--http", f"{address}/mcp") as url:
            first = asyncio.run(ask(url, "abc"))
        with shim("--replay", recorded_id(), "--http", f"{address}/mcp") as url:
            second = asyncio.run(ask(url, "cba"))

    assert second == first
    assert first[2]


AGENT = """
import asyncio, json, sys
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

def target(entry):
    if "url" in entry:
        return entry["url"]
    return stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=entry.get("env")))

async def ask(server, cities):
    async with Client(target(server), mode=sys.argv[2]) as client:
        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        results = await asyncio.gather(*(client.call_tool("get", {"city": city}) for city in cities))
        steps = []
        async def told(done, total, message):
            steps.append(done)
        await client.call_tool("steps", {"count": 3}, progress_callback=told)
        return tools, {city: result.content[0].text for city, result in zip(cities, results)}, steps

async def main(file, mode, cities):
    servers = json.load(open(file))["mcpServers"]
    names = sorted(servers) if cities < cities[::-1] else sorted(servers, reverse=True)
    print(json.dumps({name: await ask(servers[name], cities) for name in names}, sort_keys=True))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_whole_program_is_replayed_by_its_configuration_with_all_servers_dead(server: list[str], mode: str) -> None:
    Path("agent.py").write_text(AGENT)
    config = Path(".mcp.json")
    run = [sys.executable, "-m", "replaykit"]
    agent = [sys.executable, "agent.py", ".mcp.json", mode]

    with behind_http(server, "streamable-http") as address:
        near = {"command": server[0], "args": [*server[1:], "stdio"]}
        config.write_text(json.dumps({"mcpServers": {"near": near, "far": {"url": f"{address}/mcp"}}}))
        record = [*run, "record", "--store", "store.db", "--mcp-config", ".mcp.json", "--", *agent, "abc"]
        first = subprocess.run(record, capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stderr
    dead = {"near": {"command": "no-such-server"}, "far": {"url": f"{address}/mcp"}}
    config.write_text(json.dumps({"mcpServers": dead}))
    made = subprocess.run([*run, "scaffold", "agent", "--out", "case", "--store", "store.db"], timeout=120)
    replay = [*run, "replay", "case", "--json", "--", *agent, "cba"]
    second = subprocess.run(replay, capture_output=True, text=True, timeout=120)

    assert (made.returncode, second.returncode) == (3, 3), "nothing failed in the recording"
    (result,) = json.loads(second.stdout)["results"]
    assert json.loads(result["run"]["output"]) == json.loads(first.stdout)
    assert result["deviations"] == []
    with rk.Store.open("store.db", read_only=True) as store:
        calls = [call for call in store.load(recorded_id()).calls if " meanwhile" not in call.name]
    assert sum(call.kind == "tool_call" for call in calls) == 8
    assert all(call.kind == "tool_call" or call.name.startswith("MCP ") for call in calls)
