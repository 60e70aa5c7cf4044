"""Choose the take that a candidate fits: the case's default first, then the others, newest first.

An agent that still has the failure fits the recorded take and is judged there. One with a changed prompt asks what only
a later take can answer. Which take it is says nothing about the verdict: all are judged by the same signatures and
assertions.

A candidate that left one take and asks nothing new on the next did not do the same twice: chance kept it from asking,
or a file or a variable that its first attempt left behind. Such a take does not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from replaykit.cases.case import RECORDED, ReplayCase
from replaykit.cases.takes import check_take, read_takes
from replaykit.checks.verdict import first_with
from replaykit.model.events import Call
from replaykit.model.matching import MatchMode
from replaykit.model.result import Effect, ReplayResult
from replaykit.runners.worlds import with_take, world_of

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
        if is_fitting and chosen is not None:
            is_fitting = _is_answered_anew(with_take(case, names[0], only=True), result)
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


def _is_answered_anew(first: ReplayCase, result: ReplayResult) -> bool:
    """True when a run was answered something that the take it left before does not hold."""
    answered = [] if result.run is None else _outcomes(result.run.calls)
    held = _outcomes(call for call in world_of(first).calls if isinstance(call, Call))
    if first.scenario.match.mode is MatchMode.STRICT:
        return answered != held[: len(answered)]
    return not Counter(answered) <= Counter(held)


def _outcomes(calls: Iterable[Call]) -> list[tuple[object, ...]]:
    """What the agent asked in each call, and what it was answered; the time and chance are not among them."""
    from replaykit.replayer.tape import is_refused  # noqa: PLC0415 (few candidates leave a take)
    from replaykit.seam.machine import MACHINE  # noqa: PLC0415

    outcomes: list[tuple[object, ...]] = []
    for call in calls:
        if call.name not in MACHINE and not is_refused(call):
            error = None if call.error is None else (call.error.type, call.error.message)
            items = tuple(map(bytes, call.items_json or ()))
            outcomes.append((call.kind, call.name, bytes(call.request_json), bytes(call.result_json), error, items))
    return outcomes


def _move_up(place: Path) -> None:
    """Put the files of the take that counts where the files of a replay are looked for."""
    for entry in place.iterdir():
        entry.rename(place.parent / entry.name)
    place.rmdir()
