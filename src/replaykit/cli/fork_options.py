"""The options and the output that `resume` and `fork` have in common."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from replaykit.candidates.agent_loader import load_agent
from replaykit.errors import ExitCode
from replaykit.model.run import RunStatus
from replaykit.report.forks import fork_json, fork_text


def fork_verb(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, call the verb with `fork_arguments`, and print the result that it returns."""

    @wraps(command)
    def run_command(
        *, agent: str, store_path: Any, no_reuse: bool, dry_run: bool, as_json: bool, **parameters: Any
    ) -> None:
        live, attempt = parameters.pop("live"), parameters.pop("attempt")
        fork_arguments = {
            "store": store_path,
            "live": live,
            "reuse": not no_reuse,
            "attempt": attempt,
            "dry_run": dry_run,
        }
        with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the answer
            result = command(**parameters, fork_arguments={"agent": load_agent(agent), **fork_arguments})
        _report(result, as_json=as_json, dry_run=dry_run)

    wrapped: Callable[..., Any] = run_command
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


def _report(result: Any, *, as_json: bool, dry_run: bool) -> None:
    """Print how the fork ended, and exit with its code."""
    click.echo(fork_json(result) if as_json else fork_text(result, dry_run=dry_run))
    stops = ("undecided", "missing", "unanswerable", "unmade", "unreached")
    stopped = any(deviation.kind in stops for deviation in result.deviations)
    failed = stopped or (result.status is not RunStatus.SUCCESS and not dry_run)
    click.get_current_context().exit(ExitCode.FAILED if failed else ExitCode.PASSED)
