"""Stands in for the `claude` program that the Claude Agent SDK drives: the SDK's protocol, MCP, and a model over HTTP.

It asks the model at ANTHROPIC_BASE_URL, calls the tools that the model wants, all of a turn at once, and ends with the
model's answer. It is started with `-I`, so for ReplayKit it is a program in another language.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

INIT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "scripted", "version": "1"}}


def executable(directory: Path) -> str:
    """Makes it a program that can be given to the SDK as `cli_path`."""
    path = directory.absolute() / "claude"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{Path(__file__).absolute()}" "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def posted(url: str, body: Any) -> Any:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "x-api-key": "none"}
    request = urllib.request.Request(url, json.dumps(body).encode(), {**headers, "anthropic-version": "2023-06-01"})
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read().decode()
    told = next((line[5:] for line in text.splitlines() if line.startswith("data:")), text)
    return json.loads(told) if told.strip() else None


class Wire:
    """The SDK at the other end of standard input and output."""

    def __init__(self) -> None:
        self.count = 0

    def say(self, message: Any) -> None:
        print(json.dumps(message), flush=True)

    def hear(self) -> Any:
        line = sys.stdin.readline()
        if not line:
            raise SystemExit
        return json.loads(line)

    def ask(self, server: str, messages: list[Any]) -> list[Any]:
        """Messages to a server inside of the SDK's process, all at once; gives their answers in order."""
        names = [f"r{self.count + i}" for i in range(len(messages))]
        self.count += len(messages)
        for name, message in zip(names, messages, strict=True):
            request = {"subtype": "mcp_message", "server_name": server, "message": message}
            self.say({"type": "control_request", "request_id": name, "request": request})
        heard: dict[str, Any] = {}
        while heard.keys() != set(names):
            response = self.hear()["response"]
            heard[response["request_id"]] = response["response"]["mcp_response"]
        return [heard[name] for name in names]


def in_the_sdk(wire: Wire, server: str) -> Callable[[list[Any]], list[Any]]:
    return lambda messages: wire.ask(server, messages)


def over_http(url: str) -> Callable[[list[Any]], list[Any]]:
    return lambda messages: [posted(url, message) for message in messages]


def over_stdio(entry: Any) -> Callable[[list[Any]], list[Any]]:
    command, env = [entry["command"], *entry.get("args", [])], {**os.environ, **entry.get("env", {})}
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(messages: list[Any]) -> list[Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        heard = {
            answer["id"]: answer for answer in (json.loads(process.stdout.readline()) for m in messages if "id" in m)
        }
        return [heard.get(message.get("id")) for message in messages]

    return ask


def said(number: int, method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def found_tools(wire: Wire, config: Any) -> tuple[dict[str, Any], list[Any]]:
    """How each server is asked, and the tools of all of them as the model is told of them."""
    servers, tools = {}, []
    for name, entry in config.items():
        if entry.get("type") == "sdk":
            servers[name] = in_the_sdk(wire, name)
        else:
            servers[name] = over_http(entry["url"]) if "url" in entry else over_stdio(entry)
        servers[name]([said(0, "initialize", INIT)])
        servers[name]([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        for tool in servers[name]([said(1, "tools/list", {})])[0]["result"]["tools"]:
            schema = tool["inputSchema"]
            tools.append({"name": f"mcp__{name}__{tool['name']}", "input_schema": schema})
    return servers, tools


def run(wire: Wire, servers: dict[str, Any], tools: list[Any], prompt: Any) -> str:
    messages: list[Any] = [{"role": "user", "content": prompt}]
    number = 2
    while True:
        body = {"model": "scripted", "max_tokens": 100, "messages": messages, "tools": tools}
        answer = posted(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body)
        message = {key: answer[key] for key in ("role", "content", "model", "id")}
        wire.say({"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": "s"})
        uses = [block for block in answer["content"] if block["type"] == "tool_use"]
        if not uses:
            return str(answer["content"][0]["text"])
        results = {}
        for server in servers:
            own = [use for use in uses if use["name"].startswith(f"mcp__{server}__")]
            calls = [{"name": use["name"].split("__", 2)[2], "arguments": use["input"]} for use in own]
            asked = [said(number + i, "tools/call", call) for i, call in enumerate(calls)]
            number += len(asked)
            results |= {use["id"]: told["result"] for use, told in zip(own, servers[server](asked), strict=True)}
        blocks = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": results[use["id"]]["content"]}
            | {"is_error": results[use["id"]].get("isError", False)}
            for use in uses
        ]
        messages += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": blocks}]


def main(arguments: list[str]) -> None:
    config = json.loads(arguments[arguments.index("--mcp-config") + 1])["mcpServers"]
    wire, (servers, tools) = Wire(), ({}, [])
    while True:
        heard = wire.hear()
        if heard["type"] == "control_request":
            response = {"subtype": "success", "request_id": heard["request_id"], "response": {"commands": []}}
            wire.say({"type": "control_response", "response": response})
        elif heard["type"] == "user":
            about = {"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "2.1.999"}
            wire.say(about)
            servers, tools = found_tools(wire, config)
            result = run(wire, servers, tools, heard["message"]["content"])
            times = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 2, "session_id": "s"}
            wire.say({"type": "result", "subtype": "success", "is_error": False, "result": result, **times})


if __name__ == "__main__":
    main(sys.argv[1:])
