"""An agent on OpenAI chat completions."""

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
        "function": {
            "name": "lookup_charge",
            "description": "Look up the last charge of an account.",
            "parameters": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
        },
    }
]
lookup_charge = rk.tool(real_lookup)
wrapped: Any = lambda client: client  # noqa: E731 (an exporter may put its own in its place)


def answer(question: str) -> str:
    base_url = f"{os.environ['MODEL_URL']}/v1" if "MODEL_URL" in os.environ else None
    client = wrapped(openai.OpenAI(api_key="none", base_url=base_url))
    messages: list[Any] = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    while True:
        completion = client.chat.completions.create(model="gpt-5", messages=messages, tools=TOOLS)
        message = completion.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return str(message.content)
        for call in message.tool_calls:
            result = json.dumps(lookup_charge(**json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
