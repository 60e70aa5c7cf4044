"""Which runs of a LangSmith project are wanted, in the words of both versions of its API."""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum

from msgspec import Struct

from replaykit.errors import nearest
from replaykit.importers.errors import status_of
from replaykit.model.run import RunStatus
from replaykit.model.values import Json

PAGE = 100
"""Runs on a page: the most that the API gives."""
DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
FAR_BACK = dt.timedelta(days=400)
"""How long LangSmith keeps a trace at most. Asked without a time it looks back one day only."""

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(?:last_)?([1-9]\d{0,4})_?(m|h|d|w|minutes?|hours?|days?|weeks?)")
_EXAMPLES = ("last_7_days", "last_24_hours", "7d", "24h")


class Status(StrEnum):
    """Which runs of a project are taken."""

    ERROR = "error"  # those that ended with an error
    WARNING = "warning"  # those that ended well, though something inside of them failed
    ALL = "all"


class Wanted(Struct, frozen=True, kw_only=True):
    """The roots of a project that are looked for, the newest first."""

    project_id: str
    status: Status = Status.ERROR
    since: dt.datetime
    min_latency_ms: float = 0.0
    limit: int = DEFAULT_LIMIT

    def body(self, version: int) -> dict[str, Json]:
        """What is asked of the API of that version."""
        has_error = {Status.ERROR: True, Status.WARNING: False}.get(self.status)
        seconds = int(self.min_latency_ms // 1000)  # exactly is seen afterwards
        said = {
            ("session", "project_ids")[version - 1]: [self.project_id],
            "is_root": True,
            ("start_time", "min_start_time")[version - 1]: iso(self.since),
            ("error", "has_error")[version - 1]: has_error,
            "filter": f'gte(latency, "{seconds}s")' if seconds else None,
        }
        return {key: value for key, value in said.items() if value is not None} | page_of(version)

    def fits(self, root: dict[str, Json]) -> bool:
        """True for a root that was asked for, whatever the server makes of the question."""
        if self.status is not Status.ALL and has_failed(root) != (self.status is Status.ERROR):
            return False
        latency = latency_ms(root)
        return not self.min_latency_ms or (latency is not None and latency >= self.min_latency_ms)


V1_FIELDS = (
    *("id", "name", "run_type", "status", "error", "start_time", "end_time", "extra", "tags"),
    *("inputs", "inputs_s3_urls", "outputs", "outputs_s3_urls", "session_id", "reference_example_id", "feedback_stats"),
    *("trace_id", "parent_run_id", "parent_run_ids", "dotted_order"),
    *("prompt_tokens", "completion_tokens", "total_tokens", "prompt_cost", "completion_cost", "total_cost"),
)
V2_FIELDS = (
    *("ID", "NAME", "RUN_TYPE", "STATUS", "ERROR", "START_TIME", "END_TIME", "LATENCY_SECONDS", "EXTRA", "METADATA"),
    *("TAGS", "INPUTS", "OUTPUTS", "PROJECT_ID", "THREAD_ID", "REFERENCE_EXAMPLE_ID", "FEEDBACK_STATS"),
    *("TRACE_ID", "PARENT_RUN_IDS", "DOTTED_ORDER", "IS_ROOT"),
    *("PROMPT_TOKENS", "COMPLETION_TOKENS", "TOTAL_TOKENS", "PROMPT_COST", "COMPLETION_COST", "TOTAL_COST"),
)


def page_of(version: int) -> dict[str, Json]:
    """How much of what is asked for: whole pages, and every field that an importer reads."""
    fields, size = (("select", "limit"), ("selects", "page_size"))[version - 1]
    return {fields: list((V1_FIELDS, V2_FIELDS)[version - 1]), size: PAGE}


def iso(time: dt.datetime) -> str:
    """A moment as the API reads it."""
    return time.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def age_of(text: str, most: dt.timedelta = FAR_BACK) -> dt.timedelta:
    """How long ago: `7d`, `24h`, `last_7_days`; a `ValueError` says what else can be written."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"no range of time {text[:40]!r}; {nearest(text.strip().lower()[:40], _EXAMPLES)}")
    return min(most, dt.timedelta(**{_UNITS[found[2][0]]: int(found[1])}))


def since_of(text: str, now: dt.datetime, most: dt.timedelta = FAR_BACK) -> dt.datetime:
    """The moment that `7d` or `2026-02-15` means; a `ValueError` for anything else."""
    try:
        given = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return now - age_of(text, most)
    return given if given.tzinfo else given.replace(tzinfo=dt.UTC)


def has_failed(run: dict[str, Json]) -> bool:
    """True for a run that ended with an error."""
    return bool(run.get("error") or run.get("error_preview")) or _status(run) is RunStatus.ERROR


def is_running(run: dict[str, Json]) -> bool:
    """True for a run that has not ended."""
    return _status(run) is RunStatus.RUNNING


def _status(run: dict[str, Json]) -> RunStatus | None:
    word = run.get("status")
    return status_of(word) if isinstance(word, str) else None


def latency_ms(run: dict[str, Json]) -> float | None:
    """How long a run took; None where that is not known."""
    said = run.get("latency_seconds")
    if isinstance(said, int | float) and not isinstance(said, bool):
        return said * 1000
    began, ended = moment(run.get("start_time")), moment(run.get("end_time"))
    return None if began is None or ended is None else (ended - began) / dt.timedelta(milliseconds=1)


def moment(value: Json) -> dt.datetime | None:
    """A time as runs hold it; None for anything else."""
    try:
        time = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=dt.UTC) if time is not None and time.tzinfo is None else time
