"""`replaykit show`: one run, or one step of it."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="show")
@click.argument("run_id", metavar="RUN")
@click.option("--step", metavar="STEP", help="Only this step: its name, its number, or -1 for the last.")
@click.option("--event", type=click.IntRange(0), metavar="N", help="Only this event, by the number in front of it.")
@options.flag("--state", "with_state", help="With --step: the state after it.")
@click.option(
    "--agent", metavar="MODULE:FUNCTION", help="With --state: the agent, to get to a state that was not kept."
)
@options.store
@options.as_json
def command(
    run_id: str,
    step: str | None,
    event: int | None,
    with_state: bool,
    agent: str | None,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Show a run: its input, its events and how it ended.

    RUN is an id, the beginning of one, a name (its newest run), `last` or `last-failed`. With --json, the whole run log
    is printed.

    If a state was not stored, --agent runs the agent again up to that step, answered from the recording. Nothing
    happens for real.

    \b
    replaykit show last
    replaykit show last-failed --step -1
    replaykit show 20260215-143200 --step step_7 --state --agent my_agent:answer
    """
    if with_state and step is None:
        raise click.UsageError("--state goes with --step")
    if event is not None and step is not None:
        raise click.UsageError("--step or --event, not both")
    if agent is not None and not with_state:
        raise click.UsageError("--agent goes with --state")
    from replaykit.candidates.agent_loader import load_agent
    from replaykit.model.run import encode_run
    from replaykit.model.steps import event_of_number, events_of_step
    from replaykit.model.values import freeze
    from replaykit.report.layout import to_json
    from replaykit.report.runs import events_json, events_text, run_text
    from replaykit.store.open import open_store
    from replaykit.travel.checkpoints import state_after
    from replaykit.travel.state_lookup import state_at

    with open_store(store_path, read_only=True) as store:
        run = store.load(run_id)
        if step is not None and with_state and agent is None:
            state = state_after(store, run, step)
    if step is not None and with_state:
        if agent is not None:
            with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the answer
                state = state_at(run.id, step, agent=load_agent(agent), store=store_path)
        shown = freeze(state)
        if as_json:
            shown = {"replaykit": 1, "run": run.id, "step": step, "state": shown}
        options.print_json(to_json(shown))
    elif step is not None:
        options.show(as_json, events_of_step(run, step), partial(events_text, started_at=run.started_at), events_json)
    elif event is not None:
        one = [event_of_number(run, event)]
        options.show(as_json, one, partial(events_text, started_at=run.started_at), events_json)
    else:
        options.show(as_json, run, run_text, lambda run: encode_run(run).decode())
