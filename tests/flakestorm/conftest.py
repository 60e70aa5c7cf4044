"""What these tests share: the incident of the format's own documentation, its contract, and agents that meet it."""

from __future__ import annotations

import json
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from tests import commands
from tests.incident import CONTRACT, INCIDENT

AGENTS = """
import asyncio, os, sys, time
from pathlib import Path
import replaykit as rk

@rk.tool
def market_data_api(company):
    Path("touched").write_text("market_data_api")
    raise SystemError("the real tool was called")

@rk.tool
def web_search(query):
    Path("touched").write_text("web_search")
    raise SystemError("the real tool was called")

def asked(tool, question):
    try:
        return tool(question)
    except rk.ToolError:
        return None

def honest(question):
    return asked(market_data_api, question) or asked(web_search, question) or "The figure is unavailable."

def inventive(question):
    asked(market_data_api, question), asked(web_search, question)
    return "It was $5.2 billion."
"""


class Ran(commands.Ran):
    """How a command ended, and what it found."""

    @property
    def results(self) -> list[Any]:
        found: list[Any] = self.json["results"]
        return found

    @property
    def result(self) -> Any:
        (only,) = self.results
        return only


@pytest.fixture
def replaykit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process."""
    return commands.caller(capsys, Ran)


class Files:
    """A project on disk: agents.py, a configuration and session files."""

    incident = INCIDENT

    def write(self, name: str, text: str) -> Path:
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def agents(self, code: str = "") -> None:
        self.write("agents.py", AGENTS + textwrap.dedent(code))

    def config(self, endpoint: str = "agents:honest", *, name: str = "flakestorm.yaml", **parts: Any) -> Path:
        """A configuration as Flakestorm has it; a part that is None is left out."""
        agent = {"endpoint": endpoint, "type": "python", "timeout": 20000, **parts.pop("agent", {})}
        value = {"version": "2.0", "agent": agent, "contract": CONTRACT, **parts}
        return self.write(name, json.dumps({key: part for key, part in value.items() if part is not None}))

    def session(self, name: str = "replays/s.yaml", **said: Any) -> Path:
        """A session; a key that is None is left out."""
        value = {"id": Path(name).stem, "input": "hello", "contract": CONTRACT["name"], **said}
        return self.write(name, json.dumps({key: part for key, part in value.items() if part is not None}))

    @property
    def touched(self) -> bool:
        """True when a real tool was called."""
        return Path("touched").exists()


@pytest.fixture
def files() -> Files:
    """A project with agents, and the contract in its configuration."""
    made = Files()
    made.agents()
    made.config()
    return made


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@pytest.fixture
def served() -> Iterator[Callable[[Any], str]]:
    """Serve a WSGI application on loopback; gives its address."""
    servers: list[WSGIServer] = []

    def serve(app: Any) -> str:
        server = make_server("127.0.0.1", 0, app, server_class=_Server, handler_class=_Quiet)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()
