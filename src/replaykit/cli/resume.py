"""`replaykit resume`: go on from a step."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="resume")
@click.argument("run_id", metavar="RUN")
@options.journey
@options.store
@options.as_json
def command(
    run_id: str,
    step: str,
    agent: str,
    live: tuple[str, ...],
    no_reuse: bool,
    attempt: str | None,
    dry_run: bool,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Go on from a step of a run, with nothing changed.

    What was recorded up to the step is served; after it, recorded answers are given to exactly the recorded calls, and
    other calls happen only if their tool is harmless or named with --live. Exit 1 when the agent fails.

    \b
    replaykit resume 20260215-143200 --at step_3 --agent my_agent:answer
    """
    from replaykit.runners.loading import load_agent
    from replaykit.travel.go import resume

    journey = resume(
        run_id,
        step,
        agent=load_agent(agent),
        store=store_path,
        live=live,
        reuse=not no_reuse,
        attempt=attempt,
        dry_run=dry_run,
    )
    options.tell_journey(journey, as_json=as_json, dry_run=dry_run)
