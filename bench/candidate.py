"""The agents that ReplayKit's cases are replayed against: three tool calls, or five, and an answer."""

from __future__ import annotations

import replaykit as rk


@rk.tool
def lookup(query: str, index: int = 0) -> dict:
    raise RuntimeError("a replay must serve this call")


def answer(question: str, calls: int = 3) -> str:
    found = [lookup(query=question, index=index) for index in range(calls)]
    return f"Your order was shipped; {len(found)} entries say so."


def answer_with_five(question: str) -> str:
    return answer(question, 5)
