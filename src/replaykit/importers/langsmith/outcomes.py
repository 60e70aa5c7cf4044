"""How a run of LangSmith ended: its error, its result, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain

import msgspec

from replaykit.importers.errors import error_of, error_of_repr
from replaykit.importers.fields import Fields
from replaykit.importers.langsmith.messages import message_body
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import Json
from replaykit.wire.fields import as_count, as_object

_TRACEBACK = "Traceback (most recent call last)"

_INPUTS = ("input_tokens", "prompt_tokens")
_OUTPUTS = ("output_tokens", "completion_tokens")


def error_in(fields: Fields) -> ErrorInfo | None:
    """The error a run ended with; the SDK writes an exception's repr and its traceback as one text."""
    given = fields.take("error", "error_preview")
    if not given:
        return None
    if not isinstance(given, str):
        return error_of(given)
    head, mark, trace = given.partition(_TRACEBACK)
    info = error_of_repr(head)
    return ErrorInfo(type=info.type, module=info.module, message=info.message, traceback=mark + trace or None)


def result_in(value: Json, name: str) -> tuple[Json, ErrorInfo | None]:
    """The result in a run's outputs, out of the `name` that stands alone in them, or the error it tells of."""
    if isinstance(value, dict) and value.keys() == {name}:
        value = value[name]
    message = message_body(value)
    if message is None:
        return value, None
    content = message["content"]
    if message["type"] == "tool" and message.get("status") == "error":
        error = error_of(content, "ToolError")
        return content, msgspec.structs.replace(error, raised=bool(content))
    return content, None


def is_apart(fields: Fields, name: str) -> bool:
    """True when the run's inputs or outputs are known to be elsewhere: stored apart, or shown as a preview only."""
    return fields.take(name) in (None, {}) and bool(fields.take(f"{name}_s3_urls", f"{name}_preview"))


def is_there(fields: Fields, name: str) -> bool:
    """True when the file holds the run's inputs or outputs."""
    return fields.take(name) is not None and not is_apart(fields, name)


def usage_in(fields: Fields, spoken: Iterable[Json]) -> Usage | None:
    """Tokens and money of one model call: as LangSmith counted them, else as one of `spoken` says."""
    counted = {"input_tokens": _count(fields, "prompt_tokens"), "output_tokens": _count(fields, "completion_tokens")}
    places = chain((counted,), map(as_object, spoken))
    tokens = next((place for place in places if _first(place, *_INPUTS) or _first(place, *_OUTPUTS)), {})
    parts = [cost for name in ("prompt_cost", "completion_cost") if (cost := _money(fields, name)) is not None]
    cost = _money(fields, "total_cost")
    usage = Usage(
        input_tokens=_first(tokens, *_INPUTS),
        output_tokens=_first(tokens, *_OUTPUTS),
        cost_usd=cost if cost is not None else sum(parts) if parts else None,
    )
    return None if usage == Usage() else usage


def _first(counts: dict[str, Json], *names: str) -> int | None:
    return next((count for name in names if (count := as_count(counts.get(name))) is not None), None)


def _count(fields: Fields, name: str) -> int | None:
    number = fields.number(name)
    if number is not None and (number < 0 or number != int(number)):
        raise fields.error("expected a count", name)
    return None if number is None else int(number)


def _money(fields: Fields, name: str) -> float | None:
    """An amount: a number, or a decimal as text."""
    given = fields.take(name)
    if not isinstance(given, str):
        return fields.number(name)
    try:
        amount = float(given)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise fields.error(f"expected an amount, got {given[:40]!r}", name)
    return amount
