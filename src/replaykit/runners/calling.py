"""Call an agent function inside a replay, and make a run of what it did."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable
from typing import Any

from replaykit.cases.case import ReplayCase
from replaykit.cases.fixtures import read_fixtures
from replaykit.model.matching import ToolMode
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import ABSENT, Json, raw
from replaykit.recording.run import status_of
from replaykit.replayer.handler import Replayer
from replaykit.replayer.tape import Tape
from replaykit.seam.failures import describe
from replaykit.seam.scope import Session


class AgentCall:
    """One call of an agent function with a case's tape behind the seam."""

    def __init__(self, case: ReplayCase, tape: Tape | None = None) -> None:
        self.case = case
        sources = {name: ToolMode(mode) for name, mode in case.scenario.tools}
        tape = tape if tape is not None else Tape(read_fixtures(case.directory), name=case.id)
        self.replayer = Replayer(tape, case.scenario.match, sources=sources)
        self._session = Session(self.replayer)
        self._began = time.time()

    def run(self, agent: Callable[..., Any]) -> TraceRun:
        """Call the agent; an exception of its own is the run's error, `sys.exit` included."""
        output: Json = None
        failure: BaseException | None = None
        with self._session.active():
            try:
                output = _finished(call_with(agent, self.case.scenario.input))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 (the candidate's own failure is what is looked for)
                failure = error
        return self.so_far(output, failure)

    def so_far(self, output: Json = None, failure: BaseException | None = None) -> TraceRun:
        """The run up to here."""
        events = tuple(self.replayer.events())
        text = "".join(traceback.format_exception(failure)) if failure is not None else None
        return TraceRun(
            id=f"replay-{self.case.id}",
            name=self.case.id,
            input_json=self.case.scenario.input_json,
            output_json=ABSENT if output is None else raw(output),
            status=status_of(failure),
            error=describe(failure, traceback=text) if failure is not None else None,
            started_at=self._began,
            ended_at=time.time(),
            origin=Origin(kind="replayed", run=self.case.source.run),
            events=events,
            event_count=len(events),
        )


def call_with(agent: Callable[..., Any], given: Json) -> Any:
    """Call the agent with a case's input: as its one argument, or by name where it takes several."""
    try:
        parameters = inspect.signature(agent).parameters
    except (TypeError, ValueError):
        return agent(given)
    if not parameters:
        return agent()
    if isinstance(given, dict) and len(parameters) > 1 and given and parameters.keys() >= given.keys():
        return agent(**given)
    return agent(given)


def _finished(result: Any) -> Any:
    """The value an agent gave, awaited if it is a coroutine."""
    if inspect.isawaitable(result):
        import asyncio  # noqa: PLC0415 (slow to import; only async agents need it)

        async def wait() -> Any:
            return await result

        return asyncio.run(wait())
    return result
