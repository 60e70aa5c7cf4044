"""A billing agent on OpenAI's chat completions API, before and after its prompt was fixed.

It speaks HTTP with the standard library alone, so that the example needs no SDK.
"""

from __future__ import annotations

import json
import os
import urllib.request
from typing import Any

import replaykit as rk

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
PROMPT = "You are a billing agent. Answer in one sentence."
FIXED_PROMPT = "You are a billing agent. Answer in one sentence. If a tool fails, say so, and never guess."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lookup_charge",
            "description": "Look up the last charge of an account.",
            "parameters": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
        },
    }
]


@rk.tool
def lookup_charge(account: str) -> str:
    """Look up the last charge of an account."""
    raise NotImplementedError("the billing service is not part of this example")


def answer(question: str) -> str:
    """Answer a question, with the prompt that failed."""
    return converse(PROMPT, question)


def answer_fixed(question: str) -> str:
    """Answer a question, with the prompt that was fixed."""
    return converse(FIXED_PROMPT, question)


def converse(prompt: str, question: str) -> str:
    """Let the model call tools until it answers."""
    messages: list[Any] = [{"role": "system", "content": prompt}, {"role": "user", "content": question}]
    while True:
        message = complete(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            result = lookup_charge(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def complete(messages: list[Any]) -> dict[str, Any]:
    """Ask the model for the next message."""
    body = json.dumps({"model": "gpt-5", "messages": messages, "tools": TOOLS}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    with urllib.request.urlopen(urllib.request.Request(URL, body, headers), timeout=60) as response:
        return dict(json.load(response)["choices"][0]["message"])
