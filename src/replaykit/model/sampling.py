"""Sampling: which of an agent's states its log stores.

A state that is not stored is never silently replaced by the one before it: the log says that it existed. The last state
of a run is always stored, so the log shows how the run ended.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from replaykit.errors import UsageError
from replaykit.model.changes import Cleaning, StateFold
from replaykit.model.events import Change
from replaykit.model.values import ABSENT, Json, Raw

Written: TypeAlias = tuple[Raw, Change | None]
"""A state as it is logged: whole, as a change from the last stored one, or (with neither) left out."""

NOT_KEPT: Written = (ABSENT, None)


class Sampling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which states are stored."""

    every: Annotated[int, Meta(ge=1)] = 1
    """Store the first state and every n-th after it."""
    on_change: bool = False
    """Store only states that differ from the one before; the log does not mention the others."""


EVERY_STATE = Sampling()


def sampling(every: int, on_change: bool, *, name: str) -> Sampling:
    """Return the sampling for these options; raise `UsageError` with the option's `name` if they are invalid."""
    if type(every) is not int or every < 1:
        raise UsageError(f"{name}={every!r}: a whole number from 1 on (1 keeps every state)")
    if type(on_change) is not bool:
        raise UsageError(f"{name.removesuffix('every')}on_change={on_change!r}: True or False")
    if every > 1 or on_change:
        return Sampling(every=every, on_change=on_change)
    return EVERY_STATE


class StateLog:
    """Logs the states of one run, sampled."""

    def __init__(self, rules: Sampling = EVERY_STATE, cleaning: Cleaning | None = None) -> None:
        self._rules = rules
        self._cleaning = cleaning
        self._count = 0
        self._kept_last = True
        self.lost()

    def lost(self) -> None:
        """Note that the last state did not reach the log, so that the next one is written whole."""
        self._stored_fold = StateFold(cleaning=self._cleaning)  # the last stored state
        is_sampled = self._rules.every > 1
        self._seen = StateFold(cleaning=self._cleaning) if is_sampled else self._stored_fold  # the last state
        self._empty = True
        self._whole_next = False

    def go_on_from(self, state: Json) -> None:
        """Start from a state that is stored in another log."""
        self._seen.advance(state)
        self._empty, self._whole_next = False, True

    def next(self, state: Json, *, only_on_change: bool = False) -> Written | None:
        """Return how to log the agent's next state; None to log nothing."""
        written = self._seen.advance(state)
        if (only_on_change or self._rules.on_change) and self._seen.same and not self._empty:
            return None
        self._empty = False
        self._kept_last = self._count % self._rules.every == 0
        self._count += 1
        if not self._kept_last:
            return NOT_KEPT
        if self._stored_fold is not self._seen:
            written = self._stored_fold.advance(state)
        return self._as_written(written)

    def last(self) -> Written | None:
        """Return how to log the last state after all; None if it is already logged."""
        if self._kept_last or self._empty:
            return None
        self._kept_last = True
        return self._as_written(self._stored_fold.catch_up(self._seen))

    def _as_written(self, written: Written) -> Written:
        if not self._whole_next:
            return written
        self._whole_next = False
        return Raw(self._stored_fold.text), None
