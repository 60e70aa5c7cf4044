"""Call an agent function of any shape with an input."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

from replaykit.model.values import Json, JsonObject
from replaykit.seam.own_code import Function


def call_with(agent: Function, agent_input: Json) -> Any:
    """Call the agent with a case's input, as its only argument or, if it takes several, by name."""
    arguments, named = _arguments(agent, agent_input)
    return agent(*arguments, **named)


def refusal(agent: Function, agent_input: Json) -> str:
    """Return why the agent cannot be called with a case's input; empty if it can, or if its signature is unknown."""
    arguments, named = _arguments(agent, agent_input)
    try:
        # Do not follow wrapped functions: a wrapper may add arguments of its own.
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
    """Return whether the agent takes the members of its input as separate arguments."""
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return True
    # A single parameter takes the whole input, even if the input has a member of that name.
    return len(parameters) > 1 and named >= agent_input.keys()


def finished(result: Any) -> Any:
    """Return an agent's result: awaited if it is a coroutine, collected into a list if it is a generator."""
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
    """Run a coroutine to its end, in a separate thread if this one already runs an event loop."""
    import asyncio  # noqa: PLC0415 (slow to import; only async agents need it)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (slow to import; rarely needed)

    context = copy_context()
    with ThreadPoolExecutor(1) as pool:
        # Run in this context instead of that of a pool job: the loop is the agent itself, not a job of it.
        return pool.submit(lambda: context.run(asyncio.run, main)).result()
