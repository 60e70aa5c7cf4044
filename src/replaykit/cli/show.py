"""`replaykit show`: one run, or one step of it."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path

import click

from replaykit.cli import candidate_options, options
from replaykit.cli.verbosity import hint, is_quiet, is_verbose, reports


@click.command(name="show", cls=candidate_options.PythonAgentOnly)
@click.argument("run_id", metavar="RUN")
@click.option("--step", metavar="STEP", help="Only this step: its name, its number, or -1 for the last.")
@click.option("--event", type=options.WholeNumber(0), help="Only this event, by the number in front of it.")
@options.flag("--steps", "as_steps", help="List the steps of the run that you can resume or fork from.")
@options.flag("--forks", "as_forks", help="Show the run's parent and forks as a tree.")
@options.flag("--state", "with_state", help="With --step: the state after it.")
@click.option(
    "--agent", metavar="MODULE:FUNCTION", help="With --state: the agent, to reconstruct a state that was not stored."
)
@options.store
@options.as_json
@reports
def command(
    run_id: str,
    step: str | None,
    event: int | None,
    as_steps: bool,
    as_forks: bool,
    with_state: bool,
    agent: str | None,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Show a run: its input, its events and how it ended.

    RUN is an id, the beginning of one, a name (its newest run), `last` or `last-failed`. With --json, the whole run log
    is printed.

    --steps lists the steps; if the agent marks none, each call is one. --forks shows the run's parent and forks.

    If a state was not stored, --agent runs the agent again up to that step, answered from the recording. Nothing
    happens for real.

    \b
    replaykit show last
    replaykit show last --steps
    replaykit show last-failed --step -1
    replaykit show 20260215-143200 --step step_7 --state --agent my_agent:answer
    """
    if with_state and step is None:
        raise click.UsageError("--state needs --step")
    chosen = [step is not None, event is not None, as_steps, as_forks]
    if sum(chosen) > 1:
        raise click.UsageError("give only one of --step, --event, --steps and --forks")
    if agent is not None and not with_state:
        raise click.UsageError("--agent needs --state")
    if as_steps:
        _show_steps(run_id, store_path, as_json=as_json)
        return
    if as_forks:
        _show_forks(run_id, store_path, as_json=as_json)
        return
    from replaykit.candidates.agent_loader import load_agent
    from replaykit.model.run import encode_run
    from replaykit.model.steps import event_of_number, events_of_step
    from replaykit.model.values import freeze
    from replaykit.report.layout import to_json
    from replaykit.report.runs import StepState, event_lines, events_json, events_text, run_line, run_text
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
            shown = StepState(run=run.id, step=step, state=shown)
        options.print_json(to_json(shown))
    elif step is not None:
        as_text = partial(events_text, started_at=run.started_at)
        options.show(as_json, events_of_step(run, step), as_text, events_json, brief=partial(event_lines, run))
    elif event is not None:
        one = [event_of_number(run, event)]
        as_text = partial(events_text, started_at=run.started_at)
        options.show(as_json, one, as_text, events_json, brief=partial(event_lines, run))
    else:
        as_run_text = partial(run_text, whole=is_verbose())
        options.show(as_json, run, as_run_text, lambda run: encode_run(run).decode(), brief=run_line)


def _show_steps(run_id: str, store_path: Path | None, *, as_json: bool) -> None:
    from replaykit.report.forks import checkpoints_json, checkpoints_text
    from replaykit.report.layout import fit
    from replaykit.travel.checkpoints import CheckpointStore

    found = CheckpointStore(store_path).list_checkpoints(run_id)
    if as_json:
        options.print_json(checkpoints_json(found))
    elif found and is_quiet():
        click.echo("\n".join([step.step_id for step in found]))
    elif found:
        click.echo(fit(checkpoints_text(found)))
    else:
        hint("no steps: the run made no calls")


def _show_forks(run_id: str, store_path: Path | None, *, as_json: bool) -> None:
    from replaykit.cli.short_ids import shown_ids
    from replaykit.report.forks import family_ids, family_json, family_text, runs_of
    from replaykit.store.open import open_store
    from replaykit.travel.fork import family_of

    with open_store(store_path, read_only=True) as store:
        family = family_of(store, run_id)
        names = shown_ids(store, list(runs_of(family)))
    options.show(as_json, family, partial(family_text, names=names), family_json, brief=family_ids)
