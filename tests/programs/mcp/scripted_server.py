"""An MCP server over standard input and output, with no SDK: what it does is said by the tool that is called.

Its answers hold a random number, so that nobody can give one who has not heard it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def receive() -> Any:
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def content(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"{text} {os.urandom(8).hex()}"}]}


def ask(method: str, params: dict[str, Any]) -> Any:
    send({"jsonrpc": "2.0", "id": "server-1", "method": method, "params": params})
    while (message := receive()) and message.get("id") != "server-1":
        pass
    return message


class Server:
    def __init__(self) -> None:
        self.held: list[tuple[Any, Any]] = []

    def call(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None where there is none, or not yet."""
        method, params, number = request["method"], request.get("params") or {}, request["id"]
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "scripted"}}
        elif method == "tools/list":
            result = {"tools": [{"name": "echo", "nonce": os.urandom(8).hex()}]}
        elif method == "ping":
            result = {}
        elif method == "tools/call":
            return self.tool(params["name"], params.get("arguments") or {}, params, number)
        else:
            return {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "Method not found"}}
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def tool(self, name: str, given: dict[str, Any], params: dict[str, Any], number: Any) -> dict[str, Any] | None:
        text = json.dumps(given, sort_keys=True)
        result: Any = content(text)
        if name == "progress":
            token = params["_meta"]["progressToken"]
            for done in range(given["steps"]):
                told = {"progressToken": token, "progress": done}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        elif name == "sample":
            answer = ask("sampling/createMessage", {"messages": [{"role": "user", "content": text}]})
            result = content(json.dumps(answer.get("result", answer.get("error"))))
        elif name == "refuse":
            return {"jsonrpc": "2.0", "id": number, "error": {"code": -32602, "message": "no such city", "data": [1]}}
        elif name == "structured":
            result = {**result, "structuredContent": {"city": given["city"], "sky": "clear as it never was"}}
        elif name == "fail":
            result = {**result, "isError": True}
        elif name == "die":
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "I die"}})
            sys.exit(3)
        elif name == "hang":
            return None
        elif name == "garbage":
            sys.stdout.write("Listening on port 8000\n\n{not json}\n[]\n42\n")
        elif name == "big":
            result = {"content": [{"type": "text", "text": "x" * given["bytes"]}]}
        elif name == "environment":
            result = content(json.dumps({key: os.environ.get(key) for key in given["names"]}))
        elif name == "hold":
            self.held.append((number, result))
            if len(self.held) < given["of"]:
                return None
            for held, kept in reversed(self.held):  # the last one first
                send({"jsonrpc": "2.0", "id": held, "result": kept})
            self.held.clear()
            return None
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def after(self, request: dict[str, Any]) -> None:
        """What it says on its own once it has answered."""
        name = (request.get("params") or {}).get("name")
        if name == "change":
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        elif name == "leave":
            sys.exit(4)

    def hear(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if "id" in message and "method" in message:
            return self.call(message)
        if message.get("method") == "notifications/initialized" and "--roots" in sys.argv:
            ask("roots/list", {})
        return None


def main() -> None:
    if "--marker" in sys.argv:
        open(sys.argv[sys.argv.index("--marker") + 1], "w").close()
    server = Server()
    for line in sys.stdin:
        try:
            value = json.loads(line)
        except ValueError:
            send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
            continue
        if isinstance(value, list):
            answers = [answer for message in value if (answer := server.hear(message)) is not None]
            if answers:
                send(answers)
            continue
        answer = server.hear(value)
        if answer is not None:
            send(answer)
        server.after(value)


if __name__ == "__main__":
    main()
