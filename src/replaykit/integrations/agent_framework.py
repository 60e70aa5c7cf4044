"""Microsoft Agent Framework: its function tools through the seam.

    agent = Agent(client, tools=[search, charge], middleware=[ReplayKitMiddleware()])

A result of a single text is recorded as that text, other content as data; both come back as the framework's `Content`.
A divergence stops the run: it is the cause of the `MiddlewareFailure` that the caller sees.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent_framework import Content, FunctionMiddleware, MiddlewareFailure
from pydantic import BaseModel

from replaykit.errors import ReplayKitError
from replaykit.integrations.wrapping import checked_effects
from replaykit.model.values import Json, JsonObject
from replaykit.seam.framework_tools import acall_tool

_CONTENTS = "contents"


class AgentFrameworkMiddleware(FunctionMiddleware):
    """Middleware that records and serves an agent's function calls.

    `effects` maps tool names to what their calls do to the world. Put it last in the list, next to the function.
    """

    def __init__(self, *, effects: Mapping[str, str] | None = None) -> None:
        self.effects = checked_effects(effects)

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        """Set the function's result, from the recording or from the function itself."""
        arguments = context.arguments
        if isinstance(arguments, BaseModel):
            arguments = arguments.model_dump()
        else:
            arguments = dict(arguments)

        async def live(call_arguments: JsonObject) -> Any:
            if call_arguments != arguments:
                context.arguments = call_arguments
            await call_next()
            return context.result

        name = context.function.name
        effects = self.effects.get(name, "external")
        try:
            context.result = await acall_tool(
                name, arguments, live, keep=_to_recorded, give=_from_recorded, effects=effects
            )
        except ReplayKitError as error:  # the framework turns any other exception into an answer for the model
            raise MiddlewareFailure(str(error)) from error


ReplayKitMiddleware = AgentFrameworkMiddleware
"""The name to import, the same as in the other frameworks with middleware."""


def _to_recorded(result: Any) -> Json:
    contents = result if isinstance(result, list) else [result]
    if not contents or not all(isinstance(content, Content) for content in contents):
        return result
    parts = [{name: part for name, part in content.to_dict().items() if part != {}} for content in contents]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return {_CONTENTS: parts}


def _from_recorded(value: Any) -> Any:
    if isinstance(value, str):
        return [Content.from_text(value)]
    if isinstance(value, dict) and value.keys() == {_CONTENTS}:
        return list(map(Content.from_dict, value[_CONTENTS]))
    return value
