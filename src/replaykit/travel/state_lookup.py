"""Look up the state after any step of a run, kept or not.

A state that was not kept is reached by re-execution. The agent begins with the nearest kept state before it (or at its
start, if it takes no state), is served its recorded answers, and is stopped when it hands over the requested state.
Nothing happens for real, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replaykit.arguments import checked
from replaykit.errors import Divergence, ReplayKitError
from replaykit.handlers.recording.agents import agent_of
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, State
from replaykit.model.run import TraceRun
from replaykit.model.steps import StepWord, step_name
from replaykit.model.values import Json, decode
from replaykit.seam.scope import CallAnswer, PendingCall
from replaykit.store.open import StoreLike, open_store
from replaykit.store.protocol import Store
from replaykit.travel.checkpoints import state_after
from replaykit.travel.edits import Edits
from replaykit.travel.fork_handler import ForkHandler
from replaykit.travel.fork_plan import ForkPlan, plan_state_lookup, session_for
from replaykit.travel.run_steps import find_step


@checked('rk.state_at(run_id, "step_3", agent=agent)')
def state_at(run_id: str, step: StepWord, *, agent: Callable[..., Any] | None = None, store: StoreLike = None) -> Json:
    """Return the state after a step; one that was not kept is reached by running the agent again up to there.

    Without `agent`, it is the one decorated with `@record` whose runs have this run's name. None if the agent had no
    state by then. A `Divergence` means that the agent did not get there again.

    >>> rk.state_at(run_id, "look up")
    {'docs': 1}
    """
    with open_store(store, read_only=True) as source:
        run = source.load(run_id)
        name = step_name(run, step)
        if not find_step(run, name).unknown:
            return state_after(source, run, name)
        return _rerun_to(source, run, name, agent if agent is not None else agent_of(run))


def _rerun_to(store: Store, run: TraceRun, step: str, agent: Callable[..., Any]) -> Json:
    plan = plan_state_lookup(store, run, step, agent)
    scout = _StateFinder(plan)
    session = session_for(plan, scout, run)
    if plan.start is not None:
        session.go_on_from(plan.start.state)
    failure: BaseException | None = None
    with session.active():
        try:
            plan.run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (stopped on purpose or failed: told apart below)
            failure = error
    if scout.arrived:
        return scout.state
    if isinstance(failure, ReplayKitError):
        raise failure
    ended = "it ended before"
    if failure is not None:
        ended = f"it ended with {type(failure).__name__}: {failure}"
    raise Divergence(
        f"run {run.id}: the agent did not reach the state after {step} again: {ended}",
        index=scout.calls_made,
        hint="Is this the recorded agent, with unchanged code?",
    ) from failure


class _Arrived(BaseException):
    """Stops the agent; a BaseException, so that its own code does not handle it."""


class _StateFinder(ForkHandler):
    """Serves the recording and stops the agent at the requested state."""

    def __init__(self, plan: ForkPlan) -> None:
        super().__init__(plan, Edits(), None)
        self._fold = StateFold()
        self.arrived = False
        self.state: Json = None

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """Return the recorded outcome; after the arrival, stop every further call too."""
        if self.arrived:
            raise _Arrived
        return super().serve(call)

    def keep(self, event: AnyEvent) -> None:
        """Follow the agent's states up to the requested one."""
        if self.arrived:
            raise _Arrived
        super().keep(event)
        if isinstance(event, State):
            self._fold.apply(event)
            if self.is_moment(event):
                self.state, self.arrived = decode(self._fold.text), True
                raise _Arrived
