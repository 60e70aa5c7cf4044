"""The handler of a fork: serves the tape up to the step, makes the change, and applies the rules for live calls."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import orjson
from msgspec.structs import replace

from replaykit.errors import Divergence, ReplayKitError, Undecided, Unreplayable, UsageError
from replaykit.handlers.replay.miss import explain, unanswerable
from replaykit.handlers.replay.tape import Matcher, Tape
from replaykit.model.diff import call_text
from replaykit.model.events import AnyEvent, Call, Event, LlmCall, Shared, State
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.seam.call_events import event_of
from replaykit.seam.failures import describe
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall, current
from replaykit.store.protocol import RunWriter
from replaykit.travel.edits import Edits
from replaykit.travel.fork_plan import ForkPlan, inside_of

_Inside: TypeAlias = Mapping[int, list[AnyEvent]]
_Place: TypeAlias = dict[str, Any]


class ForkHandler:
    """Serves what was recorded up to the step, makes the change, and applies the rules after it."""

    def __init__(
        self,
        plan: ForkPlan,
        edits: Edits,
        writer: RunWriter | None,
        *,
        live: Iterable[str] = (),
        reuse: bool = True,
        attempt: TraceRun | None = None,
    ) -> None:
        self._cut = plan.cut
        self._edits = edits
        self._moment = plan.moment
        self._target = plan.target
        self._tape = Tape(plan.cut.before, name=plan.cut.run_id)
        self._before = Matcher(self._tape)
        self._after = Matcher(Tape(plan.cut.after, name=plan.cut.run_id))
        self._left = sum(call.seq not in self._cut.inner for call in self._tape.calls)
        self._done = Matcher(Tape(() if attempt is None else attempt.calls))
        self._inside_done = {} if attempt is None else inside_of(attempt)
        self._live = frozenset(live)
        self._reuse = reuse
        self._writer = writer  # None in a dry run, in which nothing happens for real and nothing is stored
        self._lock = threading.RLock()
        self._states: Counter[tuple[str | None, str]] = Counter()
        self._changes_state = edits.of_state and not plan.at_once
        self._changes_call = edits.of_call
        self._inherited = plan.inherited_changes
        self._came_again = [False] * len(plan.inherited_changes)
        self.calls_made = 0
        self.deviations: list[Deviation] = []
        self.would_be_live: list[str] = []

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """Return the recorded or changed outcome; None if the call may happen. Raise `Undecided` if it may not."""
        with self._lock:
            index, self.calls_made = self.calls_made, self.calls_made + 1
            exact = self._before.take_exactly(call)
            if exact is not None:
                return self._serve_before(call, exact, index)
            exact = self._after.take_exactly(call)  # before moved calls: another task may be ahead of this one
            if exact is not None and self._reuse and exact not in self._after.unanswerable:
                return self._give(call, self._after.calls[exact], index)
            moved = self._before.take(call) if exact is None else None
            if moved is not None:
                return self._serve_before(call, moved[0], index)
            if not self.reached:
                raise self._stop("missing", self._missing(call, index), call)
            return self._go_live(call, index)

    @property
    def reached(self) -> bool:
        """True if everything up to the step has happened again."""
        return self._left == 0

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        self._keep(event_of(call, outcome, duration_s))

    def keep(self, event: AnyEvent) -> None:
        if isinstance(event, State):
            self._states[event.step, event.path] += 1
        self._keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        """Return the changed state, once, at the step; before it, repeat the changes of earlier forks."""
        with self._lock:
            state = self._as_inherited(step, state)
            if not self._changes_state or not self._is_due(step):
                return state
            self._changes_state = False
            try:
                return self._edits.amended(state)
            except UsageError as error:  # also a deviation, since the agent may handle the exception
                self.deviations.append(Deviation(kind="unmade", text=error.message))
                raise

    def _as_inherited(self, step: str | None, state: Json) -> Json:
        cleaning = None if self._writer is None else self._writer.cleaning
        for number, change in enumerate(self._inherited):
            if not change.is_at(step) or self._came_again[number]:
                continue
            if change.is_due(state, cleaning):
                state = change.amended(state)
            self._came_again[number] = change.holds(state, cleaning)
        return state

    def unmade(self) -> list[Deviation]:
        """Return the changes that could not be made, because the agent did not get there."""
        texts = []
        if self._changes_state:
            texts.append(f"the state was not changed: the agent passed none at {self._cut.step}")
        if self._changes_call and self._target is not None:
            texts.append(f"`{self._target.name}` was not changed: the agent did not call it at {self._cut.step}")
        if not any(deviation.kind not in ("live", "done") for deviation in self.deviations):  # it was not stopped
            for change, came in zip(self._inherited, self._came_again, strict=True):
                if not came:
                    texts.append(f"the state that {self._cut.run_id} has after {change.step} was not reached again")
            if not texts and not self._edits.of_state and not self._edits.of_call:
                return self._unreached()
        return [Deviation(kind="unmade", text=text) for text in texts]

    def _unreached(self) -> list[Deviation]:
        """Report that the agent ended before the step; only without a change, which may lead elsewhere."""
        if self.reached:
            return []
        calls = "a recorded call" if self._left == 1 else f"{self._left} recorded calls"
        text = f"the agent ended before it reached {self._cut.step}: {calls} before that step did not happen again"
        return [Deviation(kind="unreached", text=text)]

    def is_moment(self, state: State) -> bool:
        """True if this state, just written, is the one that the plan names."""
        key = state.step, state.path
        return key == (self._moment.step, self._moment.path) and self._states[key] == self._moment.count

    def _is_due(self, step: str | None) -> bool:
        """True if the agent's next state is the one to change."""
        scope, moment = current(), self._moment
        if moment.count == 0:
            return self.reached or (step is not None and step == moment.step)
        if step != moment.step or (step is None and not self.reached):
            return False
        path = scope.path if scope is not None else ""
        return path == moment.path and self._states[step, path] + 1 >= moment.count

    def _serve_before(self, call: PendingCall, position: int, index: int) -> CallAnswer | None:
        if position in self._before.unanswerable and self._before.calls[position] is not self._target:
            why = self._before.unanswerable[position]
            raise self._stop("unanswerable", unanswerable(call, why), call)
        self._left -= self._before.calls[position].seq not in self._cut.inner
        return self._give(call, self._before.calls[position], index)

    def _give(self, call: PendingCall, recorded: Call, index: int) -> CallAnswer | None:
        if recorded is not self._target:
            sent = self._as_sent(call, recorded)
            self._share(call, recorded)
            return sent
        return self._change(call, recorded, index)

    def _as_sent(self, call: PendingCall, recorded: Call) -> Call:
        """Return the recorded model call in the API that the agent uses; other calls unchanged."""
        if call.request is None or not isinstance(recorded, LlmCall):
            return recorded
        from replaykit.seam.http.rewriting import on_the_wire  # noqa: PLC0415 (most calls are a tool's)

        try:
            return on_the_wire(recorded, call, asked_again=True)
        except Unreplayable as error:
            raise self._stop("unanswerable", error, call) from None

    def _change(self, call: PendingCall, recorded: Call, index: int) -> CallAnswer | None:
        self._changes_call = False
        if self._edits.arguments is not None:
            call.override = self._edits.arguments
            return self._go_live(call, index)
        changed = self._edits.outcome_of(recorded)
        assert changed is not None  # a target exists only for a change of an outcome or arguments
        if isinstance(recorded, LlmCall) and recorded.wire is None and call.request is not None:
            other = {"result_json": changed.result_json, "error": changed.error, "finish_reason": None}
            changed = self._as_sent(call, replace(recorded, **other))
        self._keep(event_of(call, changed, recorded.duration_s))
        self._share_inside(recorded, call)
        return changed

    def _go_live(self, call: PendingCall, index: int) -> CallAnswer | None:
        """Let the call happen, if its tool or this fork allows it; serve it if an earlier attempt has made it."""
        shown = call_text(call.name, call.override if call.override is not None else orjson.loads(call.arguments))
        done = self._done.take_exactly(call)
        if done is not None and done not in self._done.unanswerable:
            text = f"done for real in the attempt before: {shown}"
            self.deviations.append(Deviation(kind="done", text=text, index=index, name=call.name))
            return self._repeat(call, self._done.calls[done])
        if self._writer is None:
            self.would_be_live.append(shown)
            raise self._stop("live", Undecided(f"this would be done for real: {shown}", index=index), call)
        if call.effects not in ("none", "idempotent") and call.name not in self._live:
            # Another attempt must not repeat what was done for real.
            has_acted = any(deviation.kind in ("live", "done") for deviation in self.deviations)
            attempt_option = f" --attempt {self._writer.run_id}" if has_acted else ""
            question = f"after {self._cut.step} the fork wants to do this for real: {shown}"
            hint = (
                f"Allow it for this fork: --live {call.name}{attempt_option} (or live=[{call.name!r}]); "
                f'declare the tool harmless: @rk.tool(effects="none"); or give its answer as a change.'
            )
            raise self._stop("undecided", Undecided(question, index=index, hint=hint), call)
        self.deviations.append(Deviation(kind="live", text=f"done for real: {shown}", index=index, name=call.name))
        return None

    def _repeat(self, call: PendingCall, done: Call) -> CallAnswer:
        """Record a call of an earlier attempt, and the events inside it, as part of this run."""
        self._keep(event_of(call, done, done.duration_s))
        for event, place in self._places_inside(done, call, self._inside_done):
            self._keep(replace(event, **place))
        return done

    def _missing(self, call: PendingCall, index: int) -> Divergence:
        error = explain(self._tape, self._before, call, index)
        error.hint = (
            f"Up to {self._cut.step} the agent must do what it did in the recording. If you changed the agent, "
            "continue from a step before the change."
        )
        return error

    def _share(self, call: PendingCall, recorded: Call) -> None:
        """Record a served call, and the events inside it, as shared with the parent."""
        self._refer(recorded, call, seq=call.seq, parent=call.parent, path=call.path)
        self._share_inside(recorded, call)

    def _share_inside(self, recorded: Call, call: PendingCall) -> None:
        for event, place in self._places_inside(recorded, call, self._cut.inside):
            self._refer(event, call, **place)

    def _places_inside(self, recorded: Call, call: PendingCall, inside: _Inside) -> Iterator[tuple[AnyEvent, _Place]]:
        """Yield the events inside a recorded call, each with its place inside the new one."""
        scope = current()
        assert scope is not None  # every call is made in a scope
        numbers = {recorded.seq: call.seq}
        for event in sorted(_within(recorded, inside), key=lambda event: event.seq):
            numbers[event.seq] = seq = next(scope.session.numbers)
            path = call.path + event.path.removeprefix(recorded.path)
            yield event, {"seq": seq, "parent": numbers[event.parent or 0], "path": path}

    def _refer(self, event: Event, call: PendingCall, *, seq: int, parent: int | None, path: str) -> None:
        if self._writer is not None:
            self._writer.append(
                Shared(
                    seq=seq, run=self._cut.run_id, of=event.seq, at=call.at, step=call.step, parent=parent, path=path
                )
            )

    def _keep(self, event: AnyEvent) -> None:
        if self._writer is not None:
            self._writer.append(event)

    def _stop(self, kind: str, error: ReplayKitError, call: PendingCall) -> ReplayKitError:
        self.deviations.append(Deviation(kind=kind, text=error.message, name=call.name))
        self._keep(event_of(call, Outcome(error=describe(error)), 0.0))
        return error


def _within(outer: Event, inside: _Inside) -> Iterator[AnyEvent]:
    """Yield the events inside a recorded call, except states: each is a change against a state of the other log."""
    for event in inside.get(outer.seq, ()):
        if not isinstance(event, State):
            yield event
            yield from _within(event, inside)
