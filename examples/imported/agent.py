"""The booking agent, before and after the fix. In a replay its tools are not run: the chat says what they answered."""

from __future__ import annotations

from typing import Any

import replaykit as rk

BOOKING, EVENING = "BF-2291", "19:15"
MAX_TRIES = 2


@rk.tool
def find_booking(booking: str) -> Any:
    """A booking, as the ferry line has it."""
    raise RuntimeError(f"there is no ferry line in this example (asked for {booking})")


@rk.tool
def change_ferry(booking: str, ferry: str) -> Any:
    """Move a booking to another ferry; where the car deck does not answer, a text that begins with its error."""
    raise RuntimeError(f"there is no ferry line in this example (asked to move {booking} to {ferry})")


def before(question: str) -> str:
    """Says that it is done, whatever came of it."""
    find_booking(booking=BOOKING)
    change_ferry(booking=BOOKING, ferry=EVENING)
    return f"Done! You and your car are on the {EVENING} ferry."


def after(question: str) -> str:
    """Tries once more, and says when it did not work."""
    find_booking(booking=BOOKING)
    for _attempt in range(MAX_TRIES):
        answer = change_ferry(booking=BOOKING, ferry=EVENING)
        if str(answer).startswith("ConnectionError"):
            continue
        return f"Done! You and your car are on the {EVENING} ferry."
    return "I could not move your booking: the car deck does not answer. You are still on the 08:40 ferry."
