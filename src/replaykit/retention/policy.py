"""The retention policy: how long runs stay and how many, as a value and as `retention` in a configuration.

Durations and sizes are written as people write them: `14 days`, `forever`, `2 GB`.
"""

from __future__ import annotations

import re

from msgspec import Struct

from replaykit.documents.shape import FLAG, Either, MapOf, Number, Record, Shape, Text
from replaykit.errors import nearest
from replaykit.handlers.recording.sampling import KEEP as KEEP
from replaykit.model.values import Json, JsonObject

DAY_S = 86_400.0
FOREVER = float("inf")


class RetentionLimits(Struct, frozen=True, kw_only=True):
    """Limits on the number and the size of runs; the oldest go first, and successful ones before failed ones."""

    max_runs: int | None = None
    max_bytes: int | None = None


class RetentionRule(Struct, frozen=True, kw_only=True):
    """The retention of the runs of a tag or an agent."""

    successful_s: float | None = None
    """None: the policy for all runs applies."""
    failed_s: float | None = None
    limits: RetentionLimits = RetentionLimits()


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    """The retention policy of a project."""

    successful_s: float = 14 * DAY_S
    failed_s: float = 90 * DAY_S
    limits: RetentionLimits = RetentionLimits()
    """The limits on all runs together."""
    tags: dict[str, RetentionRule] = {}
    agents: dict[str, RetentionRule] = {}
    threads_s: float = FOREVER
    """Counted from the last event. A thread is the memory of an application, so it stays by default."""
    sample: float = 1.0
    """The share of successful runs that `replaykit record` keeps."""
    auto: bool = False
    """True if recordings prune, at most once a day."""


_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_DURATIONS = {"minute": 60.0, "hour": 3600.0, "day": DAY_S, "week": 7 * DAY_S}
_SIZES = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


def parse_duration(amount: str | float) -> float:
    """Parse a duration in seconds; a bare number counts days. Raise `ValueError` for anything else."""
    if not isinstance(amount, str):
        return amount * DAY_S
    if amount.strip() == "forever":
        return FOREVER
    number, unit = _split(amount, "a duration such as `14 days` or `forever`")
    if unit.removesuffix("s") not in _DURATIONS:
        raise ValueError(f"no unit {unit!r} of time; {nearest(unit, [f'{name}s' for name in _DURATIONS])}")
    return number * _DURATIONS[unit.removesuffix("s")]


def parse_size(amount: str | int) -> int:
    """Parse a size in bytes; raise `ValueError` for anything else."""
    if not isinstance(amount, str):
        return amount
    number, unit = _split(amount, "a size such as `500 MB`")
    known = {name.lower(): size for name, size in _SIZES.items()}
    if unit.lower() not in known:
        raise ValueError(f"no unit {unit!r} of size; {nearest(unit, _SIZES)}")
    return int(number * known[unit.lower()])


def _split(amount: str, expected: str) -> tuple[float, str]:
    match = _AMOUNT.fullmatch(amount)
    if match is None:
        raise ValueError(f"expected {expected}, got {amount[:40]!r}")
    return float(match[1]), match[2]


def shown_bytes(count: float) -> str:
    """Format a size for people: `1.4 MB`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def shown_duration(seconds: float) -> str:
    """Format a duration for people: `14 days`."""
    if seconds == FOREVER:
        return "forever"
    for unit, size in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= size:
            number = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{number} {unit}{'s' * (number != '1')}"
    if not seconds:
        return "0 days"
    return f"{seconds:.2f} seconds"


_MOST_DAYS = 365_000
_MOST = 2**53  # larger integers lose digits in some JSON readers

_DURATION = Either((Number(at_least=0, at_most=_MOST_DAYS), Text("a duration such as `14 days`", check=parse_duration)))
_COUNT = Number(at_least=0, at_most=_MOST, whole=True)
_SIZE = Either((Number(at_least=0, at_most=_MOST, whole=True), Text("a size such as `500 MB`", check=parse_size)))

_TERMS: dict[str, Shape] = {"successful": _DURATION, "failed": _DURATION, "max_runs": _COUNT, "max_size": _SIZE}
_NOTES = {
    "successful": "How long successful runs stay: 14 days by default. A number is one of days; or forever.",
    "failed": "How long all others stay: 90 days by default.",
    "max_runs": "How many runs stay; the oldest go first, and successful ones before failed ones.",
    "max_size": "How many bytes their logs may take.",
}
_RULE = Either((Record(_TERMS, notes=_NOTES), _DURATION))

RETENTION = Record(
    {
        **_TERMS,
        "tags": MapOf(_RULE),
        "agents": MapOf(_RULE),
        "threads": _DURATION,
        "sample": Number(at_least=0, at_most=1),
        "auto": FLAG,
    },
    notes={
        **_NOTES,
        "tags": "What holds for runs with a tag instead: a duration, or these four keys again.",
        "agents": "What holds for runs of an agent, where no tag of theirs is named.",
        "threads": "How long threads of LangGraph stay after their last step: forever by default.",
        "sample": "The share of successful runs that `replaykit record` keeps: all of them by default.",
        "auto": "Recordings prune by these rules, at most once a day.",
    },
)


def build_policy(value: JsonObject) -> RetentionPolicy:
    """Build the policy from a valid value."""
    return RetentionPolicy(
        **_durations(value, "successful", "failed", "threads"),
        limits=_limits(value),
        tags=_rules(value.get("tags", {})),
        agents=_rules(value.get("agents", {})),
        sample=value.get("sample", 1.0),
        auto=value.get("auto", False),
    )


def _rules(value: JsonObject) -> dict[str, RetentionRule]:
    return {name: _rule(rule) for name, rule in value.items()}


def _rule(value: Json) -> RetentionRule:
    if not isinstance(value, dict):
        return RetentionRule(successful_s=parse_duration(value), failed_s=parse_duration(value))
    return RetentionRule(**_durations(value, "successful", "failed"), limits=_limits(value))


def _limits(value: JsonObject) -> RetentionLimits:
    max_bytes = parse_size(value["max_size"]) if "max_size" in value else None
    return RetentionLimits(max_runs=value.get("max_runs"), max_bytes=max_bytes)


def _durations(value: JsonObject, *keys: str) -> dict[str, float]:
    """Return the durations under these keys in seconds, by field name."""
    return {f"{key}_s": parse_duration(value[key]) for key in keys if key in value}
