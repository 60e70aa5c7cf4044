"""An agent of the OpenAI Agents SDK, with its adapter."""

from __future__ import annotations

import os

from agent_tools import lookup_charge as real_lookup
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

from replaykit.integrations.openai_agents import tools

PROMPT = "You are a billing agent. Look charges up before you answer."
lookup_charge = function_tool(real_lookup)


def answer(question: str) -> str:
    base_url = f"{os.environ['MODEL_URL']}/v1" if "MODEL_URL" in os.environ else None
    model = OpenAIChatCompletionsModel("gpt-5", AsyncOpenAI(api_key="none", base_url=base_url))
    agent = Agent(name="billing", instructions=PROMPT, model=model, tools=tools([lookup_charge]))
    return str(Runner.run_sync(agent, question).final_output)
