"""What LangSmith says about a run, beside what happened in it."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.importers.langsmith.collecting import RunFields
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, without

_ABOUT = ("session_name", "session_id", "project_id", "thread_id", "reference_example_id", "feedback_stats", "app_path")
_READ = (
    *("id", "name", "run_type", "status", "error", "error_preview", "tags", "extra", "metadata"),
    *("inputs", "inputs_preview", "inputs_s3_urls", "outputs", "outputs_preview", "outputs_s3_urls"),
    *("start_time", "end_time", "latency_seconds", "trace_id", "dotted_order", "is_root"),
    *("parent_run_id", "parent_run_ids", "child_runs", "child_run_ids", "direct_child_run_ids"),
    *("prompt_tokens", "completion_tokens", "total_tokens", "prompt_cost", "completion_cost", "total_cost"),
)
_LEFT = (
    *("events", "serialized", "manifest", "manifest_id", "manifest_s3_id", "s3_urls", "attachments", "execution_order"),
    *("prompt_token_details", "completion_token_details", "prompt_cost_details", "completion_cost_details"),
    *("first_token_time", "price_model_id", "in_dataset", "is_in_dataset", "reference_dataset_id", "query_metadata"),
    *("share_token", "share_url", "tenant_id", "ls_user_id"),
    *("modified_at", "last_queued_at", "thread_evaluation_time"),
)
"""LangSmith's own bookkeeping, which a run has no use for."""
_KNOWN = frozenset({*_ABOUT, *_READ, *_LEFT})


def metadata(fields: RunFields) -> dict[str, Json]:
    """The metadata of a run, wherever its version of the format keeps it."""
    held, own = as_object(fields.object("extra").get("metadata")), fields.object("metadata")
    return {**held, **own} if own else held


def about(runs: Sequence[RunFields]) -> dict[str, Json]:
    """The metadata of the first, which is the root; what LangSmith says of it; and all fields that are not known."""
    root = runs[0]
    said = {name: root.value[name] for name in _ABOUT if root.value.get(name)}
    unknown = {run.value["id"]: without(run.value, *_KNOWN) for run in runs if not run.value.keys() <= _KNOWN}
    more = {"langsmith": said, "unmapped": unknown}
    return {**metadata(root), **{name: value for name, value in more.items() if value}}


def tags(fields: RunFields) -> tuple[str, ...]:
    """The run's tags."""
    found = fields.items("tags")
    for tag in found:
        if not isinstance(tag, str):
            raise fields.error("expected a list of texts", "tags")
    return tuple(found)


def check_links(fields: RunFields) -> None:
    """An error where a field that places the run among others is of the wrong type: it would be put elsewhere."""
    for name in ("parent_run_id", "trace_id", "dotted_order"):
        fields.text(name)
    for name in ("parent_run_ids", "child_runs"):
        fields.items(name)
