"""Fields of a LangSmith run: metadata, tags, errors, results and usage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from replaykit.formats.core.errors import error_of, error_of_repr
from replaykit.formats.core.fields import Fields, json_type
from replaykit.formats.core.langchain_messages import message_body
from replaykit.formats.langsmith.documents import KNOWN, SUMMARY_FIELDS
from replaykit.formats.langsmith.run_tree import RunFields
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_count, as_object, without


def metadata(fields: RunFields) -> dict[str, Json]:
    """The metadata of a run, wherever its version of the format keeps it."""
    held, own = as_object(fields.object("extra").get("metadata")), fields.object("metadata")
    if own:
        return {**held, **own}
    return held


def run_metadata(runs: Sequence[RunFields]) -> dict[str, Json]:
    """The metadata of the first, which is the root; what LangSmith says of it; and all fields that are not known."""
    root = runs[0]
    summary = {name: root.value[name] for name in SUMMARY_FIELDS if root.value.get(name)}
    unknown = {run.value["id"]: without(run.value, *KNOWN) for run in runs if not run.value.keys() <= KNOWN}
    more = {"langsmith": summary, "unmapped": unknown}
    return {**metadata(root), **{name: value for name, value in more.items() if value}}


def tags(fields: RunFields) -> tuple[str, ...]:
    """The run's tags."""
    found = fields.items("tags")
    for tag in found:
        if not isinstance(tag, str):
            raise fields.error("expected a list of texts", "tags")
    return tuple(found)


_LINKS = {"parent_run_id": str, "trace_id": str, "dotted_order": str, "parent_run_ids": list, "child_runs": list}


def check_links(fields: RunFields) -> None:
    """An error where a field that places the run among others is of the wrong type: it would be put elsewhere."""
    for name, kind in _LINKS.items():
        found = fields.value.get(name)
        if found is not None and type(found) is not kind:
            raise fields.error(f"expected {'a text' if kind is str else 'a list'}, got {json_type(found)}", name)


_TRACEBACK = "Traceback (most recent call last)"

_INPUTS = ("input_tokens", "prompt_tokens")
_OUTPUTS = ("output_tokens", "completion_tokens")


def error_in(fields: Fields) -> ErrorInfo | None:
    """The error a run ended with; the SDK writes an exception's repr and its traceback as one text."""
    error = fields.take("error", "error_preview")
    if not error:
        return None
    if not isinstance(error, str):
        return error_of(error)
    head, mark, trace = error.partition(_TRACEBACK)
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
    if cost is None and parts:
        cost = sum(parts)
    usage = Usage(
        input_tokens=_first(tokens, *_INPUTS),
        output_tokens=_first(tokens, *_OUTPUTS),
        cost_usd=cost,
    )
    if usage == Usage():
        return None
    return usage


def _first(counts: dict[str, Json], *names: str) -> int | None:
    return next((count for name in names if (count := as_count(counts.get(name))) is not None), None)


def _count(fields: Fields, name: str) -> int | None:
    number = fields.number(name)
    if number is not None and (number < 0 or number != int(number)):
        raise fields.error("expected a count", name)
    if number is None:
        return None
    return int(number)


def _money(fields: Fields, name: str) -> float | None:
    """An amount: a number, or a decimal as text."""
    amount_text = fields.take(name)
    if not isinstance(amount_text, str):
        return fields.number(name)
    try:
        amount = float(amount_text)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise fields.error(f"expected an amount, got {amount_text[:40]!r}", name)
    return amount
