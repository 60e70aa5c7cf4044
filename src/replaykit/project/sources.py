"""Where sessions come from besides files: runs that LangSmith keeps."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from replaykit.cases.shape import Choice, Either, Flag, Flaw, Nothing, Number, Record, Text
from replaykit.model.values import Json


class SourceType(StrEnum):
    """What a source names."""

    PROJECT = "langsmith"
    RUN = "langsmith_run"


class Status(StrEnum):
    """Which runs of a project are taken."""

    ERROR = "error"
    WARNING = "warning"
    ALL = "all"


class Source(Struct, frozen=True, kw_only=True):
    """A project of LangSmith, or one run."""

    type: SourceType
    project: str = ""
    run_id: str = ""
    status: Status = Status.ERROR
    date_range: str = ""
    min_latency_ms: float = 0.0
    auto_import: bool = False


def _source_flaws(value: dict[str, Json]) -> Iterator[Flaw]:
    is_run = value["type"] == SourceType.RUN
    needed, unfit = ("run_id", ("project", "filter", "auto_import")) if is_run else ("project", ("run_id",))
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
                        "date_range": Either((Text(), Nothing())),
                        "min_latency_ms": Either((Number(above=-1, at_most=1e12), Nothing())),
                    }
                ),
                Nothing(),
            )
        ),
        "auto_import": Flag(),
    },
    required=("type",),
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
        auto_import=value.get("auto_import", False),
    )
