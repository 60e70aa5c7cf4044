"""What LangSmith says about a run, beside what happened in it."""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.importers.fields import json_type
from replaykit.importers.langsmith.collecting import RunFields
from replaykit.importers.langsmith.members import ABOUT, KNOWN
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, without


def metadata(fields: RunFields) -> dict[str, Json]:
    """The metadata of a run, wherever its version of the format keeps it."""
    held, own = as_object(fields.object("extra").get("metadata")), fields.object("metadata")
    return {**held, **own} if own else held


def about(runs: Sequence[RunFields]) -> dict[str, Json]:
    """The metadata of the first, which is the root; what LangSmith says of it; and all fields that are not known."""
    root = runs[0]
    said = {name: root.value[name] for name in ABOUT if root.value.get(name)}
    unknown = {run.value["id"]: without(run.value, *KNOWN) for run in runs if not run.value.keys() <= KNOWN}
    more = {"langsmith": said, "unmapped": unknown}
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
