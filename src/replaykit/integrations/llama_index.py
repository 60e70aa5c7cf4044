"""LlamaIndex: its tools through the seam.

    agent = FunctionAgent(tools=tools([search, charge]), llm=llm)

Its instrumentation observes and cannot answer in place of a tool, so the tool itself is wrapped. Arguments that do not
come from the model, such as the workflow's `Context` and partial parameters, are passed on and not recorded.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from llama_index.core.base.llms.types import TextBlock
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.types import BaseTool, adapt_to_async_tool

from replaykit.integrations.wrapping import arguments_by_name, effect_of
from replaykit.model.values import Json, JsonObject
from replaykit.seam.framework_tools import acall_tool, call_tool


def tools(framework_tools: Iterable[Any], *, effects: Mapping[str, str] | None = None) -> list[Any]:
    """Wrap each tool; `effects` maps tool names to what their calls do to the world."""
    return [wrap(tool, effects=effects) for tool in framework_tools]


def wrap(tool: Any, *, effects: Mapping[str, str] | None = None) -> Any:
    """Return a copy of the tool, or a tool made of the function, whose calls are recorded and served."""
    own = adapt_to_async_tool(tool if isinstance(tool, BaseTool) else FunctionTool.from_defaults(tool))
    name = own.metadata.get_name()
    wrapped, through = copy.copy(own), _LlamaIndexToolCall(own, name, effect_of(name, effects))
    wrapped.call, wrapped.acall = through.call, through.acall
    return wrapped


class _LlamaIndexToolCall(msgspec.Struct, frozen=True):
    """The sync and async calls of a tool, through the seam."""

    tool: Any
    name: str
    effects: str

    def call(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self._model_arguments(args, kwargs)
        if arguments is None:
            return self.tool.call(*args, **kwargs)

        def live(call_arguments: JsonObject) -> Any:
            if call_arguments == arguments:
                return self.tool.call(*args, **kwargs)
            return self.tool.call(**{**kwargs, **call_arguments})

        return call_tool(
            self.name, arguments, live, keep=_to_recorded, give=self._giver(arguments), effects=self.effects
        )

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self._model_arguments(args, kwargs)
        if arguments is None:
            return await self.tool.acall(*args, **kwargs)

        async def live(call_arguments: JsonObject) -> Any:
            same = call_arguments == arguments
            return await (self.tool.acall(*args, **kwargs) if same else self.tool.acall(**{**kwargs, **call_arguments}))

        return await acall_tool(
            self.name, arguments, live, keep=_to_recorded, give=self._giver(arguments), effects=self.effects
        )

    def _model_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments from the model, by name."""
        partial = getattr(self.tool, "partial_params", {})
        context = getattr(self.tool, "ctx_param_name", None)
        by_model = {}
        for name, value in kwargs.items():
            if name != context and not (name in partial and partial[name] is value):
                by_model[name] = value
        return arguments_by_name(self.tool.metadata.get_parameters_dict()["properties"], args, by_model)

    def _giver(self, arguments: dict[str, Any]) -> Any:
        return lambda value: _from_recorded(self.name, arguments, value)


def _to_recorded(output: Any) -> Json:
    """Return a plain text as it is; for anything else, the blocks for the model and the tool's own return value."""
    texts = [block.text for block in output.blocks if isinstance(block, TextBlock)]
    if texts == [output.raw_output] and len(output.blocks) == 1 and not output.is_error:
        return output.raw_output
    blocks = [block.model_dump(mode="json", exclude_none=True) for block in output.blocks]
    return {"blocks": blocks, "raw_output": output.raw_output, "is_error": output.is_error}


def _from_recorded(name: str, arguments: dict[str, Any], value: Any) -> Any:
    if isinstance(value, str):
        value = {"blocks": [{"block_type": "text", "text": value}], "raw_output": value}
    return ToolOutput(name, raw_input={"args": (), "kwargs": arguments}, **value)
