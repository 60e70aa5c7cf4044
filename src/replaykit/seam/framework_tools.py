"""Tools that a framework calls, through the seam: the building blocks of adapters.

A framework knows a tool by its name, and calls it with arguments of its own making. An adapter passes both on, with a
function that does the call for real; outside of a run, only that function runs. A function that is a `@tool` itself and
is called by such a framework is one call, not two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from replaykit.errors import wrong_argument
from replaykit.model.values import Json, JsonObject, Raw, canonical, sayable
from replaykit.seam.foreign_threads import scope_of_call
from replaykit.seam.own_code import Function
from replaykit.seam.parameters import Parameters
from replaykit.seam.results import ToolValues
from replaykit.seam.scope import TOOL, CallAnswer, PendingCall, Scope, pending_call, wall_time
from replaykit.seam.through import athrough, through

T = TypeVar("T")
Arguments = JsonObject


def call_tool(
    name: str,
    arguments: Mapping[str, Json],
    live: Callable[[Arguments], T],
    *,
    keep: Callable[[T], Json] | None = None,
    give: Callable[[Any], T] | None = None,
    fn: Function | None = None,
    effects: str = "external",
) -> T:
    """Return the result of a tool's call: the recorded one in a replay, or else that of `live`, which is recorded.

    `live` gets the arguments, which a fork may have changed. `keep` turns a result into plain data, and `give` turns
    data into a result. `fn` is the function behind the tool, whose return annotation tells how to rebuild recorded
    data.

    >>> rk.call_tool("search_docs", {"query": "refunds"}, lambda arguments: [arguments["query"]])
    ['refunds']
    """
    _check("rk.call_tool", name, arguments, live)
    scope = scope_of_call(name)
    if scope is None:
        return live(dict(arguments))
    call = _pending(scope, name, arguments, effects, fn)
    values = ToolValues(call.name, fn)
    do = partial(_do, live, call, arguments)
    return through(scope, call, do, _giver(give, values), _keeper(keep, values))


async def acall_tool(
    name: str,
    arguments: Mapping[str, Json],
    live: Callable[[Arguments], Awaitable[T]],
    *,
    keep: Callable[[T], Json] | None = None,
    give: Callable[[Any], T] | None = None,
    fn: Function | None = None,
    effects: str = "external",
) -> T:
    """Do the same as `call_tool` for an async tool.

    >>> async def search(arguments):
    ...     return [arguments["query"]]
    >>> asyncio.run(rk.acall_tool("search_docs", {"query": "refunds"}, search))
    ['refunds']
    """
    _check("rk.acall_tool", name, arguments, live)
    scope = scope_of_call(name)
    if scope is None:
        return await live(dict(arguments))
    call = _pending(scope, name, arguments, effects, fn)
    values = ToolValues(call.name, fn)
    do = partial(_do, live, call, arguments)
    return await athrough(scope, call, do, _giver(give, values), _keeper(keep, values))


def _check(call: str, name: str, arguments: Mapping[str, Json], live: object) -> None:
    """Refuse a wrong argument. Written by hand, because it runs in each call of a tool."""
    example = f"{call}(\"search_docs\", {{'query': question}}, search_docs)"
    if not isinstance(name, str):
        raise wrong_argument(call, name, example, name="name")
    if not isinstance(arguments, Mapping):
        raise wrong_argument(call, arguments, example, name="arguments")
    if not callable(live):
        raise wrong_argument(call, live, example, name="live")


def _pending(scope: Scope, name: str, arguments: Mapping[str, Json], effects: str, fn: Function | None) -> PendingCall:
    call = pending_call(TOOL, sayable(name), canonical(dict(arguments)), scope, wall_time(), effects)
    call.hosted = True
    if fn is not None and scope.session.is_foreign:
        call.parameters = Parameters(fn)
    return call


def _do(live: Callable[[Arguments], T], call: PendingCall, arguments: Mapping[str, Json]) -> T:
    """Do the call, with its own arguments or with others from a fork."""
    if call.override is None:
        return live(dict(arguments))
    return live(call.override)


def _keeper(keep: Callable[[T], Json] | None, values: ToolValues) -> Callable[[T], Raw]:
    if keep is None:
        return values.keep
    return lambda result: values.keep(keep(result))


def _giver(give: Callable[[Any], T] | None, values: ToolValues) -> Callable[[CallAnswer], T]:
    if give is None:
        return values.answer
    return lambda answer: give(values.answer(answer))
