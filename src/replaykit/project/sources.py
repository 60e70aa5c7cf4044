"""Sources of sessions in a service: runs in LangSmith, Langfuse, Phoenix or MLflow.

A source is fetched once and stored in files beside the configuration: they belong in git, and need no network. With
`auto_import` it is fetched each time.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from replaykit.documents.shape import (
    FLAG,
    NOTHING,
    SOME_TEXT,
    Choice,
    Either,
    Flaw,
    Flaws,
    Number,
    Record,
    Text,
    optional,
)
from replaykit.documents.slug import slug
from replaykit.formats.core.run_query import DEFAULT_LIMIT, MAX_LIMIT, Status, age_of
from replaykit.model.values import JsonObject, canonical

SOURCE_DIRECTORY = Path("replays")
"""The directory of fetched sources, below the configuration's, with a directory for each service."""


class SourceType(StrEnum):
    """What a source names."""

    PROJECT = "langsmith"
    RUN = "langsmith_run"
    LANGFUSE = "langfuse"
    PHOENIX = "phoenix"
    MLFLOW = "mlflow"


class SessionSource(Struct, frozen=True, kw_only=True):
    """A project in a service, or one run of it."""

    type: SourceType
    project: str = ""
    """The project; for MLflow, the experiment."""
    run_id: str = ""
    """The run; for some services, the trace."""
    status: Status = Status.ERROR
    date_range: str = ""
    min_latency_ms: float = 0.0
    limit: int = DEFAULT_LIMIT
    auto_import: bool = False
    contract: str = ""
    """The contract of its sessions; default: the only one in the configuration."""

    @property
    def service(self) -> str:
        return (SourceType.PROJECT if self.type is SourceType.RUN else self.type).value

    @property
    def label(self) -> str:
        """The name of the source in results."""
        return " ".join(filter(None, (self.service, self.run_id or self.project)))

    @property
    def home(self) -> Path:
        """The directory of its files, relative to the configuration."""
        return SOURCE_DIRECTORY / self.service

    @property
    def place(self) -> Path:
        """Its directory or file below `home`; sources with other filters get other places."""
        if self.run_id:
            return Path(f"{slug('tool_call', self.run_id)}.yaml")
        selection = [self.project, self.status, self.date_range, self.min_latency_ms, self.limit]
        digest = hashlib.sha256(canonical(selection)).hexdigest()[:8]
        return Path(f"{slug('tool_call', self.project or self.service)[:40]}-{digest}")


# The keys that can name a source of each type.
_NAMES = {
    SourceType.PROJECT: ("project",),
    SourceType.RUN: ("run_id",),
    SourceType.LANGFUSE: ("trace_id",),
    SourceType.PHOENIX: ("project", "trace_id"),
    SourceType.MLFLOW: ("experiment", "trace_id"),
}
_ONE = ("run_id", "trace_id")
_OF_MANY = ("filter", "auto_import", "limit")


def _source_flaws(value: JsonObject) -> Flaws:
    kind = SourceType(value["type"])
    single_key = next((name for name in _ONE if name in value), None)
    needed = _NAMES[kind][0]
    is_optional = kind is SourceType.LANGFUSE or (kind is SourceType.MLFLOW and single_key)
    if not is_optional and needed not in value:
        yield Flaw((), "missing-key", f"the key {needed!r} is missing for type {kind}", f"Add {needed}.")
    unfit = [name for names in _NAMES.values() for name in names if name not in _NAMES[kind]]
    for key in dict.fromkeys(unfit):
        if key in value:
            yield Flaw((key,), "does-not-apply", f"{key} cannot be used with type {kind}", "Remove it.")
    is_one = kind is SourceType.RUN or single_key in _NAMES[kind]
    many = (*_OF_MANY, "experiment") if kind is SourceType.MLFLOW else _OF_MANY
    for key in many:
        if is_one and key in value:
            beside = f"type {kind}" if kind is SourceType.RUN else str(single_key)
            yield Flaw((key,), "does-not-apply", f"{key} cannot be combined with {beside}", "Remove it.")


SOURCE = Record(
    {
        "type": Choice(SourceType),
        "project": SOME_TEXT,
        "run_id": SOME_TEXT,
        "trace_id": SOME_TEXT,
        "experiment": SOME_TEXT,
        "filter": Either(
            (
                Record(
                    {
                        "status": Choice(Status),
                        "date_range": optional(Text("a range such as last_7_days", check=age_of)),
                        "min_latency_ms": optional(Number(above=-1, at_most=1e12)),
                    }
                ),
                NOTHING,
            )
        ),
        "limit": Number(above=0, at_most=MAX_LIMIT, whole=True),
        "auto_import": FLAG,
        "contract": SOME_TEXT,
    },
    required=("type",),
    notes={
        "limit": "The most runs that are taken, newest first.",
        "auto_import": "Fetch it each time, instead of once.",
        "contract": "The contract of its sessions; default: the only one of the configuration.",
    },
    cross=_source_flaws,
)


def source_of(value: JsonObject) -> SessionSource:
    """Build the source from a valid value."""
    filters = value.get("filter") or {}
    return SessionSource(
        type=SourceType(value["type"]),
        project=value.get("project") or value.get("experiment", ""),
        run_id=value.get("run_id") or value.get("trace_id", ""),
        status=Status(filters.get("status", Status.ERROR)),
        date_range=filters.get("date_range") or "",
        min_latency_ms=filters.get("min_latency_ms") or 0.0,
        limit=value.get("limit", DEFAULT_LIMIT),
        auto_import=value.get("auto_import", False),
        contract=value.get("contract", ""),
    )
