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

_LONGEST_S = 86_400.0  # the longest run on a pinned clock


def own_ports(logs: Iterable[TraceRun]) -> set[Json]:
    """Return the ports on which processes found servers of their own program."""
    ports = set()
    for log in logs:
        for event in log.events:
            if isinstance(event, Note) and event.name == OWN_PORT:
                ports.add(event.content)
    return ports


def load_process_logs(store: Store, run_id: str) -> list[TraceRun]:
    """Return the process logs of a run, earliest first."""
    headers = store.headers(below=process_logs_prefix(run_id))
    return [store.load(header.id) for header in sorted(headers, key=lambda header: header.started_at)]


def merge_runs(header: RunHeader, logs: Sequence[TraceRun]) -> TraceRun:
    """Merge all logs: events in the order of their begins, renumbered, each process under its own path."""
    own = own_ports(logs)
    placed: list[tuple[int, AnyEvent]] = []
    for order, log in enumerate(logs):
        for event in log.events:
            if not _is_process_note(event) and not is_internal_request(event, own):
                placed.append((order, event))
    # Clocks are coarse: at the same moment, earlier processes come first, each with its events in their own order.
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
    # If only one process has states, each is already a change from the one before.
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
    """Keep one note for each unrecorded effect, with the count of all. Effects inside the program, and those of tools,
    whose calls are recorded as a whole, are dropped."""
    of_tools = [_was_started_by_tool(log, logs) for log in logs]
    kept_events: list[tuple[int, AnyEvent]] = []
    first: dict[tuple[str, str, str], tuple[int, Unrecorded]] = {}
    for order, event in placed:
        effect = unrecorded_in(event)
        if effect is None:
            kept_events.append((order, event))
            continue
        is_connection = effect.kind is UnrecordedKind.CONNECTION
        if of_tools[order] or (is_connection and is_own_address(effect.address or effect.place, own)):
            continue
        if effect.key in first:
            index, before = first[effect.key]
            first[effect.key] = index, with_count_added(before, effect.count)
        else:
            first[effect.key] = len(kept_events), effect
            kept_events.append((order, event))
    for index, effect in first.values():
        order, event = kept_events[index]
        kept_events[index] = order, replace(event, content_json=effect.content)
    return kept_events


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
    # The same object if nothing differs: encoding recognises a default by identity.
    return header.chance if merged == header.chance else merged


def merge_in_store(
    store: Store,
    header: RunHeader,
    finish: Callable[[TraceRun], TraceRun] = lambda run: run,
    unrecorded: Callable[[Sequence[TraceRun]], Sequence[Note]] = lambda logs: (),
) -> TraceRun:
    """Replace the process logs of a run by the merged run, in one transaction: a kill never leaves half of it.

    `unrecorded` returns notes on effects that were observed from outside, and are in none of the logs.
    """
    with store.exclusive():
        logs = load_process_logs(store, header.id)
        notes = unrecorded(logs)
        if notes:
            logs.append(store.cleaned(TraceRun.of(replace(header, name=MAIN), tuple(notes))))
        run = finish(merge_runs(header, logs))
        # The events were redacted when they were written, but the program's output was not.
        run = TraceRun.of(store.cleaned(TraceRun.of(run.header, ())).header, run.events)
        store.delete([log.id for log in logs])
        store.replace([run])
    return run


def all_deviations(logs: Iterable[TraceRun], run: TraceRun, world: World) -> list[Deviation]:
    """Return the deviations of the processes, and the recorded calls that none of them made."""
    deviations = list(chain.from_iterable(map(deviations_of, logs)))
    for name in _unused_names(run, world):
        deviations.append(Deviation(kind="unused", name=name, text=f"`{name}` was not called"))
    return deviations


def _unused_names(run: TraceRun, world: World) -> list[str]:
    """Return the names of recorded calls that no process made. A killed process cannot report what it was served, so
    this is derived from the events."""
    mode = world.rules.mode if world.rules.mode is MatchMode.SEQUENCE else MatchMode.CAUSAL
    tape = Tape(recorded_calls(world), started_at=world.pins.started_at)
    matcher = Matcher.of(tape, replace(world.rules, mode=mode))
    for event in run.calls:
        pending = as_pending(event)
        # A refused call may be recorded, with an answer that cannot be given.
        if matcher.take(pending) is None and not is_refused(event):
            _take_by_other_key(matcher, pending, world, run)
    names = []
    for index in matcher.unused():
        call = matcher.calls[index]
        if world.mode_of(call) is ToolMode.RECORDED:
            names.append(call.name)
    return names


def _take_by_other_key(matcher: Matcher, pending: PendingCall, world: World, run: TraceRun) -> None:
    """Match a recorded call that differs only in placeholders of another key, or in the current time by the pinned or
    the real clock."""
    started_at = world.pins.started_at
    if matcher.take_by_kind(pending, written=True) is not None:
        return
    # At the moment of its recorded call, on the pinned clock: how far a time is from now depends on when that is.
    spans = [call.span for call in matcher.calls if call.name == pending.name and call.span is not None]
    moments = sorted({started_at + span.begin_s for span in spans})
    for now in (*moments, started_at + _LONGEST_S):
        if matcher.take_as_now(pending, started_at, now) is not None:
            return
    matcher.take_as_now(pending, run.started_at, pending.at)


def _is_process_note(event: AnyEvent) -> bool:
    """True for a note about one process that does not belong in the run."""
    return isinstance(event, Note) and event.name in (DEVIATION, OWN_PORT, PASSED)


def _renumber_spans(events: list[AnyEvent], delays_s: list[float]) -> list[AnyEvent]:
    """Number begins and ends across all processes. `delays_s`: how much later than the run each event's process
    began."""
    spans: dict[int, CallSpan] = {}
    for index, (event, delay_s) in enumerate(zip(events, delays_s, strict=True)):
        if isinstance(event, Call) and event.span is not None:
            spans[index] = _shift_span(event.span, delay_s)
    # All begins precede all ends, and the stable sort below keeps it that way at equal moments.
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
    refolded: list[AnyEvent] = []
    for order, event in zip(orders, events, strict=True):
        if isinstance(event, State) and event.is_kept:
            fold = folds.setdefault(order, StateFold())
            fold.apply(event)
            text, change = _advanced(whole, fold.text)
            refolded.append(replace(event, state_json=text, change=change))
        else:
            refolded.append(event)
    return refolded


def _advanced(fold: StateFold, text: bytes) -> tuple[Raw, Change | None]:
    try:
        return fold.advance_to_text(read_members(text))
    except msgspec.ValidationError:
        fold.apply(State(seq=0, state_json=Raw(text)))
        return Raw(text), None
