"""An agent on OpenAI responses, which keeps the conversation at the provider."""

from __future__ import annotations

import json
import os
from typing import Any

import openai
from agent_tools import lookup_charge as real_lookup

import replaykit as rk

PROMPT = "You are a billing agent. Look charges up before you answer."
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": "lookup_charge",
        "description": "Look up the last charge of an account.",
        "parameters": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
    }
]
lookup_charge = rk.tool(real_lookup)
wrapped: Any = lambda client: client  # noqa: E731 (an exporter may put its own in its place)


def answer(question: str) -> str:
    base_url = f"{os.environ['MODEL_URL']}/v1" if "MODEL_URL" in os.environ else None
    client = wrapped(openai.OpenAI(api_key="none", base_url=base_url))
    given: list[Any] = [{"role": "user", "content": question}]
    before: dict[str, Any] = {}
    while True:
        response = client.responses.create(model="gpt-5", instructions=PROMPT, input=given, tools=TOOLS, **before)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return str(response.output_text)
        before = {"previous_response_id": response.id}
        given = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": json.dumps(lookup_charge(**json.loads(call.arguments))),
            }
            for call in calls
        ]
