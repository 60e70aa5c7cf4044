"""Google ADK: its tools through the seam.

    runner = Runner(app=App(name="desk", root_agent=agent, plugins=[ReplayKitPlugin()]), session_service=sessions)

A plugin's hook can answer in place of a tool, but does not surround the call. So the plugin wraps each tool in place,
on its first call. All other callbacks and confirmations work in a replay as usual. What a tool does to its context,
such as changing the state or handing over to another agent, is recorded with its result and done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from google.adk.events import EventActions
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from pydantic import BaseModel

from replaykit.integrations.wrapping import checked_effects
from replaykit.model.values import Json, JsonObject, decode, raw
from replaykit.seam.framework_tools import acall_tool

_BOTH, _MEDIA, _NO_MEDIA = {"result", "actions"}, "media", "plain"


class ReplayKitPlugin(BasePlugin):
    """Plugin that records and serves the tool calls of all agents of an app.

    `effects` maps tool names to what their calls do to the world.
    """

    def __init__(self, name: str = "replaykit", *, effects: Mapping[str, str] | None = None) -> None:
        super().__init__(name)
        self.effects = checked_effects(effects)

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        """Wrap the tool before its first call."""
        if not isinstance(tool.run_async, _AdkToolCall):
            tool.run_async = _AdkToolCall(tool, tool.run_async, self.effects.get(tool.name, "external"))


class _AdkToolCall(msgspec.Struct, frozen=True):
    """The `run_async` of a tool, through the seam."""

    tool: Any
    run: Callable[..., Awaitable[Any]]
    effects: str

    async def __call__(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        before = _actions(tool_context)

        async def live(call_arguments: JsonObject) -> Any:
            return await self.run(args=args if call_arguments == args else call_arguments, tool_context=tool_context)

        def keep(result: Any) -> Json:
            actions = {name: value for name, value in _actions(tool_context).items() if value != before[name]}
            plain = _plain(result)
            if actions or (isinstance(plain, dict) and plain.keys() == _BOTH):
                return {"result": plain, "actions": actions}
            return plain

        def give(value: Any) -> Any:
            if not isinstance(value, dict) or value.keys() != _BOTH:
                return _rich(value)
            _act(tool_context, value["actions"])
            return _rich(value["result"])

        seam: dict[str, Any] = {"keep": keep, "give": give, "effects": self.effects}
        return await acall_tool(self.tool.name, args, live, **seam)


def _actions(context: Any) -> dict[str, Any]:
    """Return the actions in the context so far, with the empty string for the id of this call."""
    actions: dict[str, Any] = {}
    for name, value in context.actions:
        if isinstance(value, dict):
            value = {"" if key == context.function_call_id else key: item for key, item in value.items()}
        actions[name] = value
    return actions


def _act(context: Any, actions: Mapping[str, Any]) -> None:
    """Apply recorded actions to the context."""
    for name, value in EventActions.model_validate(actions):
        if name == "state_delta" and value:
            context.state.update(value)
        elif name in actions and isinstance(value, dict):
            getattr(context.actions, name).update({key or context.function_call_id: value[key] for key in value})
        elif name in actions:
            setattr(context.actions, name, value)


def _plain(value: Any) -> Any:
    """Return the result as data, in the form in which ADK passes it to the model."""
    plain = _inside(value)
    if isinstance(value, dict | types.Part):
        return plain
    if isinstance(decode(raw(plain)), dict):
        return {"result": plain}
    return plain


def _inside(value: Any) -> Any:
    if isinstance(value, types.Part):
        return {_MEDIA: value.model_dump(mode="json", exclude_none=True)}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if type(value) is dict:
        plain = {key: _inside(item) for key, item in value.items()}
        if plain.keys() == {_MEDIA}:
            return {_MEDIA: {_NO_MEDIA: plain[_MEDIA]}}
        return plain
    if type(value) in (list, tuple):
        return list(map(_inside, value))
    return value


def _rich(value: Any) -> Any:
    """Undo `_plain`; models stay plain data."""
    if type(value) is dict:
        if value.keys() == {_MEDIA} and isinstance(value[_MEDIA], dict):
            plain = value[_MEDIA]
            if plain.keys() == {_NO_MEDIA}:
                return {_MEDIA: _rich(plain[_NO_MEDIA])}
            return types.Part.model_validate(plain)
        return {key: _rich(item) for key, item in value.items()}
    if type(value) is list:
        return list(map(_rich, value))
    return value
