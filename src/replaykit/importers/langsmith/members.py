"""The members of a run: their names, and what is read of them at once.

Most of a file is what nobody asks for: chains repeat all that was said inside of them, and calls the tools on offer. So
of a run on a line of its own, what may be long stays text until somebody takes it.
"""

from __future__ import annotations

from typing import Any, TypedDict, cast

import msgspec
from msgspec import Raw

from replaykit.model.nesting import check_nesting, decode_json
from replaykit.model.values import NULL, Json

ABOUT = ("session_name", "session_id", "project_id", "thread_id", "reference_example_id", "feedback_stats", "app_path")
"""What LangSmith says of a run."""
_LEFT = (
    *("events", "serialized", "manifest", "manifest_id", "manifest_s3_id", "s3_urls", "attachments", "execution_order"),
    *("prompt_token_details", "completion_token_details", "prompt_cost_details", "completion_cost_details"),
    *("first_token_time", "price_model_id", "in_dataset", "is_in_dataset", "reference_dataset_id", "query_metadata"),
    *("share_token", "share_url", "tenant_id", "ls_user_id"),
    *("modified_at", "last_queued_at", "thread_evaluation_time", "total_tokens", "is_root"),
    *("child_run_ids", "direct_child_run_ids"),
)
"""LangSmith's own bookkeeping, which a run has no use for."""


class _Extra(TypedDict, total=False):
    metadata: Any
    invocation_params: Raw


class _Members(TypedDict, total=False):
    """What somebody reads of a run. One with a member of another type is read whole, to say what is wrong."""

    id: str | None
    name: str | None
    run_type: str | None
    status: str | None
    error: Any
    error_preview: Any
    tags: list[Any] | None
    extra: _Extra | None
    metadata: dict[str, Any] | None
    inputs: Raw
    inputs_preview: Any
    inputs_s3_urls: Any
    outputs: Raw
    outputs_preview: Any
    outputs_s3_urls: Any
    start_time: Any
    end_time: Any
    latency_seconds: Any
    trace_id: str | None
    dotted_order: str | None
    parent_run_id: str | None
    parent_run_ids: list[Any] | None
    child_runs: list[Any] | None
    prompt_tokens: Any
    completion_tokens: Any
    prompt_cost: Any
    completion_cost: Any
    total_cost: Any
    session_name: Any
    session_id: Any
    project_id: Any
    thread_id: Any
    reference_example_id: Any
    feedback_stats: Any
    app_path: Any


KNOWN = frozenset((*_Members.__annotations__, *_LEFT))
_decode = msgspec.json.Decoder(_Members).decode


def members_of(text: bytes) -> dict[str, Json] | None:
    """The known members of a run, inputs, outputs and settings as text; None where that does not do."""
    try:
        check_nesting(text)
        if not text.isascii():
            text.decode()  # in what stays text, nobody would see a wrong byte
        found = cast(dict[str, Json], _decode(text))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    for name in ("inputs", "outputs"):
        if found.get(name) == NULL:
            found[name] = None
    return found


def loaded(value: Json) -> Json:
    """A member that may still be text; one that cannot be read stays so, and whoever takes it says that."""
    try:
        return decode_json(value) if type(value) is Raw else value
    except msgspec.MsgspecError:
        return value
