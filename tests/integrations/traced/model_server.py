"""A model on the loopback interface that follows a script, in every API; it logs as a gateway does, and collects runs
that LangSmith's client sends and spans that exporters of OpenTelemetry send."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.routes import api_of

LOOKUPS = 3
FINAL = "You were charged $12.50 on Monday."
HONEST = "I could not look up the charge: billing timed out. Please try again later."


def scripted(number: int) -> ModelAnswer:
    """What the model says to its n-th question, from 0: it looks the charge up three times, and then makes one up."""
    if number < LOOKUPS:
        use = ToolUse(id=f"call_{number}", name="lookup_charge", arguments={"account": "A-7"})
        return ModelAnswer(content="Let me look." if number == 0 else None, tool_calls=(use,))
    return ModelAnswer(content=FINAL)


def corrected(number: int) -> ModelAnswer:
    """What a model says that was told never to guess: it looks the charge up once, and admits that it failed."""
    if number == 0:
        use = ToolUse(id="call_0", name="lookup_charge", arguments={"account": "A-7"})
        return ModelAnswer(tool_calls=(use,))
    return ModelAnswer(content=HONEST)


class ModelServer:
    """The server, for as long as the block lasts."""

    def __init__(self, script: Callable[[int], ModelAnswer] = scripted) -> None:
        self.script = script
        self.pairs: list[dict[str, Any]] = []
        """Requests and responses, as a gateway logs them."""
        self.batches: list[dict[str, Any]] = []
        """What LangSmith's client has sent."""
        self.spans: list[bytes] = []
        """What exporters of OpenTelemetry have sent: OTLP in protobuf."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/v1/traces"):
                gzipped = self.headers.get("content-encoding") == "gzip"
                server.spans.append(gzip.decompress(request) if gzipped else request)
                return self._send("application/x-protobuf", b"")
            api = api_of("POST", self.path)
            if api is None:
                server.batches.append(json.loads(request))
                return self._send("application/json", b"{}")
            said = server.script(len(server.pairs))
            whole = json.loads(request) | {"stream": False}
            logged = api.write(said, request=json.dumps(whole).encode(), seed=request)
            server.pairs.append({"request": json.loads(request), "response": json.loads(b"".join(logged.chunks))})
            sent = api.write(said, request=request)
            return self._send(sent.content_type, b"".join(sent.chunks))

        def do_PATCH(self) -> None:
            self.do_POST()

        def do_GET(self) -> None:
            self._send("application/json", b"{}")

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
