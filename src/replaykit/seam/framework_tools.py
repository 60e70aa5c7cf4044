"""Tools that somebody else calls, through the seam: what adapters of frameworks are made of.

A framework knows a tool by its name and calls it with arguments of its own making. An adapter hands both over, with a
function that does the call for real; outside of a run that is all that happens. A function that is a `@tool` itself
and is called by such a framework is one call, not two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from replaykit.model.tool_errors import is_raised
from replaykit.model.values import Json, Raw, canonical, sayable
from replaykit.seam.foreign_threads import scope_of_call
from replaykit.seam.own_code import Function
from replaykit.seam.parameters import Parameters
from replaykit.seam.real_time import wall_time
from replaykit.seam.results import ToolValues
from replaykit.seam.scope import TOOL, CallAnswer, PendingCall, Scope, pending_call
from replaykit.seam.through import athrough, through

T = TypeVar("T")
Arguments = dict[str, Json]


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
    """The result of a tool's call: the recorded one in a replay, or else that of `live`, written down.

    `live` is given the arguments, which a fork may have changed. `keep` makes plain data of a result, and `give` a
    result of that data. `fn` is the function behind the tool, whose return annotation says what recorded data is.
    """
    scope = scope_of_call(name)
    if scope is None:
        return live(dict(arguments))
    call = _pending(scope, name, arguments, effects, fn)
    values = ToolValues(call.name, fn)
    return through(
        scope, call, lambda: live(_fork_arguments(call, arguments)), _giver(give, values), _keeper(keep, values)
    )


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
    """`call_tool`, for a tool that is awaited."""
    scope = scope_of_call(name)
    if scope is None:
        return await live(dict(arguments))
    call = _pending(scope, name, arguments, effects, fn)
    values = ToolValues(call.name, fn)
    return await athrough(
        scope, call, lambda: live(_fork_arguments(call, arguments)), _giver(give, values), _keeper(keep, values)
    )


def _pending(scope: Scope, name: str, arguments: Mapping[str, Json], effects: str, fn: Function | None) -> PendingCall:
    call = pending_call(TOOL, sayable(name), canonical(dict(arguments)), scope, wall_time(), effects)
    call.hosted = True
    if fn is not None and scope.session.is_foreign:
        call.parameters = Parameters(fn)
    return call


def _fork_arguments(call: PendingCall, arguments: Mapping[str, Json]) -> Arguments:
    return dict(arguments) if call.override is None else call.override


def _keeper(keep: Callable[[T], Json] | None, values: ToolValues) -> Callable[[T], Raw]:
    return values.keep if keep is None else lambda result: values.keep(keep(result))


def _giver(give: Callable[[Any], T] | None, values: ToolValues) -> Callable[[CallAnswer], T]:
    def unpack(answer: CallAnswer) -> T:
        if answer.error is not None and is_raised(answer):
            values.raise_error(answer.error)
        value = values.give(answer.result_json)
        return value if give is None else give(value)

    return unpack
