"""LangChain: the tools of its agents, and of LangGraph's `ToolNode`, through the seam.

    agent = create_agent(model, [search, charge], middleware=[ReplayKitMiddleware()])

    node = ToolNode([search, charge], wrap_tool_call=wrap_tool_call, awrap_tool_call=awrap_tool_call)

A message without further fields is recorded as its content alone. A replayed message gets the id of the call it
answers, a `Command` comes back as a `Command`, and a tool that waited for a person waits again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Send, interrupt

from replaykit.integrations.wrapping import checked_effects
from replaykit.model.values import Json
from replaykit.seam.framework_tools import acall_tool, call_tool

try:
    from langchain.agents.middleware import AgentMiddleware
except ModuleNotFoundError:  # LangGraph without LangChain: a ToolNode takes the two methods
    AgentMiddleware = object

_TYPE, _PARTS = "message_type", ("update", "goto", "graph", "resume")


class LangChainMiddleware(AgentMiddleware):
    """Middleware that records and serves an agent's tool calls.

    `effects` maps tool names to what their calls do to the world.
    """

    name = "ReplayKitMiddleware"  # in the framework's own traces

    def __init__(self, *, effects: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.effects = checked_effects(effects)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the tool's answer, from the recording or from the tool itself."""

        def live(call_arguments: dict[str, Any]) -> Any:
            try:
                return handler(_with_arguments(request, call_arguments))
            except GraphInterrupt as paused:
                return paused

        return _raise_interrupt(
            call_tool(request.tool_call["name"], request.tool_call["args"], live, **self._seam(request))
        )

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Do the same as `wrap_tool_call` for an async agent."""

        async def live(call_arguments: dict[str, Any]) -> Any:
            try:
                return await handler(_with_arguments(request, call_arguments))
            except GraphInterrupt as paused:
                return paused

        name, arguments = request.tool_call["name"], request.tool_call["args"]
        return _raise_interrupt(await acall_tool(name, arguments, live, **self._seam(request)))

    def _seam(self, request: Any) -> dict[str, Any]:
        call = request.tool_call
        return {
            "keep": lambda answer: _to_recorded(answer, call),
            "give": lambda value: _from_recorded(value, call),
            "effects": self.effects.get(call["name"], "external"),
        }


ReplayKitMiddleware = LangChainMiddleware
"""The name to import, the same as in the other frameworks with middleware."""

wrap_tool_call = LangChainMiddleware().wrap_tool_call
awrap_tool_call = LangChainMiddleware().awrap_tool_call


def _with_arguments(request: Any, arguments: dict[str, Any]) -> Any:
    call = request.tool_call
    if arguments == call["args"]:
        return request
    return request.override(tool_call={**call, "args": arguments})


def _raise_interrupt(answer: Any) -> Any:
    if isinstance(answer, GraphInterrupt):
        raise answer
    return answer


def _to_recorded(answer: Any, call: Mapping[str, Any]) -> Json:
    if isinstance(answer, GraphInterrupt):
        return {"interrupt": [pause.value for pause in answer.args[0]]}
    if isinstance(answer, list):
        return {"answers": [_to_recorded(item, call) for item in answer]}
    if isinstance(answer, Command):
        parts = {name: getattr(answer, name) for name in _PARTS}
        return {"command": {name: _plain(part, call) for name, part in parts.items() if part not in (None, ())}}
    plain = _plain(answer, call)
    if plain.keys() == {_TYPE, "content"}:
        return plain["content"]
    return plain


def _from_recorded(value: Any, call: Mapping[str, Any]) -> Any:
    if isinstance(value, dict) and _TYPE in value:
        return _rich(value, call)
    match value:
        case {"interrupt": [first, *_], **more} if not more:
            _wait(first)
        case {"answers": list(answers), **more} if not more:
            return [_from_recorded(item, call) for item in answers]
        case {"command": dict(command), **more} if not more:
            return Command(**_rich(command, call))
    return _rich({_TYPE: "tool", "content": _content(value)}, call)


def _content(value: Json) -> Json:
    """Return the content of a tool's message; the bare result of a foreign trace becomes JSON, as LangChain does it."""
    is_blocks = isinstance(value, list) and all(isinstance(block, dict) and "type" in block for block in value)
    if isinstance(value, str) or is_blocks:
        return value
    return json.dumps(value, ensure_ascii=False)


def _wait(value: Any) -> NoReturn:
    while True:  # `interrupt` returns the earlier answers first, one per call
        interrupt(value)


def _plain(value: Any, call: Mapping[str, Any]) -> Any:
    """Return messages and sends as data; a message that answers this very call omits its id and name."""
    if isinstance(value, BaseMessage):
        plain = message_to_dict(value)
        defaults = {"type": plain["type"], "tool_call_id": call["id"], "name": call["name"], "status": "success"}
        fields = {}
        for name, field in plain["data"].items():
            if field not in (None, {}, []) and field != defaults.get(name):
                fields[name] = field
        return {_TYPE: plain["type"], "content": value.content, **fields}
    if isinstance(value, Send):
        return {"send_to": value.node, "arg": _plain(value.arg, call)}
    if isinstance(value, dict):
        return {key: _plain(item, call) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(item, call) for item in value)
    return value


def _rich(value: Any, call: Mapping[str, Any]) -> Any:
    """Undo `_plain`."""
    if isinstance(value, dict):
        if _TYPE in value:
            kind = value[_TYPE]
            data = {"tool_call_id": call["id"], "name": call["name"]} if kind == "tool" else {}
            data |= {name: item for name, item in value.items() if name != _TYPE}
            return messages_from_dict([{"type": kind, "data": data}])[0]
        if value.keys() == {"send_to", "arg"}:
            return Send(value["send_to"], _rich(value["arg"], call))
        return {key: _rich(item, call) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_rich(item, call) for item in value)
    return value
