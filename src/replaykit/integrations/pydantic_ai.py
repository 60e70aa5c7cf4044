"""Pydantic AI: its tools through the seam.

    agent = Agent("openai:gpt-5", tools=[search, charge], capabilities=[ReplayKit()])

A result is recorded in JSON as the model gets it; files and `ToolReturn` come back as such. Hooks of the agent's other
capabilities run around the tool: `before_tool_execute` and `after_tool_execute` are not called for a served result,
`wrap_tool_execute` is.
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
    """Capability that records and serves an agent's tool calls.

    `effects` maps tool names to what their calls do to the world.
    """

    def __init__(self, *, effects: Mapping[str, str] | None = None) -> None:
        self.effects = checked_effects(effects)

    def get_ordering(self) -> CapabilityOrdering:
        """Stay next to the tool, so that other capabilities process its result in a replay too."""
        return CapabilityOrdering(position="innermost")

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Return the tool's result, from the recording or from the tool itself."""

        async def live(call_arguments: dict[str, Any]) -> Any:
            try:
                return await handler(args if call_arguments == args else call_arguments)
            except Exception as error:
                # A retry carries the id of its call. The tool's own exception has none; Pydantic AI wraps it again.
                if isinstance(error.__cause__, ModelRetry | ToolFailed):
                    raise error.__cause__ from None
                raise

        effects = self.effects.get(call.tool_name, "external")
        return await acall_tool(call.tool_name, args, live, keep=_to_recorded, give=_from_recorded, effects=effects)


def _to_recorded(result: Any) -> Json:
    adapter = _TOOL_RETURN if isinstance(result, ToolReturn) else tool_return_content_ta
    try:
        return adapter.dump_python(result, mode="json", by_alias=True)
    except ValueError:
        return result  # not serializable; the recording reports it


def _from_recorded(value: Any) -> Any:
    if isinstance(value, dict) and value.get("kind") == "tool-return":
        try:
            return _TOOL_RETURN.validate_python(value)
        except ValidationError:
            pass  # the tool's own data, which happens to have a "kind"
    return tool_return_content_ta.validate_python(value)
