"""Pydantic AI: its tools through the seam.

    agent = Agent("openai:gpt-5", tools=[search, charge], capabilities=[ReplayKit()])

Recorded is a result as the model is told it, in JSON; files and `ToolReturn` come back as what they were. The hooks
around a tool of the agent's other capabilities run with the tool: `before_tool_execute` and `after_tool_execute` are
not called for a served result, `wrap_tool_execute` is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import ToolReturn
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import tool_return_content_ta

from replaykit.integrations.wrapping import checked_effects
from replaykit.model.values import Json
from replaykit.seam.framework_tools import acall_tool

_TOOL_RETURN = TypeAdapter(ToolReturn)


class ReplayKit(AbstractCapability[Any]):
    """The capability that records and serves an agent's tool calls.

    `effects` says by a tool's name what its calls do to the world.
    """

    def __init__(self, *, effects: Mapping[str, str] | None = None) -> None:
        self.effects = checked_effects(effects)

    def get_ordering(self) -> CapabilityOrdering:
        """Next to the tool, so that what other capabilities make of its result is made in a replay too."""
        return CapabilityOrdering(position="innermost")

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """The tool's result, from the recording or from the tool."""

        async def live(call_arguments: dict[str, Any]) -> Any:
            try:
                return await handler(args if call_arguments == args else call_arguments)
            except Exception as error:
                # A retry travels with the id of its call. What the tool raised has none, and is wrapped again above.
                if isinstance(error.__cause__, ModelRetry | ToolFailed):
                    raise error.__cause__ from None
                raise

        effects = self.effects.get(call.tool_name, "external")
        return await acall_tool(call.tool_name, args, live, keep=_to_recorded, give=_from_recorded, effects=effects)


def _to_recorded(result: Any) -> Json:
    if isinstance(result, ToolReturn):
        adapter = _TOOL_RETURN
    else:
        adapter = tool_return_content_ta
    try:
        return adapter.dump_python(result, mode="json", by_alias=True)
    except ValueError:
        return result  # there is no JSON of it; the recording says what it can


def _from_recorded(value: Any) -> Any:
    if isinstance(value, dict) and value.get("kind") == "tool-return":
        try:
            return _TOOL_RETURN.validate_python(value)
        except ValidationError:
            pass  # data of the tool's own that has a "kind"
    return tool_return_content_ta.validate_python(value)
