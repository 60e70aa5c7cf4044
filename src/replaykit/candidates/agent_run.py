"""Call an agent function with a tape behind the seam, and make a run of what it did.

Runs in the candidate's process as well, so it needs no more than the model, the seam and the replayer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from replaykit.handlers.chaos import under_chaos
from replaykit.handlers.recording.agent_call import call_with, finished
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, ErrorInfo
from replaykit.model.pins import Clock
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import ABSENT, Json, raw
from replaykit.seam.failures import describe, status_of
from replaykit.seam.pinning import pinned
from replaykit.seam.rebuild import value_of
from replaykit.seam.results import namespace_of


class AgentCall:
    """One call of an agent function inside a world; `alone` in a process that is there for it."""

    def __init__(self, world: World, *, alone: bool = False) -> None:
        self._world = world
        self._alone = alone
        calls = (call for call in world.calls if isinstance(call, Call))
        tape = Tape(calls, name=world.case_id, started_at=world.pins.started_at)
        tape.holds_date = world.pins.clock is not Clock.LIVE
        self.replayer = Replayer(tape, world.rules, tools=world.tools, models=world.models)
        self.replayer.world = world
        self._began = time.time()

    def run(self, agent: Callable[..., Any], known_by: Callable[..., Any] | None = None) -> TraceRun:
        """Call the agent; an exception of its own is the run's error, `sys.exit` included.

        The classes of the input's objects are those that the agent can name, or the function `known_by`.
        """
        namespace = namespace_of(known_by or agent)
        output: Json = None
        failure: BaseException | None = None
        front = under_chaos(self.replayer, self._world.chaos, recorded=self.replayer.tape.calls)
        with (
            pinned(self._world.pins) as resalt,
            self.replayer.at_work(front, alone=self._alone) as session,
        ):
            session.resalt = resalt
            session.begins_with_run = isinstance(self._world.pins.seed, str)
            try:
                output = finished(call_with(agent, value_of(self._world.input_json, None, namespace)))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 (the candidate's own failure is what is looked for)
                failure = error
        return self.so_far(output, failure)

    def so_far(self, output: Json = None, failure: BaseException | None = None) -> TraceRun:
        """The run up to here."""
        self.replayer.end_tree()  # of a run that hangs, nobody else does
        events = tuple(self.replayer.events())
        return TraceRun(
            id=f"replay-{self._world.case_id}",
            name=self._world.case_id,
            input_json=self._world.input_json,
            output_json=ABSENT if output is None else raw(output),
            status=status_of(failure),
            error=_error_info(failure) if failure is not None else None,
            started_at=self._began,
            ended_at=time.time(),
            origin=Origin(kind="replayed", run=self._world.run_id),
            events=events,
            event_count=len(events),
        )


def _error_info(failure: BaseException) -> ErrorInfo:
    from traceback import format_exception  # noqa: PLC0415 (slow to import; most agents do not fail)

    return describe(failure, traceback="".join(format_exception(failure)))
