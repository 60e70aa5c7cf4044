"""The billing agent as Python functions, for `replaykit replay CASE --agent examples.agents.billing:looping_agent`.

`@rk.tool` is all a function needs to be recorded and served. In a replay the tool's body never runs: its outcome
comes from the case.
"""

from __future__ import annotations

import replaykit as rk

MAX_TOOL_CALLS = 5
MAX_TRIES = 2


@rk.tool
def lookup_billing(user_id: str) -> str:
    """The charges of a user, or a text that begins with `Error`."""
    raise ConnectionError(f"there is no billing service in this example (asked for {user_id})")


def looping_agent(question: str) -> str:
    """Asks again and again, whatever the answer."""
    for _attempt in range(MAX_TOOL_CALLS):
        charges = lookup_billing("usr_8821")
        if not charges.startswith("Error"):
            return f"You asked {question!r}: {charges}"
    raise RuntimeError("Max tool call limit exceeded. Agent terminated.")


def patient_agent(question: str) -> str:
    """Gives up after two tries, and says so."""
    for _attempt in range(MAX_TRIES):
        charges = lookup_billing("usr_8821")
        if not charges.startswith("Error"):
            return f"You asked {question!r}: {charges}"
    return "I could not look up the charge of $49.99: the billing service timed out. Please try again in a few minutes."
