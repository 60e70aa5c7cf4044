"""A server on the loopback interface that stands for models and services, and counts who asks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class World(ThreadingHTTPServer):
    """The server; each request that reaches it leaves a byte in its log, for other processes to see."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, log: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._log = log.open("ab", buffering=0)
        self.count = 0

    def note_request(self) -> None:
        """Count a request."""
        self.count += 1
        self._log.write(b".")

    def server_close(self) -> None:
        """Stop listening, and close the log."""
        super().server_close()
        self._log.close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def world(log: Path) -> Iterator[World]:
    """Serve until the block ends."""
    with World(log) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: World

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass  # a client that lost its patience

    def do_GET(self) -> None:
        self._prepare()
        if self.path.startswith("/status/"):
            self._answer({"error": "unavailable"}, int(self.path.rsplit("/", 1)[1]))
        elif self.path.startswith("/echo/"):
            self._send(f"echo {self.path.rsplit('/', 1)[1]}".encode(), "text/plain")
        elif self.path == "/login":
            self._send(b"{}", "application/json", 200, ("set-cookie", "session=a8f5f167f44f4964; Path=/; HttpOnly"))
        else:
            self._answer({"path": self.path})

    def do_POST(self) -> None:
        body = self._prepare()
        if self.path == "/v1/chat/completions":
            self._answer(_completion(json.loads(body)))
        elif self.path == "/v1/messages":
            self._answer(_message(json.loads(body)))
        else:
            self._break_off()

    def _prepare(self) -> bytes:
        self.server.note_request()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(float(self.headers.get("x-delay") or 0))
        return body

    def _answer(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, data: bytes, kind: str, status: int = 200, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _break_off(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for delta in ("Once ", "upon "):
            line = f"data: {json.dumps({'delta': delta})}\n\n".encode()
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()
        self.close_connection = True


def _completion(request: dict[str, Any]) -> dict[str, Any]:
    last = request["messages"][-1]
    message: dict[str, Any] = {"role": "assistant", "content": f"You said {last.get('content')}"}
    if request.get("tools") and last["role"] == "user":
        arguments = json.dumps({"account": str(last["content"]).rsplit(" ", 1)[-1]})
        function = {"name": "get_balance", "arguments": arguments}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
    }


def _message(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [{"type": "text", "text": "Well, it is like this:"}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 5, "output_tokens": request["max_tokens"]},
    }
