"""Agents that this process knows: those decorated with `@record`, by the name of their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replaykit.errors import UsageError
from replaykit.model.run import RunHeader
from replaykit.registry import Registry

AGENTS: Registry[Callable[..., Any]] = Registry("agent")
"""Nothing is imported because a run names it: only what is here already can be found."""


def agent_of(run: RunHeader) -> Callable[..., Any]:
    """The agent whose runs have this run's name."""
    if run.name in AGENTS:
        return AGENTS.get(run.name)
    raise UsageError(
        f"which agent made run {run.id}? None that is decorated with @record here has the name {run.name!r}",
        hint="Hand it over: agent=my_agent (on the command line --agent module:function).",
    )
