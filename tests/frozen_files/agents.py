"""An agent whose cases hold what is written compactly: a conversation that grows, and a large answer."""

from __future__ import annotations

from typing import Any

import replaykit as rk

ROUNDS = 12
PAGE = "0123456789abcdef" * 4500


@rk.tool
def complete(messages: list[dict[str, str]]) -> dict[str, str]:
    """Answer as a model would, from the whole conversation."""
    return {"role": "assistant", "content": f"answer {len(messages)}: " + "word " * 40}


@rk.tool
def fetch(url: str) -> str:
    """Return a page that is too long for a line."""
    return PAGE


def chatting_agent(question: str) -> Any:
    """Ask again and again, read a page, and fail."""
    messages = [{"role": "user", "content": question}]
    for number in range(ROUNDS):
        messages.append(complete(messages))
        messages.append({"role": "user", "content": f"question {number}: " + "word " * 40})
    fetch("https://shop.example/orders")
    raise RuntimeError("The agent ran out of questions.")
