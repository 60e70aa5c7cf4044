"""An agent of the OpenAI Agents SDK, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/openai_agents_agent.py        (needs: pip install '.[openai-agents]')
"""

from __future__ import annotations

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.openai_agents import tools

ran = []


@function_tool
def get_weather(city: str) -> str:
    ran.append("get_weather")
    return f"sunny in {city}"


@function_tool
def get_time(zone: str) -> str:
    ran.append("get_time")
    return f"noon {zone}"


def ask(url: str) -> str:
    model = OpenAIChatCompletionsModel("small", AsyncOpenAI(base_url=f"{url}/v1", api_key="-"))
    agent = Agent(name="desk", model=model, tools=tools([get_weather, get_time]))
    return asyncio.run(Runner.run(agent, "What is the weather in Paris, and what time is it?")).final_output


set_tracing_disabled(True)  # traces would go to OpenAI


with ScriptedModel() as model, rk.record("openai-agents") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
