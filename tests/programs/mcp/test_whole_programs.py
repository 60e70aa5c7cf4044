"""Whole programs with their MCP servers: recorded, made a case of, and run again without them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller

from replaykit.handlers.replay.world import World
from replaykit.model.run import RunHeader
from replaykit.programs.mcp.config import HttpServer
from replaykit.programs.mcp.http_replies import McpReply, chunks_of
from replaykit.programs.mcp.http_shim import endpoints_of
from replaykit.programs.merge import load_process_logs, merge_runs
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import PROXY, ProcessLog
from replaykit.seam.http.request import HttpRequest
from replaykit.store.sqlite import SQLiteStore

SERVER = Path(__file__).with_name("scripted_server.py")
PROGRAM = """
import json, subprocess, sys

server = [sys.executable, "-m", "replaykit", "mcp", "--name", "weather", "--", *sys.argv[2:]]
with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shim:
    answers = {}
    for number, city in enumerate(sys.argv[1]):
        params = {"name": "echo", "arguments": {"city": city}}
        shim.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}) + "\\n")
        shim.stdin.flush()
        answer = json.loads(shim.stdout.readline())
        assert answer["id"] == number
        answers[city] = answer["result"]
    shim.stdin.close()
print(json.dumps(answers, sort_keys=True))
"""


def test_a_program_is_recorded_with_its_server_and_replayed_without_it(capfd: pytest.CaptureFixture[str]) -> None:
    replaykit = caller(capfd, Ran)
    Path("program.py").write_text(PROGRAM)
    program = [sys.executable, "program.py"]

    first = replaykit("record", "--name", "trip", "--", *program, "abc", sys.executable, "-I", str(SERVER))
    made = replaykit("scaffold", "trip", "--out", "cases/trip")
    second = replaykit("replay", "cases/trip", "--json", "--", *program, "cab", "no-such-server")

    assert first.code == 0, first.err
    assert made.code == 3, made.err  # it went well: there is nothing to reproduce
    assert Path("cases/trip/fixtures/weather.echo.json").exists()
    assert second.code == 3, second.out
    (result,) = second.json["results"]
    assert result["deviations"] == []
    assert json.loads(result["run"]["output"]) == first.json


URL = "https://weather.example/mcp"
WEATHER = HttpServer(upstream="mcp-weather", name="weather", address="https://weather.example")


async def upstream(request: HttpRequest) -> McpReply:
    message = json.loads(request.body)
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}).encode()
    return McpReply(status=200, headers=(("content-type", "application/json"),), chunks=chunks_of(body))


async def nowhere(request: HttpRequest) -> McpReply:
    raise AssertionError("nothing is done for real in a replay")


def answer_at_proxy(directory: Path, number: int, world: World | None = None) -> Any:
    """What the endpoint of the proxy answers, on the proxy's own part of a run."""
    plan = ProgramPlan(
        mode=Mode.RECORD if world is None else Mode.REPLAY, run_id="run", store=str(directory / "store.db")
    )
    directory.mkdir()
    part = ProcessLog.open(plan, world, iter([PROXY]))

    async def ask() -> Any:
        endpoints = endpoints_of([WEATHER], part, plan, world, upstream if world is None else nowhere)
        params = {"name": "get", "arguments": {"city": "Bern"}}
        asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        reply = await endpoints["mcp-weather"].answer(
            HttpRequest(method="POST", url=URL, body=json.dumps(asked).encode())
        )
        return json.loads(b"".join([chunk async for chunk in reply.chunks]))

    try:
        return asyncio.run(asyncio.wait_for(ask(), 20))
    finally:
        part.end()


def test_the_proxy_answers_for_a_server_that_speaks_http(own_directory: Path) -> None:
    first = answer_at_proxy(own_directory / "first", 1)
    with SQLiteStore.open(own_directory / "first" / "store.db") as store:
        run = merge_runs(RunHeader(id="run"), load_process_logs(store, "run"))

    second = answer_at_proxy(own_directory / "second", 7, World(case_id="case", calls=run.events))

    assert [call.name for call in run.tool_calls] == ["weather.get"]
    assert second == {**first, "id": 7}
