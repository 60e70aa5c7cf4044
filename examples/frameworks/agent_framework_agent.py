"""An agent of the Agent Framework, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/agent_framework_agent.py    (needs: pip install '.[agent-framework]' agent-framework-openai)
"""

from __future__ import annotations

import asyncio

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.agent_framework import ReplayKitMiddleware

ran = []


@tool(approval_mode="never_require")
def get_weather(city: str) -> str:
    ran.append("get_weather")
    return f"sunny in {city}"


@tool(approval_mode="never_require")
def get_time(zone: str) -> str:
    ran.append("get_time")
    return f"noon {zone}"


def ask(url: str) -> str:
    client = OpenAIChatCompletionClient(model="small", base_url=f"{url}/v1", api_key="-")
    agent = Agent(client, tools=[get_weather, get_time], middleware=[ReplayKitMiddleware()])
    return asyncio.run(agent.run("What is the weather in Paris, and what time is it?")).text


with ScriptedModel() as model, rk.record("agent-framework") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
