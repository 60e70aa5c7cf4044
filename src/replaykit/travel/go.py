"""Go on from a step: `resume`, `fork`.

From state where the agent takes one (a parameter `state`), by re-execution where it does not. Either way a new run
is recorded, linked to its parent.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from replaykit.errors import UsageError
from replaykit.model.events import AnyEvent, Call, Shared
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.values import ABSENT, Json, raw
from replaykit.recording.agents import agent_of, root_name
from replaykit.recording.calling import call_with, finished
from replaykit.recording.run import new_run_id
from replaykit.seam.failures import describe, status_of
from replaykit.seam.scope import Session
from replaykit.store.opening import StoreLike, opened
from replaykit.store.protocol import Store
from replaykit.travel.edits import Edits
from replaykit.travel.handler import Cut, Traveller
from replaykit.travel.steps import last_event_of, state_after, steps_with_states


class Journey(Struct, frozen=True, kw_only=True):
    """How going on from a step ended."""

    run_id: str
    status: RunStatus
    output: Json = None
    error: str | None = None
    way: str = ""
    """`state` or `re-execution`."""
    deviations: tuple[Deviation, ...] = ()
    would_be_live: tuple[str, ...] = ()
    """In a dry run: what would have been done for real."""


def fork(
    run_id: str,
    step: str,
    changes: Edits | Mapping[str, Any] | None = None,
    *,
    agent: Callable[..., Any] | None = None,
    store: StoreLike = None,
    live: Iterable[str] = (),
    reuse: bool = True,
    dry_run: bool = False,
) -> tuple[str, Journey]:
    """Go on from a step with something changed; gives the new run's id and how it ended.

    `changes` are keys of the state, or `Edits`. After the step recorded answers are served to exactly the recorded
    calls (unless `reuse` is false); other calls happen only if their tool is harmless or named in `live`.
    """
    journey = _go(run_id, step, Edits.of(changes), "forked", agent, store, live=live, reuse=reuse, dry_run=dry_run)
    return journey.run_id, journey


def resume(
    run_id: str,
    step: str,
    *,
    agent: Callable[..., Any] | None = None,
    store: StoreLike = None,
    live: Iterable[str] = (),
    reuse: bool = True,
    dry_run: bool = False,
) -> Journey:
    """Go on from a step with nothing changed."""
    return _go(run_id, step, Edits(), "resumed", agent, store, live=live, reuse=reuse, dry_run=dry_run)


def _go(
    run_id: str,
    step: str,
    edits: Edits,
    kind: str,
    agent: Callable[..., Any] | None,
    where: StoreLike,
    *,
    live: Iterable[str],
    reuse: bool,
    dry_run: bool,
) -> Journey:
    with opened(where, read_only=dry_run) as store:
        parent = store.load(run_id)
        last_event_of(parent, step)  # an unknown step is said before anything is made
        runs = agent if agent is not None else agent_of(parent)
        trip = _Trip(store, parent, step, edits, runs)
        header = _header(parent, step, kind, edits)
        writer = None if dry_run else store.begin(header)
        handler = Traveller(trip.cut, edits, writer, live=live, reuse=reuse)
        if writer is not None:
            for event in trip.shared:
                writer.append(_reference(parent.id, event))
        output, failure = _run(trip, handler, parent)
        if writer is not None:
            writer.finish(_ended(header, output, failure))
    return Journey(
        run_id=header.id,
        status=status_of(failure),
        output=output,
        error=str(describe(failure)) if failure is not None else None,
        way="state" if trip.from_state else "re-execution",
        deviations=tuple(handler.deviations),
        would_be_live=tuple(handler.would_be_live),
    )


class _Trip:
    """What is called, with what, and which of the parent's events come before it."""

    def __init__(self, store: Store, parent: TraceRun, step: str, edits: Edits, agent: Callable[..., Any]) -> None:
        self.agent = agent
        self.given = parent.input if edits.input is UNSET else edits.input
        self.from_state = _takes_state(agent) and not edits.of_call and edits.input is UNSET
        self.cut = _cut(parent, step, restart=edits.input is not UNSET)
        self.shared: list[AnyEvent] = []
        self.first_number = 0
        self.state: Json = None
        if self.from_state or edits.of_state:
            state = state_after(store, parent, step)
            if state is None:
                hint = "Keep one with `step.done(state)`, or change a call."
                raise UsageError(f"run {parent.id} kept no state at {step}", hint=hint)
            self.state = edits.amended(state)  # a change that does not fit is said before anything is made
        if self.from_state:
            last = last_event_of(parent, step).seq
            self.shared = [event for event in parent.events if event.seq <= last]
            self.first_number = max((event.seq for event in parent.events), default=-1) + 1
            self.cut.before = []

    def start(self) -> Any:
        """Call the agent."""
        if not self.from_state:
            return finished(call_with(self.agent, self.given))
        others = [name for name in inspect.signature(self.agent).parameters if name != "state"]
        return finished(self.agent(self.given, state=self.state) if others else self.agent(state=self.state))


def _run(trip: _Trip, handler: Traveller, parent: TraceRun) -> tuple[Json, BaseException | None]:
    session = Session(handler, lineage=parent.origin.run or parent.id, first_number=trip.first_number)
    with session.active():
        try:
            return trip.start(), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (how the agent ends is what one wants to see)
            return None, error


def _cut(parent: TraceRun, step: str, *, restart: bool) -> Cut:
    """The parent's calls by the step each belongs to; with `restart` all of them are after it."""
    order: dict[int, int] = {}
    own: list[Call] = []
    reached = -1
    for position, (name, events) in enumerate(steps_with_states(parent)):
        order.update({event.seq: position for event in events})
        if name == step:
            reached = position
            own = [event for event in events if isinstance(event, Call)]
    before: list[Call] = []
    after: list[Call] = []
    current = 0
    for event in parent.events:
        current = order.get(event.seq, current)  # a call outside of any step belongs to the one before it
        if isinstance(event, Call):
            (before if current <= reached and not restart else after).append(event)
    return Cut(parent.id, step, before, own, after)


def _takes_state(agent: Callable[..., Any]) -> bool:
    try:
        return "state" in inspect.signature(agent).parameters
    except (TypeError, ValueError):
        return False


def _reference(run_id: str, event: AnyEvent) -> Shared:
    return Shared(seq=event.seq, run=run_id, of=event.seq, at=event.at, path=event.path, step=event.step)


def _header(parent: TraceRun, step: str, kind: str, edits: Edits) -> RunHeader:
    return msgspec.structs.replace(
        parent.header,
        id=new_run_id(),
        name=f"{root_name(parent)}@{step}",  # the plain name stays the parent's
        input_json=parent.input_json if edits.input is UNSET else raw(edits.input),
        output_json=ABSENT,
        status=RunStatus.RUNNING,
        error=None,
        started_at=time.time(),
        ended_at=None,
        event_count=None,
        origin=Origin(kind=kind, run=parent.id, step=step),
    )


def _ended(header: RunHeader, output: Json, failure: BaseException | None) -> RunHeader:
    text = "".join(traceback.format_exception(failure)) if failure is not None else None
    return msgspec.structs.replace(
        header,
        status=status_of(failure),
        ended_at=time.time(),
        output_json=ABSENT if output is None else raw(output),
        error=describe(failure, traceback=text) if failure is not None else None,
    )


resume_from_checkpoint = resume
fork_run = fork
