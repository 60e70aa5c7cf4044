"""A model that answers by a script, in OpenAI's format: first it wants a tool, then it says what the tool said."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        message: dict = {"role": "assistant", "content": f"I have found it. {results[0]}" if results else None}
        if not results:
            function = {"name": "lookup_order", "arguments": '{"order": "A-17"}'}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        reason = "stop" if results else "tool_calls"
        text = json.dumps({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def started() -> ThreadingHTTPServer:
    """The server, at a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
