"""Whole programs whose MCP tools fail: in a live world, and in that of a case."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller
from tests.matrix import sampled

Command = Callable[..., Ran]
SERVER = Path(__file__).with_name("scripted_server.py")
AGENT = """
import json, subprocess, sys, urllib.request

def over_pipes(entry):
    process = subprocess.Popen([entry["command"], *entry["args"]], stdin=-1, stdout=-1, text=True)
    def ask(message):
        process.stdin.write(json.dumps(message) + "\\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())
    return ask

def over_http(entry):
    def ask(message):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        request = urllib.request.Request(entry["url"], json.dumps(message).encode(), headers)
        return json.load(urllib.request.urlopen(request))
    return ask

entry = json.load(open(sys.argv[1]))["mcpServers"]["weather"]
ask = over_http(entry) if "url" in entry else over_pipes(entry)
hello = ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
assert "result" in hello, hello
told = ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "structured", "arguments": {"city": "Bern"}}})
print(json.dumps(told.get("result", told.get("error"))))
sys.exit("error" in told or "isError" in told["result"])
"""


class Weather(http.server.BaseHTTPRequestHandler):
    """An MCP server over HTTP."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(message["method"])  # type: ignore[attr-defined]
        content = [{"type": "text", "text": '{"city": "Bern"} and so on'}]
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(params=["stdio", "http"])
def config(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """A configuration of the server in `mcp.json`; gives what it was asked, where that is known."""
    Path("agent.py").write_text(AGENT)
    if request.param == "stdio":
        entry: dict[str, Any] = {"command": sys.executable, "args": ["-I", str(SERVER)]}
        Path("mcp.json").write_text(json.dumps({"mcpServers": {"weather": entry}}))
        yield []
        return
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Weather) as server:
        server.asked = asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        entry = {"url": f"http://127.0.0.1:{server.server_port}/mcp"}
        Path("mcp.json").write_text(json.dumps({"mcpServers": {"weather": entry}}))
        yield asked
        server.shutdown()
        thread.join()


PROGRAM = ("--", sys.executable, "agent.py", "mcp.json")


@pytest.fixture
def replaykit(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command line in this process, and have what the programs that it starts write as well."""
    return caller(capfd, Ran)


def chaotic(mode: str, **options: Any) -> str:
    Path("faults.json").write_text(json.dumps({"tool_faults": [{"tool": "weather.*", "mode": mode, **options}]}))
    return "faults.json"


def chaos_run(replaykit: Command, *options: str) -> tuple[int, list[Any]]:
    ran = replaykit("chaos", "run", "--json", "--mcp-config", "mcp.json", *options, *PROGRAM)
    assert ran.out, ran.err
    return ran.code, ran.json["runs"]


def test_in_a_live_world_the_server_is_asked_and_its_answers_are_struck(replaykit: Command, config: list[str]) -> None:
    code, (run,) = chaos_run(replaykit, "--profile", chaotic("malicious_response", payload="EVIL"), "--input", "hi")

    assert (code, run["verdict"]) == (0, "held")
    (struck,) = run["faults"]
    assert (struck["fault"], struck["call"]) == ("tool.malicious_response", "weather.structured")
    assert config in ([], ["initialize", "tools/call"])


def test_a_program_that_breaks_is_saved_and_breaks_again_without_its_server(
    replaykit: Command, config: list[str]
) -> None:
    code, (run,) = chaos_run(replaykit, "--profile", chaotic("error"), "--input", "hi", "--scaffold", "saved")
    assert (code, run["verdict"]) == (1, "broke")

    options = ("--mcp-config", "mcp.json", "--expect", "reproduced", "--json")
    ran = replaykit("replay", "saved/faults.json-0", *options, *PROGRAM)

    assert ran.code == 0, ran.out + ran.err
    (result,) = ran.json["results"]
    assert json.loads(result["run"]["output"])["isError"]
    assert config in ([], ["initialize"])


@sampled(("mode", "expected"), [("empty", '"content": []'), ("timeout", "-32001")], count=1, start=1)
def test_the_world_of_a_case_is_struck_too(replaykit: Command, config: list[str], mode: str, expected: str) -> None:
    recorded = replaykit("record", "--name", "trip", "--mcp-config", "mcp.json", *PROGRAM)
    assert recorded.code == 0, recorded.err
    assert replaykit("scaffold", "trip", "--out", "cases/trip").code == 3, "nothing failed in the recording"
    config.clear()

    ran = replaykit("replay", "cases/trip", "--chaos", chaotic(mode), "--json", *PROGRAM)

    (result,) = ran.json["results"]
    assert expected in result["run"]["output"]
    assert f"Injected: tool.{mode} × 1" in ran.err
    assert config == []

    _, (run,) = chaos_run(replaykit, "--profile", "faults.json", "--case", "cases/trip")
    assert [struck["fault"] for struck in run["faults"]] == [f"tool.{mode}"]
    assert config == []


def test_servers_are_led_through_for_programs_alone(replaykit: Command) -> None:
    Path("mcp.json").write_text('{"mcpServers": {"weather": {"command": "server"}}}')
    agent = ("--agent", "agent:answer", "--input", "x")

    ran = replaykit("chaos", "run", *agent, "--profile", "api_outage", "--mcp-config", "mcp.json")

    assert ran.code == 2
    assert "--mcp-config is for programs" in ran.err
