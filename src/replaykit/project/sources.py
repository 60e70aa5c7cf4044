"""Where sessions come from besides files: runs that LangSmith keeps.

A source is fetched once, and kept as files beside the configuration: those are for git, and need no network. With
`auto_import` it is fetched each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from replaykit.cases.shape import Choice, Either, Flag, Flaw, Nothing, Number, Record, Text
from replaykit.cases.slug import slug
from replaykit.importers.langsmith_wanted import DEFAULT_LIMIT, MAX_LIMIT, Status, age_of
from replaykit.model.values import Json, canonical

KEPT = Path("replays", "langsmith")
"""Below the configuration's directory: where sources are kept."""


class SourceType(StrEnum):
    """What a source names."""

    PROJECT = "langsmith"
    RUN = "langsmith_run"


class Source(Struct, frozen=True, kw_only=True):
    """A project of LangSmith, or one run."""

    type: SourceType
    project: str = ""
    run_id: str = ""
    status: Status = Status.ERROR
    date_range: str = ""
    min_latency_ms: float = 0.0
    limit: int = DEFAULT_LIMIT
    auto_import: bool = False
    contract: str = ""
    """The contract that its sessions must keep; the configuration's only one unless said."""

    @property
    def label(self) -> str:
        """What it is called in results."""
        return f"langsmith {self.run_id or self.project}"

    @property
    def place(self) -> Path:
        """Its directory or its file, relative to where sources are; another filter is another place."""
        if self.type is SourceType.RUN:
            return Path(f"{slug('tool_call', self.run_id)}.yaml")
        asked = [self.project, self.status, self.date_range, self.min_latency_ms, self.limit]
        digest = hashlib.sha256(canonical(asked)).hexdigest()[:8]
        return Path(f"{slug('tool_call', self.project)[:40]}-{digest}")


def _source_flaws(value: dict[str, Json]) -> Iterator[Flaw]:
    is_run = value["type"] == SourceType.RUN
    needed, unfit = ("run_id", ("project", "filter", "auto_import", "limit")) if is_run else ("project", ("run_id",))
    if needed not in value:
        yield Flaw((), "missing-key", f"the key {needed!r} is missing for type {value['type']}", f"Add {needed}.")
    for key in unfit:
        if key in value:
            yield Flaw((key,), "does-not-apply", f"{key} does not go with type {value['type']}", "Take it away.")


_SOME_TEXT = Text("some text", pattern=r"\S")

SOURCE = Record(
    {
        "type": Choice(SourceType),
        "project": _SOME_TEXT,
        "run_id": _SOME_TEXT,
        "filter": Either(
            (
                Record(
                    {
                        "status": Choice(Status),
                        "date_range": Either((Text("a range such as last_7_days", check=age_of), Nothing())),
                        "min_latency_ms": Either((Number(above=-1, at_most=1e12), Nothing())),
                    }
                ),
                Nothing(),
            )
        ),
        "limit": Number(above=0, at_most=MAX_LIMIT, whole=True),
        "auto_import": Flag(),
        "contract": _SOME_TEXT,
    },
    required=("type",),
    notes={
        "limit": "The most runs that are taken, newest first.",
        "auto_import": "Fetch it each time, instead of once.",
        "contract": "The contract of its sessions; the only one of the configuration unless said.",
    },
    cross=_source_flaws,
)


def source_of(value: dict[str, Json]) -> Source:
    """The source that a value without flaws describes."""
    wanted = value.get("filter") or {}
    return Source(
        type=SourceType(value["type"]),
        project=value.get("project", ""),
        run_id=value.get("run_id", ""),
        status=Status(wanted.get("status", Status.ERROR)),
        date_range=wanted.get("date_range") or "",
        min_latency_ms=wanted.get("min_latency_ms") or 0.0,
        limit=value.get("limit", DEFAULT_LIMIT),
        auto_import=value.get("auto_import", False),
        contract=value.get("contract", ""),
    )
