"""An agent that refunds orders, and a golden trace of it that pytest replays. Run these lines in this directory:

python refunds.py "Order 7 arrived broken"
replaykit golden refunds --out golden_traces --name broken-on-arrival --ignore '$.request_id' --agent refunds:agent
pytest

The second line made golden_traces/broken-on-arrival.golden.json; pytest.ini says which agent its runs are of.
"""

from __future__ import annotations

import re
import sys
import uuid
from typing import Any

import replaykit as rk

LIMIT_EUR = 50


@rk.tool
def lookup_order(order: int) -> dict[str, Any]:
    """The shop's database, or what would be one."""
    return {"order": order, "paid_eur": 19.9, "state": "delivered"}


@rk.tool
def refund(order: int, amount_eur: float, request_id: str) -> str:
    """Gives money back. Nobody wants that to happen in a test."""
    return f"refunded {amount_eur} EUR for order {order}"


@rk.record("refunds")
def agent(message: str) -> str:
    """Look the order up, decide, act, answer."""
    with rk.record("refunds") as run:  # the run that the decorator began, or the one that is replayed
        state: dict[str, Any] = {"message": message, "order": None, "decision": None}
        with run.step("look") as step:
            number = re.search(r"\d+", message)
            found = lookup_order(int(number[0])) if number else None
            state = step.done({**state, "order": found})
        with run.step("decide") as step:
            cheap = found is not None and found["paid_eur"] <= LIMIT_EUR
            state = step.done({**state, "decision": "refund" if cheap else "ask a person"})
        if state["decision"] == "refund" and found is not None:
            with run.step("act"):
                refund(found["order"], found["paid_eur"], request_id=uuid.uuid4().hex)
            return f"We have refunded {found['paid_eur']} EUR."
        return "A colleague will look into it."


if __name__ == "__main__":
    print(agent(" ".join(sys.argv[1:]) or "Order 7 arrived broken"))
