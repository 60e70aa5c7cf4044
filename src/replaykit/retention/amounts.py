"""Durations and sizes as people write them: `14 days`, `forever`, `2 GB`; and as they are told."""

from __future__ import annotations

import re

from replaykit.errors import nearest
from replaykit.retention.policy import DAY_S, FOREVER

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_DURATIONS = {"minute": 60.0, "hour": 3600.0, "day": DAY_S, "week": 7 * DAY_S}
_SIZES = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


def seconds_of(said: str | float) -> float:
    """A duration in seconds; a bare number is one of days. A ValueError when it is none."""
    if not isinstance(said, str):
        return said * DAY_S
    if said.strip() == "forever":
        return FOREVER
    number, unit = _split(said, "a duration such as `14 days` or `forever`")
    if unit.removesuffix("s") not in _DURATIONS:
        raise ValueError(f"no unit {unit!r} of time; {nearest(unit, [f'{name}s' for name in _DURATIONS])}")
    return number * _DURATIONS[unit.removesuffix("s")]


def bytes_of(said: str | int) -> int:
    """A size in bytes; a ValueError when it is none."""
    if not isinstance(said, str):
        return said
    number, unit = _split(said, "a size such as `500 MB`")
    known = {name.lower(): size for name, size in _SIZES.items()}
    if unit.lower() not in known:
        raise ValueError(f"no unit {unit!r} of size; {nearest(unit, _SIZES)}")
    return int(number * known[unit.lower()])


def _split(said: str, expected: str) -> tuple[float, str]:
    found = _AMOUNT.fullmatch(said)
    if found is None:
        raise ValueError(f"expected {expected}, got {said[:40]!r}")
    return float(found[1]), found[2]


def shown_bytes(count: float) -> str:
    """A size for people: `1.4 MB`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def shown_duration(seconds: float) -> str:
    """A duration for people: `14 days`."""
    if seconds == FOREVER:
        return "forever"
    for unit, size in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= size:
            number = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{number} {unit}" if number == "1" else f"{number} {unit}s"
    return "0 days" if not seconds else f"{seconds:.2f} seconds"
