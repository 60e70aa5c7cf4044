"""An agent of Pydantic AI, with its adapter."""

from __future__ import annotations

import os
from typing import Any

from agent_tools import lookup_charge
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from replaykit.integrations.pydantic_ai import ReplayKit

PROMPT = "You are a billing agent. Look charges up before you answer."


def run(question: str) -> Any:
    base_url = f"{os.environ['MODEL_URL']}/v1" if "MODEL_URL" in os.environ else None
    model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(api_key="none", base_url=base_url))
    agent = Agent(model, system_prompt=PROMPT, tools=[lookup_charge], capabilities=[ReplayKit()])
    return agent.run_sync(question)


def answer(question: str) -> str:
    return str(run(question).output)
