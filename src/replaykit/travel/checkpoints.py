"""Steps and checkpoints: views of the log.

`StepEvent` is one step: the state it began with, what was decided and called, and the state it ended with.
`CheckpointStore` reads the state after any step from the log, and can append to a log of its own. States are not stored
a second time.
"""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType

from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.errors import UsageError, wrong_argument
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Call, Change, Decision, ErrorInfo, Message, State, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.sampling import Sampling, StateLog, Written, sampling
from replaykit.model.steps import StepWord, step_name
from replaykit.model.values import ABSENT, Json, Raw, canonical, decode, raw
from replaykit.store.open import StoreLike, open_store
from replaykit.store.protocol import RunWriter, Store
from replaykit.travel.run_steps import RunStep, find_step, run_steps, state_not_kept
from replaykit.travel.run_steps import steps_with_states as steps_with_states


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
    input_kept: bool = True
    """False if there was a state that the log does not hold; likewise `output_kept`."""
    output_kept: bool = True


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The state of a run after a step, with the messages and tool calls up to then."""

    run_id: str
    step_id: str
    state: Json = None
    messages: list[Json] = []
    tool_calls: list[Json] = []
    agent_version: str = ""
    timestamp: dt.datetime | None = None


class CheckpointInfo(Struct, frozen=True, kw_only=True):
    """A checkpoint without its content."""

    step_id: str
    """The name of the step, as --step takes it."""
    seq: int
    """The number of the first event of the step."""
    timestamp: dt.datetime | None
    """When the step began; None if the run does not say."""
    decision: Json = None
    """The agent's decision in the step."""
    calls: tuple[str, ...] = ()
    """The names of the step's calls."""
    has_state: bool = False
    """True if the step has a state of its own and the log holds it."""
    is_kept: bool = field(default=True, name="kept")
    """False if there is a state after the step that the log does not hold."""
    error: str | None = None
    """The error that ended the step."""


@checked("rk.step_events(store.load(run_id))")
def step_events(run: TraceRun) -> list[StepEvent]:
    """Return the steps of the run.

    >>> [(step.step_id, step.decision) for step in rk.step_events(store.load(run_id))]
    [('look up', 'search_docs')]
    """
    fold = StateFold()
    step_list: list[StepEvent] = []
    state: Json = None
    known = True
    for run_step in run_steps(run):
        began = (state, known)
        first = not step_list
        for event in run_step.events:
            if isinstance(event, State):
                fold.apply(event)
                state, known = (decode(fold.text), True) if event.is_kept else (None, False)
                if first:
                    began = (state, known)  # a state before the first call is the one that the run began with
            else:
                first = False
        step_list.append(_step_event(run_step, began, (state, known)))
    return step_list


def last_event_of(run: TraceRun, step_id: StepWord) -> AnyEvent:
    """Return the last event of a step, its states included; a `UsageError` names the existing steps."""
    return find_step(run, step_id).last


def state_after(store: Store, run: TraceRun, step_id: StepWord) -> Json:
    """Return the state after a step; None if the agent had none. Raise `StateNotKept` if the log does not hold it."""
    run_step = find_step(run, step_id)
    if run_step.state is None:
        return None
    if run_step.unknown:
        raise state_not_kept(run, run_step.step_id)
    return store.state_at(run.id, run_step.state.seq)


class CheckpointStore:
    """Checkpoints of runs, by run and step; `store` is a store, its path, or the project's own.

    Of the saved states it keeps the first, every `every`-th after that, and the last one of each run on closing. With
    `on_change` it keeps only states that differ from the one before.
    """

    @checked('rk.CheckpointStore(".replaykit/store.db")')
    def __init__(self, store: StoreLike = None, *, every: int = 1, on_change: bool = False) -> None:
        self._store = store
        self._rules = sampling(every, on_change, name="every")
        self._stack = ExitStack()
        self._open: dict[str, CheckpointWriter] = {}
        # An object that is never closed still releases the database; its runs stay open then.
        weakref.finalize(self, self._stack.close)

    def __enter__(self) -> CheckpointStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the runs that were written, and release the store."""
        with self._stack:
            for run in self._open.values():
                run.end()
            self._open.clear()

    @checked('checkpoints.load_checkpoint(run_id, "step_3")')
    def load_checkpoint(self, run_id: str, step_id: StepWord) -> Checkpoint:
        """Return the checkpoint after a step; a `UsageError` names the existing steps."""
        with open_store(self._store, read_only=True) as store:
            run = store.load(run_id)
            name = step_name(run, step_id)
            state = state_after(store, run, name)
        last = last_event_of(run, name)
        messages: list[Json] = []
        for event in run.events:
            if isinstance(event, Message) and event.seq <= last.seq:
                messages.append({"role": event.role, "content": event.content})
        return Checkpoint(
            run_id=run.id,
            step_id=name,
            state=state,
            messages=messages,
            tool_calls=[_call_as_data(call) for call in run.tool_calls if call.seq <= last.seq],
            agent_version=run.agent_version,
            timestamp=_moment(last.at),
        )

    @checked("checkpoints.list_checkpoints(run_id)")
    def list_checkpoints(self, run_id: str) -> list[CheckpointInfo]:
        """Return a checkpoint for every step of the run, in order."""
        with open_store(self._store, read_only=True) as store:
            run = store.load(run_id)
        return list(map(_info, run_steps(run)))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Append a checkpoint to a run of its own; only what is new since the one before is written."""
        if not isinstance(checkpoint, Checkpoint):
            raise wrong_argument("save_checkpoint", checkpoint, "save_checkpoint(rk.Checkpoint(run_id=…, …))")
        at = timestamp_s(checkpoint.timestamp)
        run = self._open.get(checkpoint.run_id) or self._begin(checkpoint, at)
        run.save(checkpoint.step_id, at, checkpoint.state, checkpoint.messages, checkpoint.tool_calls)

    def _begin(self, checkpoint: Checkpoint, at: float) -> CheckpointWriter:
        store = self._stack.enter_context(open_store(self._store))
        header = RunHeader(id=checkpoint.run_id, agent_version=checkpoint.agent_version, started_at=at)
        run = self._open[checkpoint.run_id] = CheckpointWriter(store, header, self._rules)
        return run


def _step_event(run_step: RunStep, began: tuple[Json, bool], ended: tuple[Json, bool]) -> StepEvent:
    events = run_step.events
    step_event = StepEvent(
        step_id=run_step.step_id,
        input_state=began[0],
        input_kept=began[1],
        decision=_decision(events),
        output_state=ended[0],
        output_kept=ended[1],
        timestamp=_moment(events[0].at),
        seq=events[0].seq,
    )
    call = next((event for event in events if isinstance(event, Call)), None)
    if call is None:
        return step_event
    return replace(
        step_event,
        decision=call.name if step_event.decision is None else step_event.decision,
        tool_name=call.name,
        tool_args=call.arguments,
        tool_result=call.result if call.items_json is None else call.items,
        error=_error(call),
    )


def _decision(events: Iterable[AnyEvent]) -> Json:
    return next((event.content for event in events if isinstance(event, Decision)), None)


def _error(call: Call) -> str | None:
    return str(call.error) if call.error else None


def _info(run_step: RunStep) -> CheckpointInfo:
    events = run_step.events
    calls = [event for event in events if isinstance(event, Call)]
    return CheckpointInfo(
        step_id=run_step.step_id,
        seq=events[0].seq,
        timestamp=_moment(events[0].at),
        decision=_decision(events),
        calls=tuple(call.name for call in calls),
        has_state=run_step.state in events and not run_step.unknown,
        is_kept=not run_step.unknown,
        error=next(filter(None, map(_error, reversed(calls))), None),
    )


def _call_as_data(call: ToolCall) -> Json:
    return {"name": call.name, "arguments": call.arguments, "result": call.result, "error": _error(call)}


def _moment(at: float) -> dt.datetime | None:
    return dt.datetime.fromtimestamp(at, dt.UTC) if at else None


class CheckpointWriter:
    """Writes checkpoints of one run; adds to the log what is new since the one before."""

    def __init__(self, store: Store, header: RunHeader, rules: Sampling) -> None:
        self._header = replace(header, sampling=rules)
        self._writer: RunWriter = store.begin(self._header)
        self._states = StateLog(rules, self._writer.cleaning)
        self._seq = self._messages = self._calls = 0
        self._last: tuple[str, float] = ("", 0.0)

    def save(self, step_id: str, at: float, state: Json, messages: list[Json], tool_calls: list[Json]) -> None:
        """Append a checkpoint."""
        new_events: list[AnyEvent] = [
            *map(_message, messages[self._messages :]),
            *map(_tool_call, tool_calls[self._calls :]),
        ]
        written = self._states.next(state)
        if written is None and not new_events:
            written = (ABSENT, Change())  # an empty change marks the step, so that it can be looked up
        for event in new_events:
            self._append(event, step_id, at)
        self._append_state(written, step_id, at)
        self._messages, self._calls = len(messages), len(tool_calls)
        self._last = step_id, at

    def end(self) -> None:
        """Write the last state, if sampling skipped it, and end the run."""
        self._append_state(self._states.last(), *self._last)
        self._writer.finish(replace(self._header, status=RunStatus.SUCCESS))

    def _append_state(self, written: Written | None, step_id: str, at: float) -> None:
        if written is None:
            return
        try:
            self._append(State(seq=0, state_json=written[0], change=written[1]), step_id, at)
        except BaseException:
            self._states.lost()
            raise

    def _append(self, event: AnyEvent, step_id: str, at: float) -> None:
        self._writer.append(replace(event, seq=self._seq, at=at, step=step_id))
        self._seq += 1


def timestamp_s(moment: dt.datetime | None) -> float:
    """Return a moment as seconds since the epoch; the current one if it is None."""
    return (moment or dt.datetime.now(dt.UTC)).timestamp()


def _message(message: Json) -> Message:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise UsageError("a message of a checkpoint is an object with `role` and `content`")
    return Message(seq=0, role=message["role"], content_json=raw(message.get("content")))


def _tool_call(call: Json) -> ToolCall:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise UsageError("a tool call of a checkpoint is an object with `name`, `arguments` and `result`")
    arguments = Raw(canonical(call.get("arguments") or {}))
    if call.get("error"):
        kind, _, message = str(call["error"]).partition(": ")
        return ToolCall(seq=0, name=call["name"], arguments_json=arguments, error=ErrorInfo(type=kind, message=message))
    return ToolCall(seq=0, name=call["name"], arguments_json=arguments, result_json=raw(call.get("result")))
