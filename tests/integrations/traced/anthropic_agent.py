"""An agent on Anthropic messages, streamed."""

from __future__ import annotations

import json
import os
from typing import Any

import anthropic
from agent_tools import lookup_charge as real_lookup

import replaykit as rk

PROMPT = "You are a billing agent. Look charges up before you answer."
TOOLS: list[Any] = [
    {
        "name": "lookup_charge",
        "description": "Look up the last charge of an account.",
        "input_schema": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
    }
]
STREAMED = True
lookup_charge = rk.tool(real_lookup)
wrapped: Any = lambda client: client  # noqa: E731 (an exporter may put its own in its place)


def ask(client: Any, **asked: Any) -> Any:
    if not STREAMED:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


def answer(question: str) -> str:
    client = wrapped(anthropic.Anthropic(api_key="none", base_url=os.environ.get("MODEL_URL")))
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        asked = {"model": "claude-5", "max_tokens": 500, "system": PROMPT, "messages": messages, "tools": TOOLS}
        message = ask(client, **asked)
        messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            return str(message.content[0].text)
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": json.dumps(lookup_charge(**use.input))}
            for use in uses
        ]
        messages.append({"role": "user", "content": results})
