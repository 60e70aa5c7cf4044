"""The shape of `retention` in a configuration, and the policy that it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from replaykit.cases.document import Path
from replaykit.cases.shape import Either, Flag, Flaw, MapOf, Number, Record, Shape, Text
from replaykit.model.values import Json
from replaykit.retention.amounts import bytes_of, seconds_of
from replaykit.retention.policy import Limits, Policy, Rule

_MOST_DAYS = 365_000
_MOST = 2**53  # what every JSON reader keeps exactly

_DURATION = Either((Number(above=-1, at_most=_MOST_DAYS), Text("a duration such as `14 days`", check=seconds_of)))
_COUNT = Number(above=-1, at_most=_MOST, whole=True)
_SIZE = Either((Number(above=-1, at_most=_MOST, whole=True), Text("a size such as `500 MB`", check=bytes_of)))

_TERMS: dict[str, Shape] = {"successful": _DURATION, "failed": _DURATION, "max_runs": _COUNT, "max_size": _SIZE}
_NOTES = {
    "successful": "How long successful runs stay: 14 days unless said. A number is one of days; or forever.",
    "failed": "How long all others stay: 90 days unless said.",
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
        "sample": Number(above=-1, at_most=1),
        "auto": Flag(),
    },
    notes={
        **_NOTES,
        "tags": "What holds for runs with a tag instead: a duration, or these four keys again.",
        "agents": "What holds for runs of an agent, where no tag of theirs is named.",
        "threads": "How long threads of LangGraph stay after their last step: forever unless said.",
        "sample": "The share of successful runs that `replaykit record` keeps: all of them unless said.",
        "auto": "Recordings prune by these rules, at most once a day.",
    },
    cross=lambda value: _below_zero(value, ()),
)


def policy_of(value: dict[str, Json]) -> Policy:
    """The policy that a value of this shape says."""
    given = _said(value, successful="successful_s", failed="failed_s", threads="threads_s")
    return Policy(
        **given,
        limits=_limits(value),
        tags={tag: _rule(rule) for tag, rule in value.get("tags", {}).items()},
        agents={agent: _rule(rule) for agent, rule in value.get("agents", {}).items()},
        sample=value.get("sample", 1.0),
        auto=value.get("auto", False),
    )


def _rule(value: Json) -> Rule:
    if not isinstance(value, dict):
        return Rule(successful_s=seconds_of(value), failed_s=seconds_of(value))
    return Rule(**_said(value, successful="successful_s", failed="failed_s"), limits=_limits(value))


def _limits(value: dict[str, Json]) -> Limits:
    size = value.get("max_size")
    return Limits(max_runs=value.get("max_runs"), max_bytes=None if size is None else bytes_of(size))


def _said(value: dict[str, Json], **names: str) -> dict[str, Any]:
    read: Callable[[Any], float] = seconds_of
    return {name: read(value[key]) for key, name in names.items() if key in value}


def _below_zero(value: Json, path: Path) -> Iterator[Flaw]:
    """`Number` says "above", so that fractions between its bound and 0 come through."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _below_zero(inner, (*path, key))
    elif isinstance(value, float) and -1 < value < 0:
        yield Flaw(path, "bad-value", f"retention.{'.'.join(map(str, path))}: {value:g} is below 0")
