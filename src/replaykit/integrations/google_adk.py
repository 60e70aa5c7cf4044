"""Google ADK: its tools through the seam.

    runner = Runner(app=App(name="desk", root_agent=agent, plugins=[ReplayKitPlugin()]), session_service=sessions)

A plugin's hook can answer for a tool, yet is not around it: the plugin wraps each tool, where it lies, when it is first
called. All other callbacks and confirmations work in a replay as they did. What a tool does to its context, such as a
change of state or handing over to another agent, is recorded with its result and done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from google.adk.events import EventActions
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from pydantic import BaseModel

from replaykit.integrations.wrapping import checked
from replaykit.model.values import Json, decode, raw
from replaykit.seam.hosted import acall_tool

_BOTH, _MEDIA, _NO_MEDIA = {"result", "actions"}, "media", "plain"


class ReplayKitPlugin(BasePlugin):
    """The plugin that records and serves the tool calls of all agents of an app.

    `effects` says by a tool's name what its calls do to the world.
    """

    def __init__(self, name: str = "replaykit", *, effects: Mapping[str, str] | None = None) -> None:
        super().__init__(name)
        self.effects = checked(effects)

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        """Wrap the tool that is about to be called."""
        if not isinstance(tool.run_async, _Through):
            tool.run_async = _Through(tool, tool.run_async, self.effects.get(tool.name, "external"))


class _Through(msgspec.Struct, frozen=True):
    """A tool's `run_async`, through the seam."""

    tool: Any
    run: Callable[..., Awaitable[Any]]
    effects: str

    async def __call__(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        before = _actions(tool_context)

        async def live(given: dict[str, Json]) -> Any:
            return await self.run(args=args if given == args else given, tool_context=tool_context)

        def keep(result: Any) -> Json:
            done = {name: value for name, value in _actions(tool_context).items() if value != before[name]}
            told = _plain(result)
            both = done or (isinstance(told, dict) and told.keys() == _BOTH)
            return {"result": told, "actions": done} if both else told

        def give(value: Any) -> Any:
            if not isinstance(value, dict) or value.keys() != _BOTH:
                return _rich(value)
            _act(tool_context, value["actions"])
            return _rich(value["result"])

        seam: dict[str, Any] = {"keep": keep, "give": give, "effects": self.effects}
        return await acall_tool(self.tool.name, args, live, **seam)


def _actions(context: Any) -> dict[str, Any]:
    """What has been done to the context; the id of the call is left out of what is kept by it."""
    return {
        name: {"" if key == context.function_call_id else key: item for key, item in value.items()}
        if isinstance(value, dict)
        else value
        for name, value in context.actions
    }


def _act(context: Any, done: Mapping[str, Any]) -> None:
    """Do to the context what was done to it."""
    for name, value in EventActions.model_validate(done):
        if name == "state_delta" and value:
            context.state.update(value)
        elif name in done and isinstance(value, dict):
            getattr(context.actions, name).update({key or context.function_call_id: value[key] for key in value})
        elif name in done:
            setattr(context.actions, name, value)


def _plain(value: Any) -> Any:
    """Media and models as data. An object that is all of a result is told as ADK tells it."""
    told = _inside(value)
    if isinstance(value, dict | types.Part):
        return told
    return {"result": told} if isinstance(decode(raw(told)), dict) else told


def _inside(value: Any) -> Any:
    if isinstance(value, types.Part):
        return {_MEDIA: value.model_dump(mode="json", exclude_none=True)}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if type(value) is dict:
        told = {key: _inside(item) for key, item in value.items()}
        return {_MEDIA: {_NO_MEDIA: told[_MEDIA]}} if told.keys() == {_MEDIA} else told
    return [_inside(item) for item in value] if type(value) in (list, tuple) else value


def _rich(value: Any) -> Any:
    """What `_plain` was given, models as data."""
    if type(value) is dict:
        if value.keys() == {_MEDIA} and isinstance(value[_MEDIA], dict):
            told = value[_MEDIA]
            own = told.keys() == {_NO_MEDIA}
            return {_MEDIA: _rich(told[_NO_MEDIA])} if own else types.Part.model_validate(told)
        return {key: _rich(item) for key, item in value.items()}
    return [_rich(item) for item in value] if type(value) is list else value
