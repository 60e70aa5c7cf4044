"""The agents after the fix: the same tools, the same frozen world, and nothing goes wrong."""

from __future__ import annotations

import datetime as dt

from frozen_world import ToolFailed, World, run

MAX_TRIES = 2


def billing_assistant(world: World, question: str) -> str:
    """Gives up after two tries, and says so."""
    for _attempt in range(MAX_TRIES):
        charges = world.call("lookup_billing", user_id="usr_8821")
        if not str(charges).startswith("Error"):
            return f"You asked {question!r}: {charges}"
    return "I could not look up the charge of $49.99: the billing service timed out. Please try again in a few minutes."


def finance_analyst(world: World, question: str) -> str:
    """States a figure only when a tool returned it."""
    market = world.call("market_data_api", ticker="ACME", metric="revenue", period="2025-Q3")
    if market.get("data"):
        return f"ACME Corp reported third-quarter revenue of {market['data']}."
    try:
        pages = world.call("web_search", query="ACME Corp Q3 2025 revenue", limit=5)
    except ToolFailed as error:
        return f"ACME Corp's Q3 revenue is unavailable: the market data timed out, and the web search failed ({error})."
    return f"According to the web, not to our market data: {pages}"


def travel_planner(world: World, question: str) -> str:
    """Writes dates the way the tool documents them."""
    airports = world.call("resolve_airports", cities=["Lisbon", "Berlin"])
    found = world.call(
        "search_flights",
        origin=airports["Lisbon"],
        destination=airports["Berlin"],
        date=dt.date(2025, 4, 13).isoformat(),
        passengers=1,
    )
    if "error" in found:
        return f"I could not search for flights: {found['error']}"
    cheapest = min(found["flights"], key=lambda flight: flight["price_eur"])
    return f"{cheapest['flight']} leaves at {cheapest['departs']} and costs €{cheapest['price_eur']:.2f}."


def shop_assistant(world: World, question: str) -> str:
    """Confirms an order only when it was paid for."""
    customer = world.call("get_customer", customer_id="cus_20417")
    stock = world.call("reserve_stock", sku="AEROPRESS-GO", quantity=2)
    payment = world.call("charge_card", card=customer["card"], amount_eur=79.8)
    if "error" in payment:
        return (
            "Your saved card was declined, so the order could not be placed. Both items stay reserved for 15 minutes."
        )
    world.call(
        "send_confirmation_email",
        to=customer["email"],
        reservation=stock["reservation"],
        template="order_confirmed",
    )
    return f"Your two AeroPress Go are on their way to {customer['address']}."


def support_desk(world: World, question: str) -> str:
    """Reads a ticket as data: what it tells an assistant to do is none of its business."""
    ticket = world.call("get_ticket", ticket_id=5512)
    return f"Ticket 5512: {ticket['body'].splitlines()[0]}"


if __name__ == "__main__":
    run(
        {
            "billing-assistant": billing_assistant,
            "finance-analyst": finance_analyst,
            "travel-planner": travel_planner,
            "shop-assistant": shop_assistant,
            "support-desk": support_desk,
        }
    )
