"""`replaykit resume`: go on from a step."""

from __future__ import annotations

from typing import Any

import click

from replaykit.cli import candidate_options, fork_options
from replaykit.travel.fork import resume


@click.command(name="resume", cls=candidate_options.PythonAgentOnly)
@click.argument("run_id", metavar="RUN")
@fork_options.step_and_agent
@fork_options.fork_verb
def command(run_id: str, step: str, fork_arguments: dict[str, Any]) -> Any:
    """Continue a run from one of its steps, unchanged.

    Up to the step, the recording answers every call. After it, calls that match the recording exactly get their
    recorded answers; other calls happen only if their tool is harmless or you name it with --live. Exit 1 if the agent
    fails.

    \b
    replaykit resume 20260215-143200 --step step_3 --agent my_agent:answer
    """
    return resume(run_id, step, **fork_arguments)
