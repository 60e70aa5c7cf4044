"""Tokens and money of a whole run, where a format does not say them for each call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from replaykit.model.events import LlmCall, Usage
from replaykit.model.run import TraceRun
from replaykit.model.values import raw
from replaykit.wire.json_fields import as_object, value_in

N = TypeVar("N", int, float)
TOTAL = "usage"
"""The metadata key of the total, for runs whose calls have no usage."""


def with_total(run: TraceRun, total: Usage | None) -> TraceRun:
    """The run with a total that the format states: on the only call of the run, which took all of it, or apart."""
    if total is None or total == Usage() or any(call.usage is not None for call in run.llm_calls):
        return run
    if len(run.llm_calls) == 1:
        (only,) = run.llm_calls
        events = [replace(event, usage=total) if event is only else event for event in run.events]
        return replace(run, events=tuple(events))
    metadata = as_object(run.metadata) | {TOTAL: msgspec.to_builtins(total)}
    return replace(run, metadata_json=raw(metadata))


def total_of(run: TraceRun) -> Usage:
    """Return a run's usage: the sum of its calls, else the total in its metadata."""
    used = [event.usage for event in run.events if isinstance(event, LlmCall) and event.usage is not None]
    if used:
        return added(used)
    try:
        return msgspec.convert(value_in(run.metadata, TOTAL), Usage)
    except msgspec.ValidationError:  # the metadata of a run is anybody's
        return Usage()


def added(usages: Iterable[Usage]) -> Usage:
    """The sum; a part that none of them states stays unknown."""
    total = Usage()
    for usage in usages:
        total = Usage(
            input_tokens=_sum(total.input_tokens, usage.input_tokens),
            output_tokens=_sum(total.output_tokens, usage.output_tokens),
            cost_usd=_sum(total.cost_usd, usage.cost_usd),
        )
    return total


def _sum(total: N | None, part: N | None) -> N | None:
    if total is None:
        return part
    if part is None:
        return total
    return total + part


def stated_usage(input_tokens: int | None, output_tokens: int | None, cost_usd: float | None = None) -> Usage | None:
    """The usage of a call; None where a trace states nothing of it."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd)
    if usage == Usage():
        return None
    return usage
