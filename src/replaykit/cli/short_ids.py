"""Short names for runs on a terminal: the beginning of an id, as every command takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from replaykit.errors import RunNotFound
from replaykit.terminal import is_terminal

if TYPE_CHECKING:
    from replaykit.store.protocol import Store

_SHORTEST = 8
"""Characters of an id that are shown at least."""


def shown_ids(store: Store, run_ids: Sequence[str]) -> dict[str, str]:
    """Return how each id is printed: short on a terminal, and whole for a program that reads it."""
    if is_terminal():
        return short_ids(store, run_ids)
    return {run_id: run_id for run_id in run_ids}


def short_ids(store: Store, run_ids: Sequence[str]) -> dict[str, str]:
    """Return a beginning of each id that names its run and no other."""
    shortened = {}
    ordered = sorted(set(run_ids))
    for before, run_id, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        length = 1 + max(_common_length(run_id, before), _common_length(run_id, after))
        shortened[run_id] = _if_unique(store, run_id[: max(length, _SHORTEST)], run_id)
    return shortened


def _common_length(one: str, other: str) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _if_unique(store: Store, beginning: str, run_id: str) -> str:
    """Return the beginning of an id, or the whole of it where another run in the store begins alike."""
    try:
        is_unique = store.header(beginning).id == run_id
    except RunNotFound:
        is_unique = False
    return beginning if is_unique else run_id
