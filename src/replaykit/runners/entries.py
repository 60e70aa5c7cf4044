"""Entries: the ways to ask an agent that lives in Python. Runs in the candidate's process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from replaykit.errors import UsageError
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, decode
from replaykit.recording.calling import call_with, refusal
from replaykit.replayer.world import World
from replaykit.runners.calling import AgentCall

PYTHON, LANGCHAIN = "python", "langchain"
"""The sorts of entries, as a configuration names them."""
CONTEXT = "context"
"""The parameter that is given what an agent knows besides its input, and the deviation of one that has none."""


_TAKES = "It gets the input as its one argument, or the members of an input that is a mapping, by name."
NO_CONTEXT = "the context was not given to the agent: it has no parameter `context`"


class Entry:
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
        why = refusal(self._given(_context_of(world)), decode(world.input_json))
        return f"the agent {self._spec!r} cannot be called with the input: {why}\n{_TAKES}" if why else ""

    def run(self, call: AgentCall, world: World) -> TraceRun:
        """Ask the agent inside of the world."""
        return call.run(self._asked(_context_of(world)), self._ask)

    def deviations(self, call: AgentCall, world: World) -> tuple[Deviation, ...]:
        """What happened off the tape; and that it was not given the context, if it was not."""
        told = call.replayer.all_deviations()
        if world.context_json and not self._takes_context:
            told.append(Deviation(kind=CONTEXT, text=NO_CONTEXT))
        return tuple(told)

    def _asked(self, context: Json) -> Callable[[Json], Any]:
        """The agent as a function of its input alone."""
        if self._is_chain:
            return lambda given: _said(self._ask(_chain_input(given, context)))
        ask = self._given(context)
        return lambda given: call_with(ask, given)

    def _given(self, context: Json) -> Callable[..., Any]:
        return self._ask if context is None or not self._takes_context else partial(self._ask, context=context)


def _context_of(world: World) -> Json:
    return decode(world.context_json) if world.context_json else None


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


def _chain_input(given: Json, context: Json) -> Json:
    """What a chain is invoked with: a mapping as it is, anything else as its `input`."""
    asked = dict(given) if isinstance(given, dict) else {"input": given}
    return asked if context is None else {CONTEXT: context, **asked}


def _said(result: Any) -> Any:
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
        return message["content"] if "content" in message and "role" in message else message
    return message if isinstance(message, str) else getattr(message, "content", message)
