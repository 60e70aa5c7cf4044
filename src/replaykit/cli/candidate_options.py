"""Options that name a candidate, what stands around it while it runs, and what a person allows it to do for real."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from replaykit.config import default_evidence_path
from replaykit.errors import UsageError
from replaykit.model.consent import NO_CONSENT, Consent
from replaykit.model.isolation import IsolationLevel
from replaykit.programs.launch_options import ORIGINAL


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
    from replaykit.candidates.attempt import Stoppable

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


live = click.option(
    "--live",
    multiple=True,
    metavar="NAME",
    help="Do this tool, model or request for real where the case does not hold it, or asks for that; `models` is every"
    " model, `*` anything. Repeatable.",
)
allow_connect = click.option(
    "--allow-connect",
    multiple=True,
    metavar="HOST:PORT",
    help="Let the candidate reach this address, or a unix socket by its path. Repeatable.",
)
allow_write = click.option(
    "--allow-write",
    multiple=True,
    metavar="DIR",
    help="Let the candidate really write files in this directory. Repeatable.",
)

isolation = click.option(
    "--isolation",
    type=click.Choice(["full", "landlock", "process"]),
    default="full",
    help="Keep the candidate shut in at this level at most.  [default: the highest that this machine offers]",
)
keep_writes = click.option(
    "--keep-writes",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Copy the files that the candidate wrote in its sandbox into this directory.",
)


def consent(command: Callable[..., Any]) -> Callable[..., Any]:
    """The three options."""
    return live(allow_connect(allow_write(command)))


def consent_of(
    live: tuple[str, ...] = (), allow_connect: tuple[str, ...] = (), allow_write: tuple[str, ...] = ()
) -> Consent:
    """Return what the options allow."""
    if not (live or allow_connect or allow_write):
        return NO_CONSENT
    from replaykit.candidates.consent import consent_of as parsed

    return parsed(live, allow_connect, allow_write)


def taken_from(parameters: dict[str, Any]) -> Consent:
    """Remove the consent options from the parameters, and return what they allow."""
    return consent_of(parameters.pop("live"), parameters.pop("allow_connect"), parameters.pop("allow_write"))


def sandbox_from(parameters: dict[str, Any]) -> Consent:
    """Remove the sandbox options from the parameters, and return what they ask for."""
    directory = parameters.pop("keep_writes")
    directory_text = "" if directory is None else str(directory.absolute())
    return Consent(isolation=IsolationLevel(parameters.pop("isolation")), keep_writes=directory_text)


def refuse_in_live_world(allowed: Consent, *, is_recorded: bool) -> None:
    """Raise a `UsageError` where the options say nothing: what no case holds is live anyway."""
    if not is_recorded and allowed != NO_CONSENT:
        message = "--live, --allow-connect and --allow-write are for a recorded world, and this one is live"
        raise UsageError(message, hint="Name a case: --case CASE")


upstream = click.option(
    "--upstream",
    multiple=True,
    metavar="NAME=URL",
    help="A further API behind the proxy; sets NAME_BASE_URL for the program. Repeatable.",
)

MCP_CONFIG = Path(".mcp.json")
"""The file in which many programs look for their MCP servers."""


def mcp_config(command: Callable[..., Any]) -> Callable[..., Any]:
    """The configuration files of a program's MCP servers."""
    for option in (
        click.option(
            "--mcp-config-in-place",
            "in_place",
            is_flag=True,
            help="The program reads those files where they are: swap them while it runs.",
        ),
        click.option(
            "--mcp-config",
            "mcp_configs",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Lead the MCP servers in this file, such as .mcp.json, through ReplayKit. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def mcp_props(files: tuple[Path, ...], *, in_place: bool) -> Any:
    """Return the MCP servers that the `--mcp-config` options name; None without any."""
    if not files and not in_place and not MCP_CONFIG.with_name(MCP_CONFIG.name + ORIGINAL).exists():
        return None
    from replaykit.errors import UsageError
    from replaykit.programs.file_swap import restore_swapped_file

    for file in files:
        restore_swapped_file(file)
    if not files:
        with suppress(UsageError):  # whoever uses it is in nobody's way here
            restore_swapped_file(MCP_CONFIG)
        if in_place:
            raise UsageError("which file is to be swapped?", hint=f"Name it: --mcp-config {MCP_CONFIG}")
        return None
    from replaykit.programs.mcp.config import checked_config
    from replaykit.programs.mcp.program_configs import McpConfigs

    for file in files:
        checked_config(file)
    return McpConfigs(files=tuple(dict.fromkeys(files)), in_place=in_place)


def upstreams_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the upstreams that the `--upstream` options name, by name."""
    if not pairs:
        return {}
    from replaykit.errors import UsageError
    from replaykit.programs.sdk_variables import checked_address

    found = {}
    for pair in pairs:
        name, equals, address = pair.partition("=")
        if not equals:
            raise UsageError(f"--upstream {pair!r}: expected NAME=URL")
        found[name] = checked_address(name, address)
    return found


class BeforeProgram(click.Command):
    """A verb whose arguments end at two dashes; what follows is a program, in `ctx.meta["program"]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta["program"] = args[:cut], tuple(args[cut + 1 :])
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]
