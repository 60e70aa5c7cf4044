"""Tokens and money of a whole run, where a format does not say them for each call."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from replaykit.formats.core.members import value_in
from replaykit.model.events import LlmCall, Usage
from replaykit.model.run import TraceRun
from replaykit.model.values import raw
from replaykit.wire.json_fields import as_object

TOTAL = "usage"
"""The metadata key of the total, for runs whose calls have no usage."""


def with_total(run: TraceRun, total: Usage | None) -> TraceRun:
    """The run with a total that the format states: on the only call of the run, which took all of it, or apart."""
    if total is None or total == Usage() or any(call.usage is not None for call in run.llm_calls):
        return run
    if len(run.llm_calls) == 1:
        (only,) = run.llm_calls
        events = [msgspec.structs.replace(event, usage=total) if event is only else event for event in run.events]
        return msgspec.structs.replace(run, events=tuple(events))
    metadata = as_object(run.metadata) | {TOTAL: msgspec.to_builtins(total)}
    return msgspec.structs.replace(run, metadata_json=raw(metadata))


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
    known = list(usages)
    inputs = [usage.input_tokens for usage in known if usage.input_tokens is not None]
    outputs = [usage.output_tokens for usage in known if usage.output_tokens is not None]
    costs = [usage.cost_usd for usage in known if usage.cost_usd is not None]
    return Usage(
        input_tokens=sum(inputs) if inputs else None,
        output_tokens=sum(outputs) if outputs else None,
        cost_usd=sum(costs) if costs else None,
    )
