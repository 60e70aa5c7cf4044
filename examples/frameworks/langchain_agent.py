"""A LangChain agent, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/langchain_agent.py        (needs: pip install '.[langchain]' langchain-openai)
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.langchain import ReplayKitMiddleware

ran = []


def get_weather(city: str) -> str:
    """The weather of a city."""
    ran.append("get_weather")
    return f"sunny in {city}"


def get_time(zone: str) -> str:
    """The time in a zone."""
    ran.append("get_time")
    return f"noon {zone}"


def ask(url: str) -> str:
    model = ChatOpenAI(model="small", base_url=f"{url}/v1", api_key="-")
    agent = create_agent(model, [get_weather, get_time], middleware=[ReplayKitMiddleware()])
    asked = {"messages": [("user", "What is the weather in Paris, and what time is it?")]}
    return agent.invoke(asked)["messages"][-1].text


with ScriptedModel() as model, rk.record("langchain") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
