"""A small agent with a real bug, for `replaykit demo` and for trying things out.

The billing service is down. `looping_agent` asks it again and again until it gives up with an error;
`patient_agent` asks twice, and then tells the customer the truth.
"""

from __future__ import annotations

from replaykit.seam.tool import tool

QUESTION = "Why was I charged $49.99?"
MAX_TOOL_CALLS = 5


class BillingTimeout(Exception):
    """The billing service did not answer."""


@tool
def find_customer(question: str) -> dict[str, str]:
    """Who is asking?"""
    return {"user_id": "usr_8821", "plan": "pro", "asked": question}


@tool
def lookup_billing(user_id: str) -> dict[str, str]:
    """The customer's charges, from a service that is down today."""
    raise BillingTimeout(f"billing service timeout for {user_id}")


def looping_agent(question: str) -> str:
    """Asks until its budget is gone, whatever the answer."""
    customer = find_customer(question)
    for _ in range(MAX_TOOL_CALLS):
        try:
            return f"Your charge: {lookup_billing(customer['user_id'])}"
        except BillingTimeout:
            continue
    raise RuntimeError("Max tool call limit exceeded. Agent terminated.")


def patient_agent(question: str) -> str:
    """Asks twice, then says what it could not find out."""
    customer = find_customer(question)
    for _ in range(2):
        try:
            return f"Your charge: {lookup_billing(customer['user_id'])}"
        except BillingTimeout:
            continue
    return "I cannot see your charges right now: our billing service is down. I have noted your question about $49.99."
