"""CrewAI: its tools through the seam.

    agent = Agent(role="…", goal="…", backstory="…", tools=tools([search, charge]))

CrewAI's hooks can block a tool or replace its result, but cannot answer in its place. So the tool itself is wrapped,
below its validation, usage count and cache.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure
from crewai.utilities.string_utils import sanitize_tool_name

from replaykit.integrations.wrapping import arguments_by_name, effect_of, reads_the_same
from replaykit.model.values import Json
from replaykit.seam.framework_tools import acall_tool, call_tool

_FAILURE = "tool_failure"


def tools(framework_tools: Iterable[Any], *, effects: Mapping[str, str] | None = None) -> list[Any]:
    """Wrap each tool; `effects` maps tool names to what their calls do to the world."""
    return [wrap(tool, effects=effects) for tool in framework_tools]


def wrap(tool: Any, *, effects: Mapping[str, str] | None = None) -> Any:
    """Return a copy of the tool whose calls are recorded and served, under the name that the model uses."""
    name = sanitize_tool_name(tool.name)
    through = functools.partial(_through_seam, tool, name, effect_of(name, effects))
    if isinstance(tool, Tool):  # every way to call it ends in this function
        return tool.model_copy(update={"func": through(tool.func)})
    wrapped = tool.model_copy()
    object.__setattr__(wrapped, "_run", through(tool._run))
    if type(tool)._arun is not BaseTool._arun:
        object.__setattr__(wrapped, "_arun", through(tool._arun))
    return wrapped


def _through_seam(tool: Any, name: str, effects: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def keep(result: Any) -> Json:
        if isinstance(result, ToolFailure):
            return {_FAILURE: result.model_dump(mode="json")}
        if reads_the_same(result, fn):
            return result
        return str(result)

    seam: dict[str, Any] = {"keep": keep, "give": _from_recorded, "fn": fn, "effects": effects}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = arguments_by_name(tool.args_schema.model_fields, args, kwargs)
        if arguments is None:
            return fn(*args, **kwargs)
        return call_tool(name, arguments, lambda call_arguments: fn(**call_arguments), **seam)

    @functools.wraps(fn)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        arguments = arguments_by_name(tool.args_schema.model_fields, args, kwargs)
        if arguments is None:
            return await fn(*args, **kwargs)
        return await acall_tool(name, arguments, lambda call_arguments: fn(**call_arguments), **seam)

    if inspect.iscoroutinefunction(fn):
        return acall
    return call


def _from_recorded(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {_FAILURE}:
        return ToolFailure.model_validate(value[_FAILURE])
    return value
