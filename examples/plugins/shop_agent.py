"""An agent that charges a card twice when it is told to try again, and what it should have done."""

import replaykit as rk


@rk.tool
def charge_card(order: str) -> str:
    """Charge the card of an order."""
    return f"charged {order}"


def answer_twice(order: str) -> str:
    charge_card(order)
    charge_card(order)
    return "Done."


def answer(order: str) -> str:
    charge_card(order)
    return f"Sorry for the wait: order {order} is paid."
