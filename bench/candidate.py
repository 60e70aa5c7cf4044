"""The agent that ReplayKit's cases are replayed against: three tool calls and an answer."""

from __future__ import annotations

import replaykit as rk


@rk.tool
def lookup(query: str, index: int = 0) -> dict:
    raise RuntimeError("a replay must serve this call")


def answer(question: str) -> str:
    found = [lookup(query=question, index=index) for index in range(3)]
    return f"Your order was shipped; {len(found)} entries say so."
