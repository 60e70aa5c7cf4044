"""A server of one tool, over stdio."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {"name": "tide", "description": "The tide.", "inputSchema": {"type": "object", "properties": {}}}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "sea", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "low tide"}]},
}


def answer(message: Any) -> Any:
    if "id" not in message:
        return None
    if message["method"] == "tools/call":
        with Path("ran.log").open("a") as log:
            log.write("tide\n")
    return {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}


if __name__ == "__main__":
    for line in sys.stdin:
        told = answer(json.loads(line))
        if told is not None:
            print(json.dumps(told), flush=True)
