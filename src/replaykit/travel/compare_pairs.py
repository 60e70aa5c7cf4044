"""Which event of one run is which event of the other.

Two events are the same when kind, name and arguments are. Of those the longest common sequence is found (`align`);
what is left over and equal was moved; what is left over in the same place and of the same name was changed.

Runs are aligned as they were logged, or (where that finds more, or more with the same answer) by cause: each task and
thread on its own, for the order in which a scheduler took turns between them says nothing about the agent.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, LlmCall, Message, Note, State
from replaykit.model.run import TraceRun
from replaykit.travel.align import Gap, Pair, align, gaps

Key: TypeAlias = tuple[Any, ...]

_TASK = re.compile(r".*/~[^/]*")
_ALONE_A, _ALONE_B = -1, -2  # the keys of what is not to be paired


class Pairs(Struct, frozen=True):
    """Positions in the events of two runs that belong together."""

    in_order: list[Pair]
    moved: list[Pair]
    mirrored: bool = False
    """True when they were found from the second run's side, so that ties are decided alike either way round."""


class Side(Struct, frozen=True):
    """The events of one run that are aligned, as keys: equal numbers on both sides are equal keys."""

    places: list[int]
    """Where in the run each event is."""
    requests: list[int]
    """What was asked: kind, name and arguments."""
    answers: list[int]
    """What was asked and what came of it."""
    sorts: list[int]
    """What sort of event it is: kind and name, but any model."""
    names: list[int]
    """Kind and name."""

    def ordered(self, order: list[int]) -> Side:
        """The same events in another order."""
        return Side(*([values[n] for n in order] for values in msgspec.structs.astuple(self)))


def pair_events(a: TraceRun, b: TraceRun) -> Pairs:
    """Which events of the two runs belong together; the same pairs whichever run comes first."""
    ids: dict[Key, int] = {}
    keys_a, keys_b = [answer_key(event) for event in a.events], [answer_key(event) for event in b.events]
    side_a, side_b = _side(a.events, keys_a, ids), _side(b.events, keys_b, ids)
    if keys_a > keys_b:  # one direction for both questions, so that ties are decided alike
        found = _pair(side_b, _causal(b), side_a, _causal(a))
        in_order, moved = ([(i, j) for j, i in pairs] for pairs in (found.in_order, found.moved))
        return Pairs(in_order, moved, mirrored=True)
    return _pair(side_a, _causal(a), side_b, _causal(b))


def takes_part(event: AnyEvent) -> bool:
    """True for what one run can have and the other not; states are compared where the runs are side by side."""
    return not isinstance(event, State | Note)


def request_key(event: AnyEvent) -> Key:
    """What has to agree for two events to be the same one."""
    if isinstance(event, Call):
        return (event.kind, event.name, bytes(event.arguments_json))
    if isinstance(event, Message):
        return ("message", event.role, bytes(event.content_json))
    if isinstance(event, Decision):
        return ("decision", "", bytes(event.content_json))
    if isinstance(event, State):
        return ("state", event.step or "", b"")
    return ("error" if isinstance(event, ErrorEvent) else "", "", b"")


def answer_key(event: AnyEvent) -> Key:
    """The event without what is different in every run: numbers, times, traceback."""
    if isinstance(event, Call):
        items = tuple(map(bytes, event.items_json or ()))
        reason = event.finish_reason or "" if isinstance(event, LlmCall) else ""
        outcome = (bytes(event.result_json), _error_key(event.error), items, event.complete, reason)
        return (*request_key(event), outcome)
    if isinstance(event, ErrorEvent):
        return ("error", "", b"", (_error_key(event.error),))
    return (*request_key(event), ())


def _error_key(error: ErrorInfo | None) -> tuple[str | bytes, ...]:
    if error is None:
        return ()
    return (error.type, error.message, bytes(error.args_json), bytes(error.attributes_json))


def _side(events: Sequence[AnyEvent], keys: list[Key], ids: dict[Key, int]) -> Side:
    """The events that are aligned."""
    side = Side([], [], [], [], [])
    for place, (event, key) in enumerate(zip(events, keys, strict=True)):
        if not takes_part(event):
            continue
        side.places.append(place)
        side.requests.append(ids.setdefault(key[:3], len(ids)))
        side.answers.append(ids.setdefault(key, len(ids)))
        side.sorts.append(ids.setdefault(key[:1] if isinstance(event, LlmCall) else key[:2], len(ids)))
        side.names.append(ids.setdefault(key[:2], len(ids)))
    return side


def _causal(run: TraceRun) -> list[int]:
    """The order of the aligned events by cause: what the agent itself does, then task by task."""
    lanes = [_lane(event) for event in run.events if takes_part(event)]
    return sorted(range(len(lanes)), key=lanes.__getitem__)


def _lane(event: AnyEvent) -> tuple[tuple[str, int], ...]:
    """The task or thread an event happened in, by names and numbers from the outermost to its own."""
    task = _TASK.match(event.path)
    if task is None:
        return ()
    parts = (part.rpartition("#") for part in task[0].split("/")[1:])
    return tuple((name or number, int(number) if number.isdecimal() else 0) for name, _, number in parts)


def _pair(a: Side, causal_a: list[int], b: Side, causal_b: list[int]) -> Pairs:
    a, b, pairs = _aligned(a, causal_a, b, causal_b)
    moved = _moved(a, b, pairs)
    pairs = sorted(pairs + _changed(a, b, pairs, moved))
    in_order, apart = ([(a.places[i], b.places[j]) for i, j in found] for found in (pairs, moved))
    return Pairs(in_order, apart)


def _aligned(a: Side, causal_a: list[int], b: Side, causal_b: list[int]) -> tuple[Side, Side, list[Pair]]:
    """The sides in the order in which they have most in common, and what that is."""
    pairs = align(a.requests, b.requests, a.answers, b.answers)
    as_logged = all(order == list(range(len(order))) for order in (causal_a, causal_b))
    most = min(len(a.requests), len(b.requests))
    found = _common(a, b, pairs)
    if as_logged or found == (most, most):
        return a, b, pairs
    by_cause_a, by_cause_b = a.ordered(causal_a), b.ordered(causal_b)
    more = align(by_cause_a.requests, by_cause_b.requests, by_cause_a.answers, by_cause_b.answers)
    return (by_cause_a, by_cause_b, more) if _common(by_cause_a, by_cause_b, more) > found else (a, b, pairs)


def _common(a: Side, b: Side, pairs: list[Pair]) -> tuple[int, int]:
    """How many events are paired, and how many of these with the same answer."""
    return len(pairs), sum(a.answers[i] == b.answers[j] for i, j in pairs)


def _moved(a: Side, b: Side, pairs: list[Pair]) -> list[Pair]:
    """Of what has no partner in order: what is equal, outcomes included where that is possible."""
    taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
    moved: list[Pair] = []
    for keys_a, keys_b in ((a.answers, b.answers), (a.requests, b.requests)):
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for i, key in enumerate(keys_a):
            if i not in taken_a:
                waiting[key].append(i)
        for j, key in enumerate(keys_b):
            if j not in taken_b and waiting.get(key):
                moved.append((waiting[key].popleft(), j))
        taken_a.update(i for i, _ in moved)
        taken_b.update(j for _, j in moved)
    return sorted(moved)


def _changed(a: Side, b: Side, pairs: list[Pair], moved: list[Pair]) -> list[Pair]:
    """Of what is left over between the pairs: events of the same sort, in order."""
    sorts_a, sorts_b, names_a, names_b = list(a.sorts), list(b.sorts), list(a.names), list(b.names)
    for i, j in moved:
        sorts_a[i] = names_a[i] = _ALONE_A
        sorts_b[j] = names_b[j] = _ALONE_B
    between = gaps(pairs, Gap(0, len(sorts_a), 0, len(sorts_b)))
    return align(sorts_a, sorts_b, names_a, names_b, within=between)
