"""Agents that this process knows: those decorated with `@record`, by the name of their runs."""

from __future__ import annotations

from replaykit.errors import UsageError
from replaykit.model.run import RunHeader
from replaykit.registry import Registry
from replaykit.seam.own_code import Function

AGENTS: Registry[Function] = Registry("agent")
"""Nothing is imported because a run names it: only what is here already can be found."""


def agent_of(run: RunHeader) -> Function:
    """The agent whose runs have this run's name."""
    name = root_name(run)
    if name in AGENTS:
        return AGENTS.get(name)
    raise UsageError(
        f"which agent made run {run.id}? None that is decorated with @record here has the name {name!r}",
        hint="Hand it over: agent=my_agent (on the command line --agent module:function).",
    )


def root_name(run: RunHeader) -> str:
    """The name of the run that a fork goes back to: forks are called `name@step`."""
    if run.origin.step and "@" in run.name:
        return run.name.rpartition("@")[0]
    return run.name
