"""Choose the take that a candidate fits: the case's default first, then the others, newest first.

An agent that still has the failure fits the recorded take and is judged there. One with a changed prompt asks what only
a later take can answer. Which take it is says nothing about the verdict: all are judged by the same signatures and
assertions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from replaykit.cases.case import RECORDED, ReplayCase
from replaykit.cases.takes import check_take, read_takes
from replaykit.checks.verdict import first_with
from replaykit.model.result import Effect, ReplayResult
from replaykit.runners.worlds import with_take

ReplayTake = Callable[[ReplayCase, Path], ReplayResult]
"""Replays a case with the one take it names, leaving files in a directory."""


def replay_takes(case: ReplayCase, workspace: Path, replay_take: ReplayTake) -> ReplayResult:
    """Return the result for the first take that the candidate does not leave; if there is none, for the default."""
    names = take_order(case)
    if names == [RECORDED]:
        return replay_take(case, workspace)
    chosen, chosen_place = None, workspace
    for name in names:
        place = workspace / f"take-{name}"
        place.mkdir()
        result = replay_take(with_take(case, name, only=True), place)
        result = msgspec.structs.replace(result, take=name)
        is_fitting = first_with(Effect.DIVERGED, result.deviations) is None
        if chosen is None or is_fitting:
            chosen, chosen_place = result, place
        if is_fitting:
            break
    assert chosen is not None, "a case has at least one take"
    _move_up(chosen_place)
    return chosen


def take_order(case: ReplayCase) -> list[str]:
    """Return the names of the takes to try, in order; a `UsageError` for one that the case does not have."""
    default = case.scenario.take
    if default != RECORDED:
        check_take(case, default)
    if case.scenario.is_only_take:
        return [default]
    others = [take.name for take in read_takes(case)]
    return list(dict.fromkeys([default, *others, RECORDED]))


def _move_up(place: Path) -> None:
    """Put the files of the take that counts where the files of a replay are looked for."""
    for entry in place.iterdir():
        entry.rename(place.parent / entry.name)
    place.rmdir()
