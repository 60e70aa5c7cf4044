"""The agents known to this process: functions decorated with `@record`, by the name of their runs."""

from __future__ import annotations

from replaykit.errors import UsageError
from replaykit.model.run import RunHeader
from replaykit.registry import Registry
from replaykit.seam.own_code import Function

AGENTS: Registry[Function] = Registry("agent")
"""Only functions that are already imported can be found. A run never causes an import."""


def agent_of(run: RunHeader) -> Function:
    """Return the agent whose runs have this run's name."""
    name = root_name(run)
    if name in AGENTS:
        return AGENTS.get(name)
    raise UsageError(
        f"which agent made run {run.id}? No function decorated with @record is named {name!r}",
        hint="Pass it: agent=my_agent (on the command line --agent module:function).",
    )


def root_name(run: RunHeader) -> str:
    """Return the name of a fork's original run. Forks are called `name@step`."""
    if run.origin.step and "@" in run.name:
        return run.name.rpartition("@")[0]
    return run.name
