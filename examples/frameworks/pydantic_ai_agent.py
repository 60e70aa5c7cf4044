"""A Pydantic AI agent, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/pydantic_ai_agent.py        (needs: pip install '.[pydantic-ai]')
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.pydantic_ai import ReplayKit

ran = []


def get_weather(city: str) -> str:
    ran.append("get_weather")
    return f"sunny in {city}"


def get_time(zone: str) -> str:
    ran.append("get_time")
    return f"noon {zone}"


def ask(url: str) -> str:
    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="-"))
    agent = Agent(model, tools=[get_weather, get_time], capabilities=[ReplayKit()])
    return asyncio.run(agent.run("What is the weather in Paris, and what time is it?")).output


with ScriptedModel() as model, rk.record("pydantic-ai") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
