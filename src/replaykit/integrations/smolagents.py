"""smolagents: its tools through the seam.

    agent = CodeAgent(tools=tools([search, charge]), model=model)

A code agent calls a tool like any function, so no hook could answer in its place: the tool itself is wrapped. Images in
arguments and results are recorded as PNG.
"""

from __future__ import annotations

import base64
import copy
import functools
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import PIL.Image
from smolagents.agent_types import AgentImage

from replaykit.integrations.wrapping import arguments_by_name, effect_of
from replaykit.model.values import Json, JsonObject
from replaykit.seam.framework_tools import call_tool

_IMAGE = {"image", "png"}


def tools(framework_tools: Iterable[Any], *, effects: Mapping[str, str] | None = None) -> list[Any]:
    """Wrap each tool; `effects` maps tool names to what their calls do to the world."""
    return [wrap(tool, effects=effects) for tool in framework_tools]


def wrap(tool: Any, *, effects: Mapping[str, str] | None = None) -> Any:
    """Return a copy of the tool whose calls are recorded and served."""
    wrapped = copy.copy(tool)
    wrapped.is_initialized = True  # skip `setup`: its resources are needed only for a live call
    wrapped.forward = _through_seam(tool, effect_of(tool.name, effects))
    return wrapped


def _through_seam(tool: Any, effects: str) -> Callable[..., Any]:
    @functools.wraps(tool.forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        arguments = arguments_by_name(tool.inputs, args, kwargs)
        if arguments is None:
            return tool(*args, **kwargs)
        recorded = {name: _to_recorded(value) for name, value in arguments.items()}

        def live(call_arguments: JsonObject) -> Any:
            # A live call gets the original objects; only what a fork replaced comes from the recording.
            own = {}
            for name, value in call_arguments.items():
                own[name] = arguments[name] if value is recorded.get(name) else _from_recorded(value)
            return tool(**own)

        return call_tool(
            tool.name, recorded, live, keep=_to_recorded, give=_from_recorded, fn=tool.forward, effects=effects
        )

    return forward


def _to_recorded(value: Any) -> Json:
    if not isinstance(value, PIL.Image.Image):
        return value
    buffer = io.BytesIO()
    value.save(buffer, format="PNG")
    kind = "AgentImage" if isinstance(value, AgentImage) else "Image"
    return {"image": kind, "png": base64.b64encode(buffer.getvalue()).decode()}


def _from_recorded(value: Any) -> Any:
    if not isinstance(value, dict) or value.keys() != _IMAGE:
        return value
    image = PIL.Image.open(io.BytesIO(base64.b64decode(value["png"])), formats=["PNG"])
    if value["image"] == "AgentImage":
        return AgentImage(image)
    return image
