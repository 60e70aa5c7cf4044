"""Behind the seam in a fork: the tape up to the step, the change, and then the world, by rules."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import orjson

from replaykit.errors import Divergence, ReplayKitError, Undecided
from replaykit.model.diff import call_text
from replaykit.model.events import AnyEvent, Call, Shared
from replaykit.model.result import Deviation
from replaykit.model.values import Json
from replaykit.replayer.miss import explain
from replaykit.replayer.tape import Matcher, Tape
from replaykit.seam.failures import describe
from replaykit.seam.logged import event_of
from replaykit.seam.scope import Answer, Outcome, PendingCall
from replaykit.store.protocol import RunWriter
from replaykit.travel.edits import Edits


class Cut:
    """Where a run is cut: the calls up to the step, the step's own calls among them, and those after it."""

    def __init__(self, run_id: str, step: str, before: list[Call], own: list[Call], after: list[Call]) -> None:
        self.run_id = run_id
        self.step = step
        self.before = before
        self.own = own
        self.after = after


class Traveller:
    """Serves what was recorded up to the step, makes the change, and keeps the rules after it."""

    def __init__(
        self, cut: Cut, edits: Edits, writer: RunWriter | None, *, live: Iterable[str] = (), reuse: bool = True
    ) -> None:
        self._cut = cut
        self._edits = edits
        self._target = _target(cut, edits)
        self._tape = Tape(cut.before, name=cut.run_id)
        self._before = Matcher(self._tape)
        self._after = Matcher(Tape(cut.after if reuse else [], name=cut.run_id))
        self._left = len(self._before.unused())
        self._live = frozenset(live)
        self._writer = writer  # None: a rehearsal, in which nothing happens for real and nothing is kept
        self._lock = threading.RLock()
        self._amended = not edits.of_state
        self._made = 0
        self.deviations: list[Deviation] = []
        self.would_be_live: list[str] = []

    def serve(self, call: PendingCall) -> Answer | None:
        """The recorded or changed outcome; None where the call may happen; Undecided where nobody said so."""
        with self._lock:
            index, self._made = self._made, self._made + 1
            found = self._before.take(call)
            if found is not None:
                self._left -= not self._before.inner[found[0]]
                return self._give(call, self._before.calls[found[0]])
            exact = self._after.take_exactly(call)
            if exact is not None:
                return self._give(call, self._after.calls[exact])
            if not self.reached:
                raise self._stop("missing", explain(self._tape, self._before, call, index), call)
            self._go_live(call, index)
            return None

    @property
    def reached(self) -> bool:
        """True when everything up to the step has happened again."""
        return self._left == 0

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """A call that was let through has ended."""
        self._keep(event_of(call, outcome, duration_s))

    def keep(self, event: AnyEvent) -> None:
        """Something happened that is not a call."""
        self._keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        """The changed state, once, after the step."""
        with self._lock:
            if self._amended or not (step == self._cut.step or (step is None and self.reached)):
                return state
            self._amended = True
            return self._edits.amended(state)

    def _give(self, call: PendingCall, recorded: Call) -> Answer | None:
        if recorded.seq != self._target:
            self._share(call, recorded)
            return recorded
        if self._edits.arguments is not None:
            call.override = self._edits.arguments
            self._go_live(call, self._made - 1)
            return None
        changed = self._edits.answer(recorded)
        if changed is None:
            self._share(call, recorded)
            return recorded
        self._keep(event_of(call, changed, recorded.duration_s))
        return changed

    def _go_live(self, call: PendingCall, index: int) -> None:
        """Let the call happen, if its tool or this fork says that it may."""
        shown = call_text(call.name, call.override if call.override is not None else orjson.loads(call.arguments))
        if self._writer is None:
            self.would_be_live.append(shown)
            raise self._stop("live", Undecided(f"this would be done for real: {shown}", index=index), call)
        if call.effects not in ("none", "idempotent") and call.name not in self._live:
            question = f"after {self._cut.step} the fork wants to do this for real: {shown}"
            hint = (
                f"May it? Allow it for this fork: --live {call.name} (or live=[{call.name!r}]); "
                f'declare the tool harmless: @rk.tool(effects="none"); or give its answer as a change.'
            )
            raise self._stop("undecided", Undecided(question, index=index, hint=hint), call)
        self.deviations.append(Deviation(kind="live", text=f"done for real: {shown}", index=index, name=call.name))

    def _share(self, call: PendingCall, recorded: Call) -> None:
        if self._writer is not None:
            self._writer.append(
                Shared(seq=call.seq, run=self._cut.run_id, of=recorded.seq, at=call.at, path=call.path, step=call.step)
            )

    def _keep(self, event: AnyEvent) -> None:
        if self._writer is not None:
            self._writer.append(event)

    def _stop(self, kind: str, error: ReplayKitError, call: PendingCall) -> ReplayKitError:
        self.deviations.append(Deviation(kind=kind, text=error.message, name=call.name))
        self._keep(event_of(call, Outcome(error=describe(error)), 0.0))
        return error


def _target(cut: Cut, edits: Edits) -> int | None:
    """The sequence number of the call whose answer or arguments change."""
    if not edits.of_call:
        return None
    fitting = [call for call in cut.own if edits.tool in (None, call.name)]
    if not fitting:
        names = ", ".join(sorted({call.name for call in cut.own})) or "none"
        raise Divergence(f"{cut.step} makes no call of {edits.tool or 'a tool'!r}; its calls: {names}", index=0)
    return fitting[-1].seq
