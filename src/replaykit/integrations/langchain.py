"""LangChain: the tools of its agents, and of LangGraph's `ToolNode`, through the seam.

    agent = create_agent(model, [search, charge], middleware=[ReplayKitMiddleware()])

    node = ToolNode([search, charge], wrap_tool_call=wrap_tool_call, awrap_tool_call=awrap_tool_call)

Recorded is a message's content alone where it has nothing else to say. A message comes back with the id of the call it
answers then, a `Command` as a `Command`, and a tool that waited for a person waits again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Send, interrupt

from replaykit.integrations.wrapping import checked
from replaykit.model.values import Json
from replaykit.seam.hosted import acall_tool, call_tool

try:
    from langchain.agents.middleware import AgentMiddleware
except ModuleNotFoundError:  # LangGraph alone: a ToolNode takes the two methods
    AgentMiddleware = object

_TYPE, _PARTS = "message_type", ("update", "goto", "graph", "resume")


class ReplayKitMiddleware(AgentMiddleware):
    """The middleware that records and serves an agent's tool calls.

    `effects` says by a tool's name what its calls do to the world.
    """

    def __init__(self, *, effects: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.effects = checked(effects)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The tool's answer, from the recording or from the tool."""

        def live(given: dict[str, Any]) -> Any:
            try:
                return handler(_asking(request, given))
            except GraphInterrupt as paused:
                return paused

        return _raised(call_tool(request.tool_call["name"], request.tool_call["args"], live, **self._seam(request)))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """`wrap_tool_call`, for an agent that is awaited."""

        async def live(given: dict[str, Any]) -> Any:
            try:
                return await handler(_asking(request, given))
            except GraphInterrupt as paused:
                return paused

        name, arguments = request.tool_call["name"], request.tool_call["args"]
        return _raised(await acall_tool(name, arguments, live, **self._seam(request)))

    def _seam(self, request: Any) -> dict[str, Any]:
        call = request.tool_call
        return {
            "keep": lambda answer: _kept(answer, call),
            "give": lambda value: _given(value, call),
            "effects": self.effects.get(call["name"], "external"),
        }


wrap_tool_call = ReplayKitMiddleware().wrap_tool_call
awrap_tool_call = ReplayKitMiddleware().awrap_tool_call


def _asking(request: Any, arguments: dict[str, Any]) -> Any:
    call = request.tool_call
    return request if arguments == call["args"] else request.override(tool_call={**call, "args": arguments})


def _raised(answer: Any) -> Any:
    if isinstance(answer, GraphInterrupt):
        raise answer
    return answer


def _kept(answer: Any, call: Mapping[str, Any]) -> Json:
    if isinstance(answer, GraphInterrupt):
        return {"interrupt": [pause.value for pause in answer.args[0]]}
    if isinstance(answer, list):
        return {"answers": [_kept(each, call) for each in answer]}
    if isinstance(answer, Command):
        parts = {name: getattr(answer, name) for name in _PARTS}
        return {"command": {name: _plain(part, call) for name, part in parts.items() if part not in (None, ())}}
    told = _plain(answer, call)
    return told["content"] if told.keys() == {_TYPE, "content"} else told


def _given(value: Any, call: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return _rich({_TYPE: "tool", "content": value}, call)
    if "interrupt" in value:
        _wait(value["interrupt"][0])
    if "answers" in value:
        return [_given(each, call) for each in value["answers"]]
    return Command(**_rich(value["command"], call)) if "command" in value else _rich(value, call)


def _wait(value: Any) -> NoReturn:
    while True:  # it returns once for each answer that was there when the tool asked again
        interrupt(value)


def _plain(value: Any, call: Mapping[str, Any]) -> Any:
    """Messages and sends as data; a message that answers this very call does so without naming it."""
    if isinstance(value, BaseMessage):
        told = message_to_dict(value)
        usual = {"type": told["type"], "tool_call_id": call["id"], "name": call["name"], "status": "success"}
        said = {k: v for k, v in told["data"].items() if v not in (None, {}, []) and v != usual.get(k)}
        return {_TYPE: told["type"], "content": value.content, **said}
    if isinstance(value, Send):
        return {"send_to": value.node, "arg": _plain(value.arg, call)}
    if isinstance(value, dict):
        return {key: _plain(item, call) for key, item in value.items()}
    return type(value)(_plain(item, call) for item in value) if type(value) in (list, tuple) else value


def _rich(value: Any, call: Mapping[str, Any]) -> Any:
    """What `_plain` was given."""
    if isinstance(value, dict):
        if _TYPE in value:
            kind = value[_TYPE]
            data = {"tool_call_id": call["id"], "name": call["name"]} if kind == "tool" else {}
            data |= {name: item for name, item in value.items() if name != _TYPE}
            return messages_from_dict([{"type": kind, "data": data}])[0]
        if value.keys() == {"send_to", "arg"}:
            return Send(value["send_to"], _rich(value["arg"], call))
        return {key: _rich(item, call) for key, item in value.items()}
    return type(value)(_rich(item, call) for item in value) if type(value) in (list, tuple) else value
