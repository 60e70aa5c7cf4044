"""A crew of CrewAI, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/crewai_agent.py        (needs: pip install '.[crewai]')
"""

from __future__ import annotations

import logging
import os

# CrewAI reports to its makers from the moment it is imported, unless these are set.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.crewai import tools

logging.getLogger("crewai").setLevel(logging.ERROR)  # it cannot count the tokens of this model, and says so
ran = []


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    ran.append("get_weather")
    return f"sunny in {city}"


@tool
def get_time(zone: str) -> str:
    """The time in a zone."""
    ran.append("get_time")
    return f"noon {zone}"


def ask(url: str) -> str:
    llm = LLM(model="openai/gpt-4o", base_url=f"{url}/v1", api_key="-")
    guide = Agent(role="guide", goal="answer", backstory="lives there", tools=tools([get_weather, get_time]), llm=llm)
    question = "What is the weather in Paris, and what time is it?"
    task = Task(description=question, expected_output="One sentence.", agent=guide)
    return str(Crew(agents=[guide], tasks=[task]).kickoff())


with ScriptedModel() as model, rk.record("crewai") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
