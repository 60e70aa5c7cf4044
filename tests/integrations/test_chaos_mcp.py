"""The real MCP SDK under chaos: what its client makes of each fault, over stdio and over HTTP, the server alive."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

import replaykit as rk
from replaykit.handlers.chaos.answers import PAYLOAD
from replaykit.handlers.replay.world import World
from replaykit.model.events import ToolCall
from replaykit.model.faults import ChaosPlan, ToolFault, ToolTrouble
from replaykit.model.matching import ToolMode
from replaykit.programs.merge import load_process_logs
from replaykit.programs.plan import Mode, ProgramPlan, write_plan

pytestmark = pytest.mark.filterwarnings("ignore")  # the SDK warns of its own past

SERVER = """
import sys
from mcp.server import MCPServer

server = MCPServer("weather")
asked = iter(range(1, 99))

@server.tool()
def get(city: str) -> str:
    return f"sunny in {city}, number {next(asked)}"

transport = sys.argv[1]
server.run(transport=transport, **({} if transport == "stdio" else {"port": 0}))
"""
SHIM = [sys.executable, "-m", "replaykit", "mcp", "--name", "weather", "--session", "session"]


@contextmanager
def over_stdio() -> Iterator[Any]:
    words = [*SHIM, "--", sys.executable, "server.py", "stdio"]
    yield stdio_client(StdioServerParameters(command=words[0], args=words[1:]))


@contextmanager
def over_http() -> Iterator[Any]:
    command = [sys.executable, "server.py", "streamable-http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = None
        while found is None:
            line = server.stderr.readline()
            assert line, "the server did not start"
            found = re.search(r"running on (http://[\d.]+:\d+)", line)
        with subprocess.Popen([*SHIM, "--http", f"{found[1]}/mcp"], stdout=subprocess.PIPE, text=True) as shim:
            assert shim.stdout is not None
            yield shim.stdout.readline().strip()
            shim.send_signal(signal.SIGTERM)
            assert shim.wait(30) == 0
        server.kill()


class Weather:
    """Asks the server's tool for the weather, in a live world with faults."""

    def __init__(self, transport: str) -> None:
        self._open = over_stdio if transport == "stdio" else over_http
        Path("server.py").write_text(SERVER)
        Path("session").mkdir()

    def ask(self, mode: ToolTrouble, *cities: str, **options: Any) -> list[Any]:
        """Results, or errors, in the order of the questions."""
        plan = ChaosPlan(tool_faults=(ToolFault(mode=mode, **options),))
        world = World(case_id="x", tools={"*": ToolMode.LIVE}, chaos=plan)
        write_plan(
            Path("session"), ProgramPlan(mode=Mode.REPLAY, run_id="run", store=str(Path("store.db").absolute())), world
        )
        with self._open() as target:
            return asyncio.run(asyncio.wait_for(self._asked(target, cities or ("Bern",)), 60))

    async def _asked(self, target: Any, cities: tuple[str, ...]) -> list[Any]:
        said: list[Any] = []
        async with Client(target, mode="legacy") as client:
            for city in cities:
                try:
                    said.append(await client.call_tool("get", {"city": city}))
                except (MCPError, RuntimeError) as error:
                    said.append(error)
        return said

    def faults(self) -> list[tuple[str, ...]]:
        with rk.Store.open("store.db", read_only=True) as store:
            calls = [call for part in load_process_logs(store, "run") for call in part.calls]
        return [call.faults for call in calls if isinstance(call, ToolCall)]


@pytest.fixture(params=["stdio", "http"])
def weather(request: pytest.FixtureRequest) -> Weather:
    return Weather(request.param)


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def test_a_timeout_is_the_clients_own_error(weather: Weather) -> None:
    (error,) = weather.ask(ToolTrouble.TIMEOUT)

    assert isinstance(error, MCPError)
    assert error.error.code == -32001


def test_a_failure_is_a_result_that_says_so(weather: Weather) -> None:
    (result,) = weather.ask(ToolTrouble.ERROR, error_code=429)

    assert result.is_error
    assert text_of(result) == "`weather.get` failed with 429 (injected)"


def test_a_closed_connection_is_told_as_one(weather: Weather) -> None:
    (error,) = weather.ask(ToolTrouble.ERROR, error_code=0)

    assert isinstance(error, MCPError)
    assert error.error.code == -32000


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (ToolTrouble.PARTIAL, "sunny in Ber"),
        (ToolTrouble.EMPTY, ""),
        (ToolTrouble.MALICIOUS, PAYLOAD),
        (ToolTrouble.SLOW, "sunny in Bern, number 1"),
    ],
)
def test_a_changed_answer_passes_the_clients_schema(weather: Weather, mode: ToolTrouble, text: str) -> None:
    (result,) = weather.ask(mode, delay_ms=5000)

    assert not result.is_error
    assert text_of(result) == text[: len(text_of(result))]
    assert result.structured_content["result"].startswith(text[:11])
    assert weather.faults() == [(f"tool.{mode}",)]


def test_a_malformed_answer_is_one_that_the_client_refuses_or_that_is_no_whole_text(weather: Weather) -> None:
    (told,) = weather.ask(ToolTrouble.MALFORMED)

    assert isinstance(told, RuntimeError) or text_of(told).endswith("\ufffd\ufffd{")
    assert weather.faults() == [("tool.malformed",)]


def test_a_stale_answer_is_an_earlier_one(weather: Weather) -> None:
    said = [text_of(result) for result in weather.ask(ToolTrouble.STALE, "Bern", "Oslo", "Bern")]

    assert said == ["sunny in Bern, number 1"] * 3
    assert weather.faults() == [(), ("tool.stale",), ("tool.stale",)]
