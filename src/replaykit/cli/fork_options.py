"""The options and the output that `resume` and `fork` have in common."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import click

from replaykit.candidates.agent_loader import load_agent
from replaykit.cli import options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import reports
from replaykit.errors import failed_if
from replaykit.model.run import RunStatus
from replaykit.report.forks import fork_json, fork_text


def fork_verb(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, call the verb with `fork_arguments`, and print its result."""

    @wraps(command)
    def run_command(
        *, agent: str, store_path: Any, no_reuse: bool, dry_run: bool, as_json: bool, **parameters: Any
    ) -> int:
        load_plugins()
        settings = {"live": parameters.pop("live"), "attempt": parameters.pop("attempt"), "dry_run": dry_run}
        with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the answer
            settings |= {"agent": load_agent(agent), "store": store_path, "reuse": not no_reuse}
            with progress("running the agent"):
                result = command(**parameters, fork_arguments=settings)
        as_text = partial(fork_text, dry_run=dry_run)
        options.show(as_json, result, as_text, fork_json, brief=lambda ended: as_text(ended).partition("\n")[0])
        is_stopped = any(deviation.kind in _STOPS for deviation in result.deviations)
        return failed_if(is_stopped or (result.status is not RunStatus.SUCCESS and not dry_run))

    return _options(options.store(options.as_json(reports(run_command))))


_STOPS = ("undecided", "missing", "unanswerable", "unmade", "unreached")
_options = options.combined(
    options.flag("--dry-run", help="Show what would be done for real; do nothing."),
    click.option("--attempt", metavar="RUN", help="Continue a stopped attempt without repeating what it did for real."),
    options.flag("--no-reuse", help="After the step, serve nothing from the recording."),
    options.repeated("--live", metavar="TOOL", help="Allow live calls of this tool. Repeatable."),
)
step_and_agent = options.combined(
    click.option("--agent", required=True, metavar="MODULE:FUNCTION", help="The agent, a Python function."),
    click.option(
        "--step",
        "step",
        required=True,
        metavar="STEP",
        help="The step to continue from: its name, its number, or -1 for the last.",
    ),
)
"""The options of both verbs that are required; they come first in the help."""
