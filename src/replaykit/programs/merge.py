"""Merge the logs of a program's processes into one run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from replaykit.handlers.recording.interrupted import STOPPED, with_reason
from replaykit.handlers.replay.keys import as_pending
from replaykit.handlers.replay.tape import Matcher, Tape, is_refused
from replaykit.handlers.replay.world import World
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Call, CallSpan, Change, Note, State, ToolCall
from replaykit.model.matching import MatchMode, ToolMode
from replaykit.model.result import DEVIATION, Deviation
from replaykit.model.run import Chance, RunHeader, TraceRun
from replaykit.model.unrecorded import Unrecorded, UnrecordedKind, unrecorded_in, with_count_added
from replaykit.model.values import Json, Raw, read_members
from replaykit.programs.own_servers import OWN_PORT, is_internal_request, is_own_address
from replaykit.programs.process_log import MAIN, deviations_of, path_segment, process_logs_prefix, recorded_calls
from replaykit.seam.scope import PendingCall
from replaykit.seam.unrecorded import PASSED
from replaykit.store.protocol import Store

_LONGEST_S = 86_400.0  # how long a run may take on a clock that was held


def own_ports(logs: Iterable[TraceRun]) -> set[Json]:
    """Return the ports on which processes found servers of their own program."""
    ports = set()
    for log in logs:
        for event in log.events:
            if isinstance(event, Note) and event.name == OWN_PORT:
                ports.add(event.content)
    return ports


def load_process_logs(store: Store, run_id: str) -> list[TraceRun]:
    """Return the process logs of a run, the earliest first."""
    headers = store.headers(below=process_logs_prefix(run_id))
    return [store.load(header.id) for header in sorted(headers, key=lambda header: header.started_at)]


def merge_runs(header: RunHeader, logs: Sequence[TraceRun]) -> TraceRun:
    """One run of all parts: events in the order they began, numbered anew, each process under its own path."""
    own = own_ports(logs)
    placed: list[tuple[int, AnyEvent]] = []
    for order, log in enumerate(logs):
        for event in log.events:
            if not _is_process_note(event) and not is_internal_request(event, own):
                placed.append((order, event))
    # Clocks are coarse: events of one moment stay in the order of their process, and processes in the order they began.
    placed.sort(key=lambda item: (item[1].at, item[0], item[1].seq))
    placed = _deduplicate_unrecorded(placed, logs, own)
    numbers = {(order, event.seq): number for number, (order, event) in enumerate(placed)}
    events: list[AnyEvent] = []
    for order, event in placed:
        parent = None if event.parent is None else numbers.get((order, event.parent))
        path = path_segment(logs[order].name) + event.path
        events.append(replace(event, seq=len(events), parent=parent, path=path))
    orders = [order for order, _ in placed]
    events = _renumber_spans(events, [logs[order].started_at - header.started_at for order in orders])
    # With states of one process alone, each is a change from the one before already.
    if sum(any(isinstance(event, State) for event in log.events) for log in logs) > 1:
        events = _refold_states(events, orders)
    stopped = next((log.metadata[STOPPED] for log in logs if STOPPED in log.metadata), "")
    if stopped:
        header = with_reason(header, stopped)
    header = replace(header, event_count=len(events), chance=_chance_of(header, logs))
    return TraceRun.of(header, tuple(events))


def _deduplicate_unrecorded(
    placed: list[tuple[int, AnyEvent]], logs: Sequence[TraceRun], own: Collection[Json]
) -> list[tuple[int, AnyEvent]]:
    """The same events, in which each thing that was not recorded is noted once with all its times. Left out is what
    turned out to be the program's own, or that of a tool, whose call is recorded as a whole."""
    of_tools = [_was_started_by_tool(log, logs) for log in logs]
    found: list[tuple[int, AnyEvent]] = []
    first: dict[tuple[str, str, str], tuple[int, Unrecorded]] = {}
    for order, event in placed:
        effect = unrecorded_in(event)
        if effect is None:
            found.append((order, event))
            continue
        is_connection = effect.kind is UnrecordedKind.CONNECTION
        if of_tools[order] or (is_connection and is_own_address(effect.address or effect.place, own)):
            continue
        if effect.key in first:
            index, before = first[effect.key]
            first[effect.key] = index, with_count_added(before, effect.count)
        else:
            first[effect.key] = len(found), effect
            found.append((order, event))
    for index, effect in first.values():
        order, event = found[index]
        found[index] = order, replace(event, content_json=effect.content)
    return found


def _was_started_by_tool(log: TraceRun, logs: Sequence[TraceRun]) -> bool:
    """Return True for a process that began during a tool call of another one: presumably, the tool started it."""
    tools = (call for other in logs if other is not log for call in other.events if isinstance(call, ToolCall))
    return log.name != MAIN and any(call.at <= log.started_at <= call.at + call.duration_s for call in tools)


def _chance_of(header: RunHeader, logs: Sequence[TraceRun]) -> Chance:
    """Return the run's facts about randomness, with its processes' unpinned draws and the longest delays."""
    chances = [header.chance, *(log.chance for log in logs)]
    merged = replace(
        header.chance,
        not_held=tuple(sorted(set().union(*(chance.not_held for chance in chances)))),
        held_up_s=max(chance.held_up_s for chance in chances),
        after_calls_s=max(chance.after_calls_s for chance in chances),
    )
    # The very object where nothing differs: a default is recognised by identity, and not written.
    return header.chance if merged == header.chance else merged


def merge_in_store(
    store: Store,
    header: RunHeader,
    finish: Callable[[TraceRun], TraceRun] = lambda run: run,
    unrecorded: Callable[[Sequence[TraceRun]], Sequence[Note]] = lambda logs: (),
) -> TraceRun:
    """Replace the process logs of a run by the merged run, in one transaction: a kill never leaves half of it.

    `unrecorded` returns notes about what was observed from outside, and is in none of the logs.
    """
    with store.exclusive():
        logs = load_process_logs(store, header.id)
        notes = unrecorded(logs)
        if notes:
            logs.append(store.cleaned(TraceRun.of(replace(header, name=MAIN), tuple(notes))))
        run = finish(merge_runs(header, logs))
        # What it printed has been through no door yet; its events have, when they were written.
        run = TraceRun.of(store.cleaned(TraceRun.of(run.header, ())).header, run.events)
        store.delete([log.id for log in logs])
        store.replace([run])
    return run


def all_deviations(logs: Iterable[TraceRun], run: TraceRun, world: World) -> list[Deviation]:
    """Return where the processes left the tape, and the recorded calls that none of them made."""
    deviations = list(chain.from_iterable(map(deviations_of, logs)))
    for name in _unused_names(run, world):
        deviations.append(Deviation(kind="unused", name=name, text=f"`{name}` was not called"))
    return deviations


def _unused_names(run: TraceRun, world: World) -> list[str]:
    """The names of recorded calls that no process made. A process that was killed cannot tell which it was served, so
    it is told from what they did."""
    mode = world.rules.mode if world.rules.mode is MatchMode.SEQUENCE else MatchMode.CAUSAL
    tape = Tape(recorded_calls(world), started_at=world.pins.started_at)
    matcher = Matcher.of(tape, replace(world.rules, mode=mode))
    for event in run.calls:
        if is_refused(event):
            continue
        pending = as_pending(event)
        if matcher.take(pending) is None:
            _take_by_other_key(matcher, pending, world, run)
    names = []
    for index in matcher.unused():
        call = matcher.calls[index]
        if world.mode_of(call) is ToolMode.RECORDED:
            names.append(call.name)
    return names


def _take_by_other_key(matcher: Matcher, pending: PendingCall, world: World, run: TraceRun) -> None:
    """Take the recorded call that differs only in placeholders of another key, or in the current time: by the clock
    that was held, or the real one."""
    started_at = world.pins.started_at
    if matcher.take_by_kind(pending, written=True) is not None:
        return
    if matcher.take_as_now(pending, started_at, started_at + _LONGEST_S) is None:
        matcher.take_as_now(pending, run.started_at, pending.at)


def _is_process_note(event: AnyEvent) -> bool:
    """True for a note about one process that does not belong in the run."""
    return isinstance(event, Note) and event.name in (DEVIATION, OWN_PORT, PASSED)


def _renumber_spans(events: list[AnyEvent], delays_s: list[float]) -> list[AnyEvent]:
    """Count the begins and ends of all processes together. `delays_s`: how much later than the run the process of each
    event began."""
    spans: dict[int, CallSpan] = {}
    for index, (event, delay_s) in enumerate(zip(events, delays_s, strict=True)):
        if isinstance(event, Call) and event.span is not None:
            spans[index] = _shift_span(event.span, delay_s)
    # All begins stand before all ends: where both are at the same moment, the sort below keeps them so.
    moments = [(span.begin_s, index, "begin") for index, span in spans.items()]
    moments += [(span.end_s, index, "end") for index, span in spans.items() if span.end_s is not None]
    for position, (_, index, side) in enumerate(sorted(moments, key=lambda moment: moment[0])):
        spans[index] = replace(spans[index], **{side: position})
    numbered = list(events)
    for index, span in spans.items():
        numbered[index] = replace(events[index], span=span)
    return numbered


def _shift_span(span: CallSpan, delay_s: float) -> CallSpan:
    return replace(
        span,
        begin_s=round(max(0.0, span.begin_s + delay_s), 6),
        end_s=None if span.end_s is None else round(max(0.0, span.end_s + delay_s), 6),
    )


def _refold_states(events: list[AnyEvent], orders: list[int]) -> list[AnyEvent]:
    """Re-encode states: each is a change from the last of its process, and becomes one from the last of the run."""
    folds: dict[int, StateFold] = {}
    whole = StateFold()
    found: list[AnyEvent] = []
    for order, event in zip(orders, events, strict=True):
        if isinstance(event, State) and event.is_kept:
            fold = folds.setdefault(order, StateFold())
            fold.apply(event)
            text, change = _advanced(whole, fold.text)
            found.append(replace(event, state_json=text, change=change))
        else:
            found.append(event)
    return found


def _advanced(fold: StateFold, text: bytes) -> tuple[Raw, Change | None]:
    try:
        return fold.advance_to_text(read_members(text))
    except msgspec.ValidationError:
        fold.apply(State(seq=0, state_json=Raw(text)))
        return Raw(text), None
