"""A LlamaIndex agent, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/llama_index_agent.py    (needs: pip install '.[llama-index]' llama-index-llms-openai-like)
"""

from __future__ import annotations

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.llama_index import tools

ran = []


def get_weather(city: str) -> str:
    """The weather of a city."""
    ran.append("get_weather")
    return f"sunny in {city}"


async def get_time(zone: str) -> str:
    """The time in a zone."""
    ran.append("get_time")
    return f"noon {zone}"


async def answer(url: str) -> str:
    about = {"is_chat_model": True, "is_function_calling_model": True}
    llm = OpenAILike(model="small", api_base=f"{url}/v1", api_key="-", **about)
    agent = FunctionAgent(tools=tools([get_weather, get_time]), llm=llm)
    return str(await agent.run("What is the weather in Paris, and what time is it?"))


def ask(url: str) -> str:
    return asyncio.run(answer(url))


with ScriptedModel() as model, rk.record("llama-index") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
