"""Call an agent function with a tape behind the seam, and make a run of what it did.

Runs in the candidate's process as well, so it needs no more than the model, the seam and the replayer.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from msgspec import Struct

from replaykit.model.events import AnyEvent, Call
from replaykit.model.matching import MatchRules, ToolMode
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import ABSENT, NULL, Json, Raw, decode, raw
from replaykit.replayer.handler import Replayer
from replaykit.replayer.tape import Tape
from replaykit.seam.failures import describe, status_of
from replaykit.seam.scope import Session


class World(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent meets in a replay: the input, the recorded calls, and the rules."""

    case_id: str
    input_json: Raw = NULL
    calls: tuple[AnyEvent, ...] = ()
    rules: MatchRules = MatchRules()
    tools: dict[str, ToolMode] = {}
    models: ToolMode = ToolMode.RECORDED
    run_id: str | None = None
    """The recorded run it is made of."""


class AgentCall:
    """One call of an agent function inside a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        tape = Tape((call for call in world.calls if isinstance(call, Call)), name=world.case_id)
        self.replayer = Replayer(tape, world.rules, tools=world.tools, models=world.models)
        self._began = time.time()

    def run(self, agent: Callable[..., Any]) -> TraceRun:
        """Call the agent; an exception of its own is the run's error, `sys.exit` included."""
        output: Json = None
        failure: BaseException | None = None
        with Session(self.replayer).active():
            try:
                output = _finished(call_with(agent, decode(self._world.input_json)))
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
            id=f"replay-{self._world.case_id}",
            name=self._world.case_id,
            input_json=self._world.input_json,
            output_json=ABSENT if output is None else raw(output),
            status=status_of(failure),
            error=describe(failure, traceback=text) if failure is not None else None,
            started_at=self._began,
            ended_at=time.time(),
            origin=Origin(kind="replayed", run=self._world.run_id),
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
    if isinstance(given, dict) and given and _takes_names(list(parameters.values()), given):
        return agent(**given)
    return agent(given)


def _takes_names(parameters: list[inspect.Parameter], given: dict[str, Json]) -> bool:
    """True when the agent takes the members of its input as arguments of their own, not the input as one."""
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return True
    return len(parameters) > 1 and named >= given.keys()


def _finished(result: Any) -> Any:
    """The value an agent gave: awaited if it is a coroutine, its items in a list if it streams."""
    if inspect.isgenerator(result):
        return list(result)
    if inspect.isasyncgen(result):
        return _run_loop(_collected(result))
    return _run_loop(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


def _run_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end; beside a loop that runs here already, in a thread of its own."""
    import asyncio  # noqa: PLC0415 (slow to import; only async agents need it)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (slow to import; rarely needed)

    with ThreadPoolExecutor(1) as pool:
        # Not through the pool's own `submit`: the loop is the agent, not a job of it.
        return pool.submit(partial(copy_context().run, asyncio.run, main)).result()
