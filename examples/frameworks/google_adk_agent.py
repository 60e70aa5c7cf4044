"""An agent of Google's ADK, recorded and replayed: the second time neither the model nor a tool is asked.

python examples/frameworks/google_adk_agent.py        (needs: pip install '.[google-adk]')
"""

from __future__ import annotations

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types
from scripted_model import ScriptedModel

import replaykit as rk
from replaykit.integrations.google_adk import ReplayKitPlugin

ran = []


def get_weather(city: str) -> str:
    ran.append("get_weather")
    return f"sunny in {city}"


def get_time(zone: str) -> str:
    ran.append("get_time")
    return f"noon {zone}"


async def answer(url: str) -> str:
    agent = LlmAgent(name="desk", model=Gemini(model="small", base_url=url), tools=[get_weather, get_time])
    runner = InMemoryRunner(app=App(name="desk", root_agent=agent, plugins=[ReplayKitPlugin()]))
    session = await runner.session_service.create_session(app_name="desk", user_id="ada")
    asked = types.UserContent("What is the weather in Paris, and what time is it?")
    events = runner.run_async(user_id="ada", session_id=session.id, new_message=asked)
    return [event async for event in events][-1].content.parts[0].text


def ask(url: str) -> str:
    return asyncio.run(answer(url))


os.environ["GOOGLE_API_KEY"] = "-"


with ScriptedModel() as model, rk.record("google-adk") as run:
    print("recorded:", ask(model.url))
print("tools that ran:", len(ran))

with rk.Store.open(".replaykit/store.db") as store:
    tape = rk.Tape.of(store.load(run.id))

with rk.replaying(tape):
    print("replayed:", ask(model.url))
print("tools that ran since:", len(ran) - 2)
