"""An agent that asks its MCP server for the weather.

replaykit record --mcp-config examples/mcp/mcp.json -- python examples/mcp/agent.py examples/mcp/mcp.json Bern Oslo
"""

import itertools
import json
import subprocess
import sys

numbers = itertools.count(1)


def ask(server: subprocess.Popen, method: str, **params: object) -> dict:
    message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    if "error" in answer:
        raise SystemExit(answer["error"]["message"])
    return answer["result"]


config, *cities = sys.argv[1:]
with open(config) as file:
    entry = json.load(file)["mcpServers"]["weather"]
command = [entry["command"], *entry["args"]]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
    ask(server, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "agent"})
    for city in cities:
        print(ask(server, "tools/call", name="get_weather", arguments={"city": city})["content"][0]["text"])
    server.stdin.close()
