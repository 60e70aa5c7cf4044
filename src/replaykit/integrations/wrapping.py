"""Helpers for adapters that wrap a tool: its arguments by name, and the effects of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from replaykit.errors import Unreplayable, UsageError, nearest
from replaykit.model.values import is_plain
from replaykit.seam.results import rebuilt
from replaykit.seam.tool import EFFECTS


def arguments_by_name(names: Iterable[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a call by name; None if Python will refuse them anyway."""
    if not args:
        return dict(kwargs)
    known = tuple(names)
    if len(args) > len(known) or not kwargs.keys().isdisjoint(known[: len(args)]):
        return None
    return {**dict(zip(known, args, strict=False)), **kwargs}


def effect_of(name: str, effects: Mapping[str, str] | None) -> str:
    """Return the effect of this tool's calls; default: `external`."""
    effect = (effects or {}).get(name, "external")
    if effect not in EFFECTS:
        raise UsageError(f"effects[{name!r}]={effect!r}; {nearest(str(effect), EFFECTS)}")
    return effect


def checked_effects(effects: Mapping[str, str] | None) -> dict[str, str]:
    """Validate all of `effects`, for adapters that see a tool only when it is called."""
    return {name: effect_of(name, effects) for name in effects or {}}


def reads_the_same(result: Any, fn: Callable[..., Any]) -> bool:
    """True if a replay rebuilds a result, by the function's return annotation, whose text is the same.

    A framework that sends the model `str(result)` would otherwise send another text for an unannotated object.
    """
    if is_plain(result):
        return True
    try:
        return str(rebuilt(result, fn)) == str(result)
    except Unreplayable:
        return False
