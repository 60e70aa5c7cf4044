"""Usage: tokens and money, as each API spells them."""

from __future__ import annotations

import math

from replaykit.model.events import Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_count, as_object

_USD_PER_TICK = 1e-10


def usage_of(value: Json, *, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Usage | None:
    """The counts under these names, summed; None when the wire shows neither tokens nor cost."""
    counts = as_object(value)
    if not counts:
        return None
    usage = Usage(
        input_tokens=_sum(counts, inputs),
        output_tokens=_sum(counts, outputs),
        cost_usd=_cost(counts),
    )
    if usage == Usage():
        return None
    return usage


def _sum(counts: JsonObject, names: tuple[str, ...]) -> int | None:
    found = [count for name in names if (count := as_count(counts.get(name))) is not None]
    if found:
        return sum(found)
    return None


def _cost(counts: JsonObject) -> float | None:
    """Return the cost that a gateway reports: a number, an object with a total, or ticks of a dollar."""
    cost = counts.get("cost")
    if type(cost) is dict:
        cost = cost.get("total_cost")
    if type(cost) is int or type(cost) is float:
        return _finite(float(cost))
    ticks = as_count(counts.get("cost_in_usd_ticks"))
    if ticks is None:
        return None
    return _finite(ticks * _USD_PER_TICK)


def _finite(amount: float) -> float | None:
    if math.isfinite(amount) and amount >= 0:
        return amount
    return None
