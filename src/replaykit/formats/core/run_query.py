"""Queries for runs of a service: status, age and limit."""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum

from replaykit.errors import UsageError, nearest
from replaykit.model.values import Json

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
FAR_BACK = dt.timedelta(days=400)
"""LangSmith's longest retention; without a start time, its API returns one day only."""

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(?:last_)?([1-9]\d{0,4})_?(m|h|d|w|minutes?|hours?|days?|weeks?)")
_EXAMPLES = ("last_7_days", "last_24_hours", "7d", "24h")


class Status(StrEnum):
    """Which runs of a project to import, by outcome."""

    ERROR = "error"  # runs that ended with an error
    WARNING = "warning"  # runs that succeeded although something inside failed
    ALL = "all"


def iso(time: dt.datetime) -> str:
    """Return a moment in the API's notation."""
    return time.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def age_of(text: str, most: dt.timedelta = FAR_BACK) -> dt.timedelta:
    """Return the duration that `7d`, `24h` or `last_7_days` stands for; a `ValueError` names valid spellings."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"no range of time {text[:40]!r}; {nearest(text.strip().lower()[:40], _EXAMPLES)}")
    return min(most, dt.timedelta(**{_UNITS[found[2][0]]: int(found[1])}))


def since_of(text: str, now: dt.datetime, most: dt.timedelta = FAR_BACK) -> dt.datetime:
    """Return the moment that `7d` or `2026-02-15` stands for; raise `ValueError` for anything else."""
    try:
        return _with_zone(dt.datetime.fromisoformat(text.strip()))
    except ValueError:
        return now - age_of(text, most)


def parse_since(text: str, most: dt.timedelta = FAR_BACK) -> dt.datetime:
    """Return the moment that `--since` names; raise `UsageError` for anything else."""
    try:
        return since_of(text, dt.datetime.now(dt.UTC), most)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since: {error}", hint="Write --since 7d, --since 24h or --since 2026-02-15") from None


def moment(value: Json) -> dt.datetime | None:
    """Return the time in an ISO text; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        return _with_zone(dt.datetime.fromisoformat(value))
    except ValueError:
        return None


def _with_zone(time: dt.datetime) -> dt.datetime:
    if time.tzinfo:
        return time
    return time.replace(tzinfo=dt.UTC)
