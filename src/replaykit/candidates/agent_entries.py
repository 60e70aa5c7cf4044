"""Entries: the ways to ask an agent that lives in Python. Runs in the candidate's process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from replaykit.candidates.agent_run import AgentCall
from replaykit.errors import UsageError
from replaykit.handlers.recording.agent_call import call_with, refusal
from replaykit.handlers.replay.world import World
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, decode

PYTHON, LANGCHAIN = "python", "langchain"
"""The sorts of entries, as a configuration names them."""
CONTEXT = "context"
"""The parameter that is given what an agent knows besides its input, and the deviation of one that has none."""


_TAKES = "It gets the input as its one argument, or the members of an input that is a mapping, by name."
NO_CONTEXT = "the context was not given to the agent: it has no parameter `context`"


class AgentEntry:
    """An agent, ready to be asked with an input and what it knows besides."""

    def __init__(self, found: Any, spec: str, sort: str = PYTHON) -> None:
        self._ask = _way_in(found, spec)
        self._spec = spec
        self._is_chain = sort == LANGCHAIN
        self._takes_context = self._is_chain or _has_parameter(self._ask, CONTEXT)

    def refusal(self, world: World) -> str:
        """Why the agent cannot be asked at all: that it takes other arguments says nothing of how it fails."""
        if self._is_chain:
            return ""
        why = refusal(self._function_call(_context_of(world)), decode(world.input_json))
        if why:
            return f"the agent {self._spec!r} cannot be called with the input: {why}\n{_TAKES}"
        return ""

    def run(self, call: AgentCall, world: World) -> TraceRun:
        """Ask the agent inside of the world."""
        return call.run(self._chain_call(_context_of(world)), self._ask)

    def deviations(self, call: AgentCall, world: World) -> tuple[Deviation, ...]:
        """What happened off the tape; and that it was not given the context, if it was not."""
        deviations = call.replayer.all_deviations()
        if world.context_json and not self._takes_context:
            deviations.append(Deviation(kind=CONTEXT, text=NO_CONTEXT))
        return tuple(deviations)

    def _chain_call(self, context: Json) -> Callable[[Json], Any]:
        """The agent as a function of its input alone."""
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
    """The function to call: `invoke` or `ainvoke` of an object that has one, else the thing itself."""
    for name in ("invoke", "ainvoke"):
        method = getattr(found, name, None)
        if callable(method):
            if isinstance(found, type):
                raise UsageError(f"the agent {spec!r} is a class", hint="Name an instance of it, or a function.")
            return method  # type: ignore[no-any-return]
    if not callable(found):
        kind = type(found).__name__
        raise UsageError(f"the agent {spec!r} is a {kind}, not something to call: it has no method `invoke` either")
    return found  # type: ignore[no-any-return]


def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _chain_input(agent_input: Json, context: Json) -> Json:
    """What a chain is invoked with: a mapping as it is, anything else as its `input`."""
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
    """What a chain said: the output, the text or the last message of a mapping; the content of a message."""
    if isinstance(result, dict):
        for key in ("output", "text"):
            if key in result:
                return _content(result[key])
        messages = result.get("messages")
        if isinstance(messages, list) and messages:
            return _content(messages[-1])
    return _content(result)


def _content(message: Any) -> Any:
    if isinstance(message, dict):
        if "content" in message and "role" in message:
            return message["content"]
        return message
    if isinstance(message, str):
        return message
    return getattr(message, "content", message)
