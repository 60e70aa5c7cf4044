"""Call an agent function with an input, whatever shape it has."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

from replaykit.model.values import Json, JsonObject
from replaykit.seam.own_code import Function


def call_with(agent: Function, agent_input: Json) -> Any:
    """Call the agent with a case's input: as its one argument, or by name where it takes several."""
    arguments, named = _arguments(agent, agent_input)
    return agent(*arguments, **named)


def refusal(agent: Function, agent_input: Json) -> str:
    """Return why the agent cannot be called with a case's input at all; empty when it can, or nobody knows before."""
    arguments, named = _arguments(agent, agent_input)
    try:
        # A wrapper may add arguments of its own: what it wraps says nothing about what it takes.
        signature = inspect.signature(agent, follow_wrapped=False)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        return str(error)
    return ""


def _arguments(agent: Function, agent_input: Json) -> tuple[tuple[Json, ...], JsonObject]:
    try:
        parameters = inspect.signature(agent).parameters
    except (TypeError, ValueError):
        return (agent_input,), {}
    if not parameters:
        return (), {}
    if isinstance(agent_input, dict) and agent_input and _takes_names(list(parameters.values()), agent_input):
        return (), agent_input
    return (agent_input,), {}


def _takes_names(parameters: list[inspect.Parameter], agent_input: JsonObject) -> bool:
    """True when the agent takes the members of its input as arguments of their own, not the input as one."""
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return True
    return len(parameters) > 1 and named >= agent_input.keys()


def finished(result: Any) -> Any:
    """The value an agent gave: awaited if it is a coroutine, its items in a list if it streams."""
    if inspect.isgenerator(result):
        return list(result)
    if inspect.isasyncgen(result):
        return _run_loop(_collected(result))
    if inspect.isawaitable(result):
        return _run_loop(_awaited(result))
    return result


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

    context = copy_context()
    with ThreadPoolExecutor(1) as pool:
        # In this context, inside the one that a job of a pool gets: the loop is the agent, not a job of it.
        return pool.submit(lambda: context.run(asyncio.run, main)).result()
