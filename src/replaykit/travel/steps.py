"""Steps and checkpoints: views of the log, one by one.

`StepEvent` is one step as a whole: the state it began with, what was decided, what was called, what came of it.
`CheckpointStore` reads the state after any step from the log, and can append to a log of its own; there is no
second copy of anything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType

import msgspec
from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Call, Decision, Message, State, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.steps import steps_of, unknown_step
from replaykit.model.values import Json, Raw, canonical, decode, raw
from replaykit.store.opening import StoreLike, opened
from replaykit.store.protocol import RunWriter, Store


class StepEvent(Struct, frozen=True, kw_only=True):
    """One step of a run: everything needed to reproduce it."""

    step_id: str
    input_state: Json = None
    decision: Json = None
    tool_name: str | None = None
    tool_args: Json = None
    tool_result: Json = None
    error: str | None = None
    output_state: Json = None
    timestamp: dt.datetime | None = None
    seq: int = 0


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The state of a run after a step, and what had been said and called by then."""

    run_id: str
    step_id: str
    state: Json = None
    messages: list[Json] = []
    tool_calls: list[Json] = []
    agent_version: str = ""
    timestamp: dt.datetime | None = None


class CheckpointInfo(Struct, frozen=True, kw_only=True):
    """A checkpoint without its content, for lists."""

    step_id: str
    seq: int
    timestamp: dt.datetime | None
    decision: Json = None
    calls: tuple[str, ...] = ()
    has_state: bool = False
    error: str | None = None


class _Open(Struct):
    """A run that is being written checkpoint by checkpoint."""

    writer: RunWriter
    header: RunHeader
    fold: StateFold
    seq: int = 0
    messages: int = 0
    tool_calls: int = 0


def step_events(run: TraceRun) -> list[StepEvent]:
    """The run, step by step."""
    fold, found = StateFold(), []
    state: Json = None
    for step_id, events in steps_with_states(run):
        before = state
        for event in events:
            if isinstance(event, State):
                fold.apply(event)
                state = decode(fold.text)
        found.append(_step_event(step_id, events, before, state))
    return found


def steps_with_states(run: TraceRun) -> Iterator[tuple[str, list[AnyEvent]]]:
    """Each step with its events, and with the states kept between it and the next step."""
    steps = steps_of(run)
    owner = {event.seq: step_id for step_id, events in steps.items() for event in events}
    groups: dict[str, list[AnyEvent]] = {step_id: [] for step_id in steps}
    current = next(iter(steps), "")
    for event in run.events:
        current = owner.get(event.seq, current)
        if current and (event.seq in owner or isinstance(event, State)):
            groups[current].append(event)
    yield from groups.items()


def last_event_of(run: TraceRun, step_id: str) -> AnyEvent:
    """The last event that belongs to a step, its states included; a UsageError names the steps there are."""
    for name, events in steps_with_states(run):
        if name == step_id and events:
            return events[-1]
    raise unknown_step(run, step_id)


def state_after(store: Store, run: TraceRun, step_id: str) -> Json:
    """The state after a step; None for an agent that keeps none."""
    last = last_event_of(run, step_id)
    if not any(isinstance(event, State) and event.seq <= last.seq for event in run.events):
        return None
    return store.state_at(run.id, last.seq)


class CheckpointStore:
    """Checkpoints of runs, by (run, step); `store` is a store, its path, or the project's own."""

    def __init__(self, store: StoreLike = None) -> None:
        self._store = store
        self._stack = ExitStack()
        self._open: dict[str, _Open] = {}

    def __enter__(self) -> CheckpointStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the runs that were written here, and release the store."""
        for run in self._open.values():
            run.writer.finish(msgspec.structs.replace(run.header, status=RunStatus.SUCCESS))
        self._open.clear()
        self._stack.close()

    def load_checkpoint(self, run_id: str, step_id: str) -> Checkpoint:
        """The checkpoint after that step; a UsageError names the steps there are."""
        with opened(self._store, read_only=True) as store:
            run = store.load(run_id)
            state = state_after(store, run, step_id)
        last = last_event_of(run, step_id)
        said = [event for event in run.events if isinstance(event, Message) and event.seq <= last.seq]
        return Checkpoint(
            run_id=run.id,
            step_id=step_id,
            state=state,
            messages=[{"role": message.role, "content": message.content} for message in said],
            tool_calls=[_call_as_data(call) for call in run.tool_calls if call.seq <= last.seq],
            agent_version=run.agent_version,
            timestamp=_moment(last.at),
        )

    def list_checkpoints(self, run_id: str) -> list[CheckpointInfo]:
        """Every step of the run, in order."""
        with opened(self._store, read_only=True) as store:
            run = store.load(run_id)
        return [_info(step_id, events) for step_id, events in steps_with_states(run)]

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Append a checkpoint to a run of its own; what it has more than the one before is added to the log."""
        run = self._open.get(checkpoint.run_id) or self._begin(checkpoint)
        at = _seconds(checkpoint.timestamp)
        whole, change = run.fold.advance(checkpoint.state)
        events: list[AnyEvent] = [
            *(_message(message) for message in checkpoint.messages[run.messages :]),
            *(_tool_call(call) for call in checkpoint.tool_calls[run.tool_calls :]),
            State(seq=0, state_json=whole, change=change),
        ]
        for event in events:
            run.writer.append(msgspec.structs.replace(event, seq=run.seq, at=at, step=checkpoint.step_id))
            run.seq += 1
        run.messages, run.tool_calls = len(checkpoint.messages), len(checkpoint.tool_calls)

    def _begin(self, checkpoint: Checkpoint) -> _Open:
        store = self._stack.enter_context(opened(self._store))
        started = _seconds(checkpoint.timestamp)
        header = RunHeader(id=checkpoint.run_id, agent_version=checkpoint.agent_version, started_at=started)
        run = self._open[checkpoint.run_id] = _Open(store.begin(header), header, StateFold())
        return run


def _step_event(step_id: str, events: list[AnyEvent], before: Json, after: Json) -> StepEvent:
    call = next((event for event in events if isinstance(event, Call)), None)
    decided = next((event.content for event in events if isinstance(event, Decision)), None)
    return StepEvent(
        step_id=step_id,
        input_state=before,
        decision=decided if decided is not None or call is None else call.name,
        tool_name=call.name if call else None,
        tool_args=call.arguments if call else None,
        tool_result=(call.items if call.items_json is not None else call.result) if call else None,
        error=str(call.error) if call and call.error else None,
        output_state=after,
        timestamp=_moment(events[0].at) if events else None,
        seq=events[0].seq if events else 0,
    )


def _info(step_id: str, events: list[AnyEvent]) -> CheckpointInfo:
    errors = [str(event.error) for event in events if isinstance(event, Call) and event.error]
    return CheckpointInfo(
        step_id=step_id,
        seq=events[0].seq if events else 0,
        timestamp=_moment(events[0].at) if events else None,
        decision=next((event.content for event in events if isinstance(event, Decision)), None),
        calls=tuple(event.name for event in events if isinstance(event, Call)),
        has_state=any(isinstance(event, State) for event in events),
        error=errors[-1] if errors else None,
    )


def _call_as_data(call: ToolCall) -> Json:
    error = str(call.error) if call.error else None
    return {"name": call.name, "arguments": call.arguments, "result": call.result, "error": error}


def _message(message: Json) -> Message:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise UsageError("a message of a checkpoint is an object with `role` and `content`")
    return Message(seq=0, role=message["role"], content_json=raw(message.get("content")))


def _tool_call(call: Json) -> ToolCall:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise UsageError("a tool call of a checkpoint is an object with `name`, `arguments` and `result`")
    arguments = Raw(canonical(call.get("arguments") or {}))
    return ToolCall(seq=0, name=call["name"], arguments_json=arguments, result_json=raw(call.get("result")))


def _moment(at: float) -> dt.datetime | None:
    return dt.datetime.fromtimestamp(at, dt.UTC) if at else None


def _seconds(moment: dt.datetime | None) -> float:
    return (moment or dt.datetime.now(dt.UTC)).timestamp()
