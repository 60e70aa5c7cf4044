"""An agent on the Claude Agent SDK: two tools of its own, and whatever servers its arguments name as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

from replaykit.integrations.claude_agent import servers, tools

RAN = Path("ran.log")


def ran(name: str) -> None:
    with RAN.open("a") as log:
        log.write(f"{name}\n")


@tool("get_weather", "The weather of a city.", {"city": str})
async def get_weather(given: dict[str, Any]) -> dict[str, Any]:
    ran("get_weather")
    if given["city"] == "Atlantis":
        raise LookupError("no station in Atlantis")
    return {"content": [{"type": "text", "text": f"sunny in {given['city']}"}]}


@tool("get_time", "The time in a zone.", {"zone": str})
async def get_time(given: dict[str, Any]) -> dict[str, Any]:
    ran("get_time")
    return {"content": [{"type": "text", "text": f"noon {given['zone']}"}]}


async def main(others: dict[str, Any]) -> None:
    own = create_sdk_mcp_server("trip", tools=tools([get_weather, get_time], effects={"get_time": "none"}))
    with servers({"trip": own, **others}) as found:
        allowed = [f"mcp__{name}" for name in found]
        options = ClaudeAgentOptions(
            mcp_servers=found, allowed_tools=allowed, tools=[], setting_sources=[], cli_path=os.environ["CLAUDE"]
        )
        async for message in query(prompt="How is Paris?", options=options):
            if isinstance(message, ResultMessage):
                print(message.result)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]) if sys.argv[1:] else {}))
