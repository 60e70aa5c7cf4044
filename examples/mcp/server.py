"""An MCP server in plain Python: one tool, whose answer is another one each time."""

import json
import random
import sys

TOOL = {"name": "get_weather", "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def result_of(method: str, params: dict) -> dict:
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "weather"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    text = f"{random.randint(-5, 30)} °C in {params['arguments']['city']}"
    return {"content": [{"type": "text", "text": text}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = result_of(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
