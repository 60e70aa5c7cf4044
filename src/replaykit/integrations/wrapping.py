"""Helpers for adapters that wrap a tool: its arguments by name, and the effect of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from replaykit.errors import Unreplayable, UsageError, nearest
from replaykit.model.values import is_plain
from replaykit.seam.results import rebuilt
from replaykit.seam.tool import EFFECTS


def arguments_by_name(names: Iterable[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call by their names; None where Python itself will refuse them."""
    if not args:
        return dict(kwargs)
    known = tuple(names)
    if len(args) > len(known) or not kwargs.keys().isdisjoint(known[: len(args)]):
        return None
    return {**dict(zip(known, args, strict=False)), **kwargs}


def effect_of(name: str, effects: Mapping[str, str] | None) -> str:
    """Return the effect of a call of this tool from `effects`; `external` by default."""
    effect = (effects or {}).get(name, "external")
    if effect not in EFFECTS:
        raise UsageError(f"effects[{name!r}]={effect!r}; {nearest(str(effect), EFFECTS)}")
    return effect


def checked_effects(effects: Mapping[str, str] | None) -> dict[str, str]:
    """`effects`, every word in it known: for adapters that meet their tools only when these are called."""
    return {name: effect_of(name, effects) for name in effects or {}}


def reads_the_same(result: Any, fn: Callable[..., Any]) -> bool:
    """True when a replay makes of a recorded result, by the function's return annotation, what has the same text.

    Where a framework tells the model `str(result)`, objects that the annotation does not name would be told otherwise.
    """
    if is_plain(result):
        return True
    try:
        return str(rebuilt(result, fn)) == str(result)
    except Unreplayable:
        return False
