"""Arguments: when the arguments of a call are those that an assertion names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from replaykit.checks.compare import same, within
from replaykit.model.jsonpath import JsonPath, remove_paths
from replaykit.model.values import Json


class ArgsMode(StrEnum):
    """The relation of a call's arguments to the named ones; the word describes the call's."""

    EXACT = "exact"  # the same
    SUBSET = "subset"  # the call has none that are not named, and those it has are as named
    SUPERSET = "superset"  # the call has all that are named, and maybe more
    IGNORE = "ignore"  # whatever they are


def args_agree(
    actual: Json,
    named: Json,
    mode: ArgsMode,
    *,
    defaults: dict[str, Json] | None = None,
    ignore: Sequence[JsonPath] = (),
) -> bool:
    """True when a call's arguments agree with the named ones in this mode.

    `defaults` are what the tool takes where an argument is left out, on both sides; paths in `ignore` do not count.
    """
    if mode is ArgsMode.IGNORE:
        return True
    actual, named = (remove_paths(_filled(value, defaults), ignore) for value in (actual, named))
    if mode is ArgsMode.EXACT:
        return same(actual, named)
    if mode is ArgsMode.SUBSET:
        return within(actual, named)
    return within(named, actual)


def _filled(value: Json, defaults: dict[str, Json] | None) -> Json:
    if defaults and isinstance(value, dict):
        return {**defaults, **value}
    return value
