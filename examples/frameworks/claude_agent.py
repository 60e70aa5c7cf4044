"""An agent on the Claude Agent SDK, recorded and replayed: the second time neither the model nor a tool is asked.

The SDK drives another program, and that one asks the model: so the whole is recorded, with `replaykit record`. The
other program is here a stand-in for `claude`, so that nothing leaves this machine.

python examples/frameworks/claude_agent.py        (needs: pip install '.[claude-agent]')
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool
from scripted_claude import executable
from scripted_model import ScriptedModel

from replaykit.integrations.claude_agent import servers, tools

ran = []


@tool("get_weather", "The weather of a city.", {"city": str})
async def get_weather(given: dict[str, Any]) -> dict[str, Any]:
    ran.append("get_weather")
    return {"content": [{"type": "text", "text": f"sunny in {given['city']}"}]}


async def ask() -> None:
    trip = create_sdk_mcp_server("trip", tools=tools([get_weather]))
    with servers({"trip": trip}) as found:
        options = ClaudeAgentOptions(mcp_servers=found, allowed_tools=["mcp__trip"], cli_path=os.environ["CLAUDE"])
        async for message in query(prompt="How is Paris?", options=options):
            if isinstance(message, ResultMessage):
                print(f"{message.result} (tools that ran: {len(ran)})")


def replaykit(*arguments: str, **variables: str) -> str:
    command = [sys.executable, "-m", "replaykit", *arguments]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: nothing failed in this run, so a replay has nothing to reproduce
        sys.exit(done.stderr)
    return done.stdout.strip()


if os.environ.get("CLAUDE"):  # this is the agent; what follows records and replays it
    asyncio.run(ask())
    sys.exit()

claude, agent = executable(Path()), ("--", sys.executable, __file__)
with ScriptedModel([[("mcp__trip__get_weather", {"city": "Paris"})]]) as model:
    said = replaykit("record", *agent, CLAUDE=claude, ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="-")
print("recorded:", said)

replaykit("scaffold", "claude_agent", "--out", "cases/trip")
replaykit("replay", "cases/trip", *agent, CLAUDE=claude)
print("replayed:", next(Path(".replaykit/runs").glob("*/stdout.log")).read_text().strip())
