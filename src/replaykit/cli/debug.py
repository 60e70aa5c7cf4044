"""`replaykit debug`: step through a run, key by key."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from replaykit.cli import candidate_options, options
from replaykit.cli.plugins import load_plugins

_TERMINATED = 143  # what a shell says of a program that SIGTERM ended


@click.command(name="debug", cls=candidate_options.PythonAgentOnly)
@click.argument("run_id", metavar="RUN")
@click.option("--step", "step", metavar="STEP", help="The step to begin at, by name or number.  [default: the first]")
@click.option("--agent", metavar="MODULE:FUNCTION", help="The agent to run forks with.")
@options.repeated("--live", metavar="TOOL", help="Forks may call this tool for real. Repeatable.")
@options.store
def command(run_id: str, step: str | None, agent: str | None, live: tuple[str, ...], store_path: Path | None) -> int:
    """Step through a run, and fork from any step.

    Needs a terminal. One line of keys is always visible; ? shows all of them. The run never changes: when you edit the
    state, an answer or arguments, you make a fork, which is a run of its own and asks before it does anything for real.

    \b
    replaykit debug 20260215-143200
    replaykit debug billing --step step_3 --agent my_agent:answer
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "replaykit debug needs a terminal. Without one, use: replaykit show RUN --steps, "
            "replaykit show RUN --step STEP [--state], and replaykit fork RUN --step STEP"
        )
    from replaykit.errors import UsageError

    try:
        from replaykit.debugger.terminal import Terminal, Terminated
    except ImportError:
        raise UsageError("replaykit debug needs a POSIX terminal, and this system has none") from None
    from replaykit.debugger.app import Debugger, RunReader
    from replaykit.debugger.dialog import Dialog
    from replaykit.debugger.forker import Forker
    from replaykit.debugger.navigation import place_of, step_list
    from replaykit.store.open import open_store
    from replaykit.terminal import visible

    with open_store(store_path, read_only=True) as store:
        start = step_list(store.load(run_id))
    load_plugins()
    at = 0 if step is None else place_of(start, step)
    loaded = _loaded(agent)
    code = 0
    with Terminal(colour=not os.environ.get("NO_COLOR")) as terminal:
        dialog = Dialog(terminal)
        forker = Forker(dialog, store_path, loaded, live)
        try:
            Debugger(dialog, RunReader(store_path, forker.reexecuted_state), forker, start, at).run()
        except Terminated:
            code = _TERMINATED
    for new_fork in forker.new_forks:
        click.echo(f"fork {new_fork.id}  {new_fork.status}")
        click.echo(visible(f"  replaykit compare {new_fork.parent} {new_fork.id}"))
    return code


def _loaded(agent: str | None) -> Any:
    """The agent that was named; a name that leads nowhere is said before anything is shown."""
    if agent is None:
        return None
    from replaykit.candidates.agent_loader import load_agent

    return load_agent(agent)
