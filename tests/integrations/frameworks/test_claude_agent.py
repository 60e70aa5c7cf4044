"""The Claude Agent SDK, with a stand-in for the program it drives: whole programs, recorded and replayed.

With REPLAYKIT_CLAUDE_PROGRAM the program itself is driven.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server, tool
from tests.integrations.frameworks.scripted import ANSWER, EXAMPLES, ScriptedModel, _loaded, load

import replaykit as rk
from replaykit.errors import ReplayKitError, UsageError
from replaykit.integrations import claude_agent
from replaykit.model.run import TraceRun
from replaykit.seam.scope import current

PROGRAMS = Path(__file__).parent / "programs"
scripted_claude = _loaded(EXAMPLES / "scripted_claude.py")
mcp_server = _loaded(PROGRAMS / "mcp_server.py")

REAL = os.environ.get("REPLAYKIT_CLAUDE_PROGRAM", "")
"""The `claude` program itself, for a machine that lets it reach nothing but loopback."""
CALLS = [("mcp__trip__get_weather", {"city": "Paris é"}), ("mcp__trip__get_time", {"zone": "CET"})]


@dataclass
class Told:
    """What a program said when it was recorded, and when it was replayed with the model gone."""

    recorded: str
    replayed: str
    trace: TraceRun
    deviations: list[str]
    connections: int
    ran: tuple[list[str], list[str]]
    """The tools that really ran when it was recorded, and those when it was replayed."""


def program(*arguments: str, env: dict[str, str], codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    own = {n: v for n, v in os.environ.items() if not n.startswith(("ANTHROPIC_", "CLAUDE", "REPLAYKIT_"))}
    own |= {"CLAUDE": REAL or scripted_claude.executable(Path.cwd()), "CLAUDE_CONFIG_DIR": str(Path.cwd() / "config")}
    own |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    done = subprocess.run([sys.executable, *arguments], env={**own, **env}, capture_output=True, text=True, timeout=120)
    assert done.returncode in codes, done.stderr
    return done


def reached(model: Any) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-of-the-user"}


def ran() -> list[str]:
    log = Path("ran.log")
    told = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return told


def said(text: str) -> str:
    """What the model said, without what the program adds to the results that it tells the model."""
    return re.sub(r"\s*<system-reminder>.*?</system-reminder>", "", text, flags=re.DOTALL).strip()


def told_twice(others: dict[str, Any] | None = None, turns: Sequence[Any] = (CALLS,), *, gone: Any = None) -> Told:
    """The agent recorded, the model stopped (and with `gone` what else there was), the agent replayed."""
    agent = [str(PROGRAMS / "claude_program.py"), json.dumps(others or {})]
    command = ("--", sys.executable, *agent)
    with ScriptedModel(turns) as model:
        recorded = program("-m", "replaykit", "record", *command, env=reached(model)).stdout
    first, made = ran(), model.connections
    if gone is not None:
        gone()
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        trace = store.load(store.headers()[0].id)
    program("-m", "replaykit", "scaffold", trace.id, "--out", "cases/agent", env={}, codes=(0, 3))
    # 1: the case is of a failure, and here it is again; 3: nothing had failed
    replayed = program("-m", "replaykit", "replay", "cases/agent", "--json", *command, env={}, codes=(1, 3))
    (result,) = json.loads(replayed.stdout)["results"]
    again = (Path(result["directory"]) / "stdout.log").read_text()
    kinds = [deviation["kind"] for deviation in result["deviations"]]
    return Told(said(recorded), said(again), trace, kinds, model.connections - made, (first, ran()))


def test_a_run_is_recorded_and_served() -> None:
    told = told_twice()

    assert told.recorded == told.replayed == ANSWER
    assert [sorted(names) for names in told.ran] == [["get_time", "get_weather"], []]
    assert told.connections == 0
    assert told.deviations == []
    calls = {call.name: (call.arguments, call.result["content"][0]["text"]) for call in told.trace.tool_calls}
    assert calls == {
        "get_weather": ({"city": "Paris é"}, "sunny in Paris é"),
        "get_time": ({"zone": "CET"}, "noon CET"),
    }
    assert len(told.trace.llm_calls) == 2
    assert said(told.trace.llm_calls[1].result["content"]) == ANSWER


def test_a_tool_that_fails_fails_again_without_being_run() -> None:
    told = told_twice(turns=[[("mcp__trip__get_weather", {"city": "Atlantis"})]])

    assert told.recorded == told.replayed == "It is no station in Atlantis."
    assert told.ran == (["get_weather"], [])
    assert told.deviations == []
    (call,) = told.trace.tool_calls
    assert (call.name, call.error.type, call.error.message) == ("get_weather", "LookupError", "no station in Atlantis")


def test_a_server_that_is_started_has_the_shim_in_front_of_it() -> None:
    server = {"command": sys.executable, "args": [str(PROGRAMS / "mcp_server.py")], "env": {"TIDE": "low"}}

    told = told_twice({"sea": server}, turns=[[*CALLS, ("mcp__sea__tide", {})]])

    assert told.recorded == told.replayed == "It is sunny in Paris é and noon CET and low tide."
    assert [sorted(names) for names in told.ran] == [["get_time", "get_weather", "tide"], []]
    assert told.deviations == []
    assert "sea.tide" in {call.name for call in told.trace.tool_calls}


def test_a_server_that_speaks_http_has_the_shim_in_front_of_it() -> None:
    with over_http() as (url, asked, stop):
        told = told_twice({"sea": {"type": "http", "url": url}}, turns=[[("mcp__sea__tide", {})]], gone=stop)

    assert told.recorded == told.replayed == "It is low tide."
    assert asked.count("tools/call") == 1
    assert told.deviations == []
    assert [call.name for call in told.trace.tool_calls] == ["sea.tide"]


@contextmanager
def over_http() -> Iterator[tuple[str, list[str], Any]]:
    """The server of one tool over HTTP: its URL, what it was asked, and how to stop it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(message["method"])
            told = mcp_server.answer(message)
            body = json.dumps(told).encode() if told else b""
            self.send_response(200 if told else 202)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    yield f"http://127.0.0.1:{server.server_port}/mcp", asked, stop


def test_without_a_run_nothing_changes() -> None:
    server = {"command": sys.executable, "args": [str(PROGRAMS / "mcp_server.py")]}
    with claude_agent.servers({"sea": server}) as found:
        assert found == {"sea": server}

    with ScriptedModel([[*CALLS, ("mcp__sea__tide", {})]]) as model:
        done = program(str(PROGRAMS / "claude_program.py"), json.dumps({"sea": server}), env=reached(model))

    assert said(done.stdout) == "It is sunny in Paris é and noon CET and low tide."
    assert len(ran()) == 3
    assert not Path(".replaykit").exists()


def test_a_shim_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch, own_directory: Path) -> None:
    monkeypatch.setenv("REPLAYKIT_SESSION", str(own_directory / "nowhere"))

    with pytest.raises(ReplayKitError, match="'sea' did not start"):
        with claude_agent.servers({"sea": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}):
            pass


def made(handler: Any) -> SdkMcpTool[Any]:
    return tool("look", "Looks.", {"name": str})(handler)


def test_tools_pass_through_a_run_in_this_process_as_well() -> None:
    seen = []

    async def look(given: dict[str, Any]) -> dict[str, Any]:
        seen.append(current().call.effects)
        return {"content": [{"type": "text", "text": given["name"]}], "is_error": True}

    plain = made(look)
    (wrapped,) = claude_agent.tools([plain], effects={"look": "none"})
    with rk.record("look") as run:
        recorded = asyncio.run(wrapped.handler({"name": "a"}))
    with rk.replaying(rk.Tape.of(load(run.id))) as replayer:
        assert asyncio.run(wrapped.handler({"name": "a"})) == recorded

    assert seen == ["none"]
    assert replayer.deviations == []
    assert plain.handler is look
    assert create_sdk_mcp_server("eyes", tools=[wrapped])["name"] == "eyes"
    with pytest.raises(UsageError, match="external"):
        claude_agent.wrap(plain, effects={"look": "externel"})


def test_the_example_says_the_same_twice(own_directory: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "claude_agent.py"], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "recorded: It is sunny in Paris. (tools that ran: 1)",
        "replayed: It is sunny in Paris. (tools that ran: 0)",
    ]
