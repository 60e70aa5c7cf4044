"""An agent of LangChain on LangGraph, with its adapter."""

from __future__ import annotations

import os
from typing import Any

from agent_tools import lookup_charge as real_lookup
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from replaykit.integrations.langchain import ReplayKitMiddleware

PROMPT = "You are a billing agent. Look charges up before you answer."
lookup_charge = tool(real_lookup)


def answer(question: Any, **config: Any) -> str:
    """Answer a question, or go on from a state of the graph: that is what its tracer sees as the input."""
    base_url = f"{os.environ['MODEL_URL']}/v1" if "MODEL_URL" in os.environ else None
    model = ChatOpenAI(model="gpt-5", api_key="none", base_url=base_url)  # type: ignore[arg-type]
    agent = create_agent(model, [lookup_charge], system_prompt=PROMPT, middleware=[ReplayKitMiddleware()])
    given = question if isinstance(question, dict) else {"messages": [{"role": "user", "content": question}]}
    return str(agent.invoke(given, **config)["messages"][-1].content)
