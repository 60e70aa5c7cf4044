"""Call a Python agent with a tape behind the seam, and turn what it did into a run.

This also runs in the candidate's process, so it needs only the model, the seam and the replayer.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from replaykit.errors import UsageError
from replaykit.handlers.chaos import under_chaos
from replaykit.handlers.recording.agent_call import call_with, finished, refusal
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, ErrorInfo
from replaykit.model.pins import Clock
from replaykit.model.result import Deviation
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import ABSENT, Json, decode, raw
from replaykit.seam.failures import describe, status_of
from replaykit.seam.pinning import pinned
from replaykit.seam.rebuild import value_of
from replaykit.seam.results import namespace_of


class AgentCall:
    """One call of an agent function inside a world. `alone` means that the process exists only for this call."""

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
        """Call the agent. Any exception it raises, including `SystemExit`, becomes the error of the run.

        Input objects are rebuilt as classes that the agent, or the function `known_by`, can name. With `known_by`, the
        agent must be a function of its input alone.
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
                agent_input = value_of(self._world.input_json, None, namespace)
                output = finished(call_with(agent, agent_input) if known_by is None else agent(agent_input))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 (the candidate's own failure is part of the result)
                failure = error
        return self.so_far(output, failure)

    def so_far(self, output: Json = None, failure: BaseException | None = None) -> TraceRun:
        """Return the run up to now."""
        self.replayer.end_tree()  # a run that hangs never ends its own processes
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


PYTHON, LANGCHAIN = "python", "langchain"
"""The agent types, as spelled in a configuration."""
CONTEXT = "context"
"""The parameter for an agent's additional context, and the kind of deviation if it has no such parameter."""


_TAKES = "It receives the input as its only argument. If the input is a mapping, it receives the members by name."
NO_CONTEXT = "the context was not given to the agent: it has no parameter `context`"


class AgentEntry:
    """An agent together with the way to call it."""

    def __init__(self, found: Any, spec: str, sort: str = PYTHON) -> None:
        self._ask = _way_in(found, spec)
        self._spec = spec
        self._is_chain = sort == LANGCHAIN
        self._takes_context = self._is_chain or _has_parameter(self._ask, CONTEXT)

    def refusal(self, world: World) -> str:
        """Return why the agent cannot be called at all. A wrong signature says nothing about how the agent fails."""
        if self._is_chain:
            return ""
        why = refusal(self._function_call(_context_of(world)), decode(world.input_json))
        if why:
            return f"the agent {self._spec!r} cannot be called with the input: {why}\n{_TAKES}"
        return ""

    def run(self, call: AgentCall, world: World) -> TraceRun:
        """Call the agent inside the world."""
        return call.run(self._chain_call(_context_of(world)), self._ask)

    def deviations(self, call: AgentCall, world: World) -> tuple[Deviation, ...]:
        """Return the deviations from the tape, including a context that the agent could not receive."""
        deviations = call.replayer.all_deviations()
        if world.context_json and not self._takes_context:
            deviations.append(Deviation(kind=CONTEXT, text=NO_CONTEXT))
        return tuple(deviations)

    def _chain_call(self, context: Json) -> Callable[[Json], Any]:
        """Return the agent as a function of its input alone."""
        if self._is_chain:
            return lambda agent_input: _reply_content(self._ask(_chain_input(agent_input, context)))
        ask = self._function_call(context)
        return lambda agent_input: call_with(ask, agent_input)

    def _function_call(self, context: Json) -> Callable[..., Any]:
        if context is None or not self._takes_context:
            return self._ask
        return partial(self._ask, context=context)


def _context_of(world: World) -> Json:
    if world.context_json:
        return decode(world.context_json)
    return None


def _way_in(found: Any, spec: str) -> Callable[..., Any]:
    """Return the function to call: the object's `invoke` or `ainvoke`, or the object itself."""
    for name in ("invoke", "ainvoke"):
        method = getattr(found, name, None)
        if callable(method):
            if isinstance(found, type):
                raise UsageError(f"the agent {spec!r} is a class", hint="Name an instance of it, or a function.")
            return method  # type: ignore[no-any-return]
    if not callable(found):
        kind = type(found).__name__
        raise UsageError(f"the agent {spec!r} is of type {kind}, which is not callable and has no method `invoke`")
    return found  # type: ignore[no-any-return]


def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _chain_input(agent_input: Json, context: Json) -> Json:
    """Return the argument for `invoke`: a mapping unchanged, anything else as its `input`."""
    chain_input = dict(agent_input) if isinstance(agent_input, dict) else {"input": agent_input}
    if context is None:
        return chain_input
    return {CONTEXT: context, **chain_input}


def _reply_content(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return output_of_chain(result)

    async def later() -> Any:
        return output_of_chain(await result)

    return later()


def output_of_chain(result: Any) -> Any:
    """Extract the output from a chain's result: its `output`, `text` or last message, or a message's content."""
    if isinstance(result, dict):
        for key in ("output", "text"):
            if key in result:
                return _message_content(result[key])
        messages = result.get("messages")
        if isinstance(messages, list) and messages:
            return _message_content(messages[-1])
    return _message_content(result)


def _message_content(message: Any) -> Any:
    if isinstance(message, dict):
        if "content" in message and "role" in message:
            return message["content"]
        return message
    if isinstance(message, str):
        return message
    return getattr(message, "content", message)
