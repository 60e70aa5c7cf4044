"""OpenAI Agents SDK: its function tools through the seam.

    agent = Agent(name="desk", tools=tools([search, charge]))

Its hooks observe and cannot answer in place of a tool. So the tool itself is wrapped, inside the code that turns an
exception into text. Hosted tools are part of the model's answer, and tools of MCP servers are recorded as MCP.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from pydantic import ValidationError

from replaykit.integrations.wrapping import effect_of, reads_the_same
from replaykit.model.values import Json, JsonObject, is_plain
from replaykit.seam.framework_tools import acall_tool
from replaykit.seam.rebuild import return_hint

_OUTPUTS: dict[str, Any] = {"text": ToolOutputText, "image": ToolOutputImage, "file": ToolOutputFileContent}
Invoke = Callable[[Any, str], Awaitable[Any]]


def tools(framework_tools: Iterable[Any], *, effects: Mapping[str, str] | None = None) -> list[Any]:
    """Wrap each function tool; `effects` maps tool names to what their calls do to the world."""
    return [wrap(tool, effects=effects) if isinstance(tool, FunctionTool) else tool for tool in framework_tools]


def wrap(tool: Any, *, effects: Mapping[str, str] | None = None) -> Any:
    """Return a copy of the function tool whose calls are recorded and served."""
    wrapped = copy.copy(tool)
    through = functools.partial(_through_seam, tool, effect_of(tool.name, effects))
    invoker = wrapped.on_invoke_tool
    inner = getattr(invoker, "_invoke_tool_impl", None)  # the layer around it turns exceptions into text
    if inner is None:
        wrapped.on_invoke_tool = through(invoker)
    else:
        invoker._invoke_tool_impl = through(inner)
    return wrapped


def _through_seam(tool: Any, effects: str, invoke: Invoke) -> Invoke:
    fn = getattr(tool, "__wrapped__", None)
    typed = None if fn is None or return_hint(fn) is None else fn

    def keep(result: Any) -> Json:
        if typed is not None and reads_the_same(result, typed):
            return result
        return _to_recorded(result)

    @functools.wraps(invoke)
    async def call(context: Any, text: str) -> Any:
        arguments = _parse_arguments(text)

        async def live(call_arguments: JsonObject) -> Any:
            return await invoke(context, text if call_arguments == arguments else json.dumps(call_arguments))

        return await acall_tool(tool.name, arguments, live, keep=keep, give=_from_recorded, fn=fn, effects=effects)

    return call


def _parse_arguments(text: str) -> JsonObject:
    """Parse the arguments; text that is not a JSON object is kept for the tool to refuse."""
    try:
        arguments = json.loads(text) if text else {}
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    return {"input": text}


def _to_recorded(result: Any) -> Json:
    """Return plain data and the SDK's own outputs as JSON; anything else as the text that the model gets."""
    if isinstance(result, list):
        return list(map(_to_recorded, result))
    is_sdk_output = isinstance(result, tuple(_OUTPUTS.values()))
    if is_sdk_output:
        return result.model_dump(exclude_none=True)
    if is_plain(result):
        return result
    return str(result)


def _from_recorded(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_from_recorded, value))
    kind = _OUTPUTS.get(str(value.get("type"))) if isinstance(value, dict) else None
    try:
        if kind is None:
            return value
        return kind.model_validate(value)
    except ValidationError:
        return value  # the tool's own data, which happens to have a "type"
