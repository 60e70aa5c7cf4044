"""Who is tried: the options that name a candidate, what is done to it, and where its runs leave their files."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from replaykit.candidates.attempt import Stoppable
from replaykit.config import default_evidence_path
from replaykit.errors import UsageError


def chaos(command: Callable[..., Any]) -> Callable[..., Any]:
    """Faults around the candidate, where they are asked for."""
    for option in (
        click.option("--seed", type=click.IntRange(0), help="With --chaos: where the faults strike.  [default: 0]"),
        click.option(
            "--chaos",
            metavar="PROFILE|FILE",
            help="Inject the faults of a profile (`replaykit chaos profiles`) or a file.",
        ),
    ):
        command = option(command)
    return command


def chaos_plan(name: str, seed: int | None, endpoint: str | None = None, files: Any = None) -> Any:
    """The plan that `--chaos` and `--seed` name; `files` are where it is read, the working tree by default."""
    from replaykit.project.chaos_config import named_plan

    if files is None:
        plan = named_plan(name, seed=seed)
    else:
        plan = named_plan(name, seed=seed, files=files)
    if endpoint is not None and plan.of_calls:
        raise UsageError(OUT_OF_REACH, hint=OUT_OF_REACH_HINT)
    return plan


OUT_OF_REACH = "faults of tools and models do not reach an agent behind a URL: it calls them in its own process"

OUT_OF_REACH_HINT = (
    "Run it as a program (-- CMD) or as --agent MODULE:FUNCTION; "
    "or put the middleware around it, and name it in a configuration."
)


def candidate(command: Callable[..., Any]) -> Callable[..., Any]:
    """The three ways to name a candidate, of which one is given."""
    for option in (
        click.option("--endpoint", metavar="URL", help="An HTTP agent: the case is posted to it as JSON."),
        click.option("--agent", metavar="MODULE:FUNCTION", help="A Python function, called in a fresh process."),
        click.option("--runner-cmd", metavar="CMD", help="A program that keeps the runner contract."),
    ):
        command = option(command)
    return command


trial_evidence = click.option(
    "--evidence",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where every run leaves its files.  [default: .replaykit/runs, of runs that do not pass]",
)


def evidence_of(directory: Path | None) -> Any:
    """Return where the runs of a trial leave their files; passing runs leave some only in a named directory."""
    from replaykit.trials.trial_runs import EvidenceFiles

    return EvidenceFiles(root=directory or default_evidence_path(), of_passed=directory is not None)


def chosen_candidate(
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    *,
    program: tuple[str, ...] | None = None,
    launch_options: Any = None,
    project: Any = None,
) -> Any:
    """The candidate that the options name, else the project's; `program` is what follows two dashes."""
    named = [value for value in (runner_cmd, agent, endpoint, program) if value is not None]
    if not named and project is not None:
        from replaykit.candidates.agents import candidate_of as agent_of

        return agent_of(project, launch_options=launch_options)
    if len(named) != 1:
        raise UsageError(
            "give exactly one candidate" if named else "no candidate to run",
            hint="One of: --runner-cmd CMD, --agent MODULE:FUNCTION, --endpoint URL, -- PROGRAM",
        )
    if (command := runner_cmd if program is None else program) is not None:
        from replaykit.candidates.command import CommandCandidate

        return CommandCandidate(command, launch_options)
    if agent is not None:
        from replaykit.candidates.python import PythonCandidate

        return PythonCandidate(agent)
    from replaykit.candidates.http import HttpCandidate

    return HttpCandidate(str(endpoint))


def candidate_and_jobs(*names: str | None, jobs: int | None, project: Any, **options: Any) -> tuple[Any, int]:
    """The candidate that the options name, else the project's, and how many of its runs go side by side. What it
    keeps running ends with the command."""
    named = any(name is not None for name in (*names, options.get("program")))
    candidate = chosen_candidate(*names, project=project, **options)
    if isinstance(candidate, Stoppable):
        click.get_current_context().call_on_close(candidate.stop)
        _leave_when_told()
    if jobs is None and project is not None and not named:
        from replaykit.candidates.agents import default_jobs

        return candidate, default_jobs(project)
    return candidate, jobs or 1


def _leave_when_told() -> None:
    """End as after ctrl-c where a pipeline is cancelled: else what the candidate runs would go on alone."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        click.get_current_context().call_on_close(lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def candidate_of(text: str) -> Any:
    """A candidate in one text: `module:function`, a URL, a runner command, or `-- CMD` for a whole program."""
    if text.startswith("-- "):
        try:
            program = tuple(shlex.split(text[3:]))
        except ValueError as error:
            raise UsageError(f"the command {text!r} cannot be read: {error}") from None
        return chosen_candidate(None, None, None, program=program)
    if re.fullmatch(r"https?://\S+", text):
        return chosen_candidate(None, None, text)
    if re.fullmatch(r"[\w.]+:[\w.]+", text):
        return chosen_candidate(None, text, None)
    return chosen_candidate(text, None, None)
