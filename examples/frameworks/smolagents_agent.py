"""A smolagents agent that writes code, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/smolagents_agent.py        (needs: pip install '.[smolagents]' openai)
"""

from __future__ import annotations

from scripted_model import ScriptedModel
from smolagents import CodeAgent, OpenAIServerModel, tool

import replaykit as rk
from replaykit.integrations.smolagents import tools

CODE = """<code>
weather = get_weather("Paris")
final_answer(f"It is {weather} and {get_time('CET')}.")
</code>"""
ran = []


@tool
def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The city.
    """
    ran.append("get_weather")
    return f"sunny in {city}"


@tool
def get_time(zone: str) -> str:
    """The time in a zone.

    Args:
        zone: The zone.
    """
    ran.append("get_time")
    return f"noon {zone}"


def ask(url: str) -> str:
    model = OpenAIServerModel("small", api_base=f"{url}/v1", api_key="-")
    agent = CodeAgent(tools=tools([get_weather, get_time]), model=model, verbosity_level=0)
    return str(agent.run("What is the weather in Paris, and what time is it?"))


with ScriptedModel(answer=lambda _: CODE) as model, rk.record("smolagents") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
