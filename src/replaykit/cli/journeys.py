"""Journeys: what `resume` and `fork` have in common."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click


def journey(command: Callable[..., Any]) -> Callable[..., Any]:
    """How to go on from a step. The verb gives the journey that it made with `way`; how it ended is told here."""

    @wraps(command)
    def told(*, agent: str, store_path: Any, no_reuse: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
        from replaykit.runners.loading import load_agent

        live, attempt = given.pop("live"), given.pop("attempt")
        way = {"store": store_path, "live": live, "reuse": not no_reuse, "attempt": attempt, "dry_run": dry_run}
        with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the answer
            made = command(**given, way={"agent": load_agent(agent), **way})
        _tell(made, as_json=as_json, dry_run=dry_run)

    wrapped: Callable[..., Any] = told
    for option in (
        click.option("--dry-run", is_flag=True, help="Show what would be done for real, and do nothing."),
        click.option(
            "--attempt", metavar="RUN", help="An attempt that was stopped: what it has done for real is not repeated."
        ),
        click.option("--no-reuse", is_flag=True, help="After the step, serve nothing from the recording."),
        click.option("--live", multiple=True, metavar="TOOL", help="This tool may be called for real. Repeatable."),
        click.option("--agent", required=True, metavar="MODULE:FUNCTION", help="The agent."),
        click.option("--at", "step", required=True, metavar="STEP", help="The step to go on from, such as step_3."),
    ):
        wrapped = option(wrapped)
    return wrapped


def _tell(journey: Any, *, as_json: bool, dry_run: bool) -> None:
    """Print how a journey ended, and leave with its exit code."""
    from replaykit.errors import ExitCode
    from replaykit.model.run import RunStatus
    from replaykit.report.travel import journey_json, journey_text

    click.echo(journey_json(journey) if as_json else journey_text(journey, dry_run=dry_run))
    stops = ("undecided", "missing", "unanswerable", "unmade", "unreached")
    stopped = any(deviation.kind in stops for deviation in journey.deviations)
    failed = stopped or (journey.status is not RunStatus.SUCCESS and not dry_run)
    click.get_current_context().exit(ExitCode.FAILED if failed else ExitCode.PASSED)
