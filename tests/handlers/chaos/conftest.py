"""Shared by the tests of chaos: an agent in a world with a plan, live or from a tape, and a model on loopback."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from replaykit.candidates.agent_run import AgentCall
from replaykit.handlers.replay.world import World
from replaykit.model.events import AnyEvent
from replaykit.model.faults import ChaosPlan
from replaykit.model.matching import MatchRules, ToolMode
from replaykit.model.run import TraceRun
from replaykit.model.values import raw

LIVE = {"*": ToolMode.LIVE}


class Worlds:
    """Runs an agent: everything live, or from the events of another run."""

    def live(self, agent: Callable[..., Any], plan: ChaosPlan | None = None, given: Any = "q") -> TraceRun:
        rules = MatchRules(network=("*",))
        world = World(case_id="x", input_json=raw(given), tools=LIVE, models=ToolMode.LIVE, rules=rules, chaos=plan)
        return AgentCall(world).run(agent)

    def taped(self, agent: Callable[..., Any], events: tuple[AnyEvent, ...], plan: ChaosPlan | None = None) -> TraceRun:
        return AgentCall(World(case_id="x", input_json=raw("q"), calls=events, chaos=plan)).run(agent)


@pytest.fixture
def worlds() -> Worlds:
    return Worlds()


class Model(http.server.BaseHTTPRequestHandler):
    """A tool at /weather, and a model that speaks OpenAI's chat API."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self._reply(b'{"city": "Paris", "text": "sunny and warm"}')

    def do_POST(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        base = {"id": "c-1", "model": "m"}
        if not body.get("stream"):
            message = {"role": "assistant", "content": '{"user_name": "Ann", "age": 3}'}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._reply(json.dumps({**base, "object": "chat.completion", "choices": [choice]}).encode())
            return
        deltas = [*({"content": word} for word in ("One ", "two ", "three ", "four ")), {}]
        chunks = [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"} for delta in deltas]
        events = [json.dumps({**base, "object": "chat.completion.chunk", "choices": [one]}) for one in chunks]
        self._reply("".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode(), "text/event-stream")

    def _reply(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def asked() -> list[str]:
    """The paths that the server was asked for."""
    return []


@pytest.fixture
def model(asked: list[str]) -> Iterator[str]:
    """The address of a server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        server.asked = asked  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
