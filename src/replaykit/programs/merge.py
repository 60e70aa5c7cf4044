"""The parts of a program put together into one run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Call, Change, LlmCall, Note, Span, State, ToolCall
from replaykit.model.matching import MatchMode, ToolMode
from replaykit.model.result import DEVIATION, Deviation
from replaykit.model.run import Chance, RunHeader, TraceRun
from replaykit.model.unrecorded import Kind, Unrecorded, more_often, unrecorded_in
from replaykit.model.values import Json, Raw
from replaykit.programs.own import OWN, is_own_place, stays_within
from replaykit.programs.part import MAIN, deviations_of, parts_below, segment
from replaykit.recording.stopping import STOPPED, with_reason
from replaykit.replayer.keys import as_pending
from replaykit.replayer.tape import Matcher, Tape, is_refused
from replaykit.replayer.world import World
from replaykit.seam.scope import PendingCall
from replaykit.seam.unrecorded import PASSED
from replaykit.store.protocol import Store

_LONGEST_S = 86_400.0  # how long a run may take on a clock that was held


def parts_of(store: Store, run_id: str) -> list[TraceRun]:
    """The parts of a run, the earliest first."""
    headers = store.headers(below=parts_below(run_id))
    return [store.load(header.id) for header in sorted(headers, key=lambda header: header.started_at)]


def merged(header: RunHeader, parts: Sequence[TraceRun]) -> TraceRun:
    """One run of all parts: events in the order they began, numbered anew, each process under its own path."""
    own = {event.content for part in parts for event in part.events if isinstance(event, Note) and event.name == OWN}
    placed = [
        (order, event)
        for order, part in enumerate(parts)
        for event in part.events
        if not _is_of_the_part(event) and not stays_within(event, own)
    ]
    placed.sort(key=lambda item: (item[1].at, item[0], item[1].seq))
    placed = _once_unrecorded(placed, parts, own)
    numbers = {(order, event.seq): number for number, (order, event) in enumerate(placed)}
    events: list[AnyEvent] = [
        msgspec.structs.replace(
            event,
            seq=number,
            parent=None if event.parent is None else numbers.get((order, event.parent)),
            path=segment(parts[order].name) + event.path,
        )
        for number, (order, event) in enumerate(placed)
    ]
    orders = [order for order, _ in placed]
    events = _in_one_order(events, [parts[order].started_at - header.started_at for order in orders])
    if sum(any(isinstance(event, State) for event in part.events) for part in parts) > 1:
        events = _refolded(events, orders)
    stopped = next((part.metadata[STOPPED] for part in parts if STOPPED in part.metadata), "")
    header = with_reason(header, stopped)
    header = msgspec.structs.replace(header, event_count=len(events), chance=_chance_of(header, parts))
    return TraceRun.of(header, tuple(events))


def _once_unrecorded(
    placed: list[tuple[int, AnyEvent]], parts: Sequence[TraceRun], own: Collection[Json]
) -> list[tuple[int, AnyEvent]]:
    """The same events, in which each thing that was not recorded is noted once with all its times. Left out is what
    turned out to be the program's own, or that of a tool, whose call is recorded as a whole."""
    of_tools = [_was_started_by_tool(part, parts) for part in parts]
    found: list[tuple[int, AnyEvent]] = []
    first: dict[tuple[str, str, str], tuple[int, Unrecorded]] = {}
    for order, event in placed:
        one = unrecorded_in(event)
        if one is None:
            found.append((order, event))
        elif of_tools[order] or (one.kind is Kind.CONNECTION and is_own_place(one.address or one.place, own)):
            continue
        elif one.key in first:
            index, before = first[one.key]
            first[one.key] = index, more_often(before, one.count)
        else:
            first[one.key] = len(found), one
            found.append((order, event))
    for index, one in first.values():
        order, event = found[index]
        note = msgspec.structs.replace(event, content_json=one.content)
        found[index] = order, note
    return found


def _was_started_by_tool(part: TraceRun, parts: Sequence[TraceRun]) -> bool:
    """True for a process that began while another one was in a tool's call: as far as can be told, inside of it."""
    tools = (call for other in parts if other is not part for call in other.events if isinstance(call, ToolCall))
    return part.name != MAIN and any(call.at <= part.started_at <= call.at + call.duration_s for call in tools)


def _chance_of(header: RunHeader, parts: Sequence[TraceRun]) -> Chance:
    """What the run knows of its chance, and what its processes have drawn that nobody held."""
    not_held = {name for one in (header, *parts) for name in one.chance.not_held}
    if not_held == set(header.chance.not_held):
        return header.chance
    return msgspec.structs.replace(header.chance, not_held=tuple(sorted(not_held)))


def put_together(
    store: Store,
    header: RunHeader,
    finish: Callable[[TraceRun], TraceRun] = lambda run: run,
    unrecorded: Callable[[Sequence[TraceRun]], Sequence[Note]] = lambda parts: (),
) -> TraceRun:
    """Replace the parts of a run by the run that they make: all at once, so that no kill leaves half of it.

    `unrecorded` gives notes of what was seen from outside of the parts, and is in none of them.
    """
    with store.exclusive():
        parts = parts_of(store, header.id)
        notes = unrecorded(parts)
        if notes:
            parts.append(store.cleaned(TraceRun.of(msgspec.structs.replace(header, name=MAIN), tuple(notes))))
        run = finish(merged(header, parts))
        # What it printed has been through no door yet; its events have, when they were written.
        run = TraceRun.of(store.cleaned(TraceRun.of(run.header, ())).header, run.events)
        store.delete([part.id for part in parts])
        store.replace([run])
    return run


def all_deviations(parts: Iterable[TraceRun], run: TraceRun, world: World) -> list[Deviation]:
    """Where the parts left their tapes, and what of the tapes did not happen."""
    told = [deviation for part in parts for deviation in deviations_of(part)]
    unused = [Deviation(kind="unused", name=name, text=f"`{name}` was not called") for name in _left(run, world)]
    return [*told, *unused]


def _left(run: TraceRun, world: World) -> list[str]:
    """The names of recorded calls that no process made. A process that was killed cannot tell which it was served, so
    it is told from what they did."""
    mode = world.rules.mode if world.rules.mode is MatchMode.SEQUENCE else MatchMode.CAUSAL
    recorded = (call for call in world.calls if isinstance(call, Call))
    tape = Tape(recorded, started_at=world.pins.started_at)
    matcher = Matcher.of(tape, msgspec.structs.replace(world.rules, mode=mode))
    for event in run.calls:
        if is_refused(event):
            continue
        made = as_pending(event)
        if matcher.take(made) is None:
            _take_otherwise(matcher, made, world, run)
    calls = (matcher.calls[index] for index in matcher.unused())
    return [call.name for call in calls if _mode(world, call) is ToolMode.RECORDED]


def _take_otherwise(matcher: Matcher, made: PendingCall, world: World, run: TraceRun) -> None:
    """Take the recorded call that differs only in placeholders of another key, or in the current time: by the clock
    that was held, or the real one."""
    held = world.pins.started_at
    if matcher.take_by_kind(made, written=True) is not None:
        return
    if matcher.take_as_now(made, held, held + _LONGEST_S) is None:
        matcher.take_as_now(made, run.started_at, made.at)


def _mode(world: World, call: Call) -> ToolMode:
    if isinstance(call, LlmCall):
        return world.models
    return world.tools.get(call.name, world.tools.get("*", ToolMode.RECORDED))


def _is_of_the_part(event: AnyEvent) -> bool:
    """True for what is said of a process, and is no part of the run."""
    return isinstance(event, Note) and event.name in (DEVIATION, OWN, PASSED)


def _in_one_order(events: list[AnyEvent], delays_s: list[float]) -> list[AnyEvent]:
    """Count the begins and ends of all processes together. `delays_s`: how much later than the run the process of each
    event began."""
    spans = {
        index: _later(event.span, delay_s)
        for index, (event, delay_s) in enumerate(zip(events, delays_s, strict=True))
        if isinstance(event, Call) and event.span is not None
    }
    moments = [(span.begin_s, index, "begin") for index, span in spans.items()]
    moments += [(span.end_s, index, "end") for index, span in spans.items() if span.end_s is not None]
    for position, (_, index, side) in enumerate(sorted(moments, key=lambda moment: moment[0])):
        spans[index] = msgspec.structs.replace(spans[index], **{side: position})
    return [
        msgspec.structs.replace(event, span=spans[index]) if index in spans else event
        for index, event in enumerate(events)
    ]


def _later(span: Span, delay_s: float) -> Span:
    return msgspec.structs.replace(
        span,
        begin_s=round(max(0.0, span.begin_s + delay_s), 6),
        end_s=None if span.end_s is None else round(max(0.0, span.end_s + delay_s), 6),
    )


def _refolded(events: list[AnyEvent], orders: list[int]) -> list[AnyEvent]:
    """States of several processes, each of which was a change of its own process's last, as changes of each other."""
    folds: dict[int, StateFold] = {}
    whole = StateFold()
    found: list[AnyEvent] = []
    for order, event in zip(orders, events, strict=True):
        if isinstance(event, State) and event.kept:
            fold = folds.setdefault(order, StateFold())
            fold.apply(event)
            text, change = _advanced(whole, fold.text)
            found.append(msgspec.structs.replace(event, state_json=text, change=change))
        else:
            found.append(event)
    return found


def _advanced(fold: StateFold, text: bytes) -> tuple[Raw, Change | None]:
    try:
        return fold.advance_to_text(msgspec.json.decode(text, type=dict[str, Raw]))
    except msgspec.ValidationError:
        fold.apply(State(seq=0, state_json=Raw(text)))
        return Raw(text), None
