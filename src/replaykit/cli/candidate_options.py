"""Options that name a candidate, what stands around it while it runs, and what a person allows it to do for real.

No file can allow anything to be done for real.
"""

from __future__ import annotations

import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from replaykit.cli import options
from replaykit.config import default_evidence_path
from replaykit.errors import UsageError
from replaykit.model.faults import ChaosPlan
from replaykit.model.isolation import NO_CONSENT, Consent, IsolationLevel
from replaykit.programs.launch_options import ORIGINAL

candidate = options.combined(
    click.option("--endpoint", metavar="URL", help="An HTTP agent, which gets the case as JSON in a POST request."),
    click.option("--agent", metavar="MODULE:FUNCTION", help="A Python function, called in a fresh process."),
    click.option("--runner-cmd", metavar="CMD", help="A program that follows the runner contract."),
)
"""The three ways to name a candidate, of which one is given."""

jobs = click.option(
    "-j",
    "--jobs",
    type=options.WholeNumber(1),
    help="Run N at once.  [default: 1; one per core for a configured Python agent]",
)
on = click.option(
    "--on",
    metavar="local|dask://HOST:PORT",
    help="Run a Python agent in copies of the working directory: in processes of this machine, or on a Dask cluster.",
)
chaos = options.combined(
    click.option("--seed", type=options.WholeNumber(0), help="With --chaos: the seed of the faults.  [default: 0]"),
    click.option(
        "--chaos",
        metavar="PROFILE|FILE",
        help="Inject the faults of a profile (`replaykit chaos profiles`) or a file.",
    ),
)
trial_evidence = click.option(
    "--evidence",
    type=options.DIRECTORY,
    help="Where to write the files of every run.  [default: .replaykit/runs, for runs that fail]",
)

live = options.repeated(
    "--live",
    metavar="NAME",
    help="Allow live calls of this tool, model or host, if the case has no answer or asks for a live call; `models` is"
    " every model, `*` anything. Repeatable.",
)
allow_connect = options.repeated(
    "--allow-connect",
    metavar="HOST:PORT",
    help="Let the candidate connect to this address, or to a unix socket by its path. Repeatable.",
)
allow_write = options.repeated(
    "--allow-write", metavar="DIR", help="Let the candidate write real files in this directory. Repeatable."
)
consent = options.combined(allow_write, allow_connect, live)

isolation = click.option(
    "--isolation",
    type=options.OneOf(["full", "landlock", "process"]),
    default="full",
    help="Isolate the candidate at this level at most.  [default: the highest that this machine offers]",
)
keep_writes = click.option(
    "--keep-writes",
    type=options.DIRECTORY,
    metavar="DIR",
    help="Copy the files the candidate wrote in its sandbox into this directory.",
)

upstream = options.repeated(
    "--upstream",
    metavar="NAME=URL",
    help="A further API behind the proxy; sets NAME_BASE_URL for the program. Repeatable.",
)
mcp_config = options.combined(
    options.flag(
        "--mcp-config-in-place",
        "in_place",
        help="Replace those files while the program runs, for programs that read them in place.",
    ),
    options.repeated(
        "--mcp-config",
        "mcp_configs",
        type=options.PATH,
        metavar="FILE",
        help="Route the MCP servers in this file, such as .mcp.json, through ReplayKit. Repeatable.",
    ),
)
MCP_CONFIG = Path(".mcp.json")
"""The file in which many programs look for their MCP servers."""


class BeforeProgram(click.Command):
    """A verb whose arguments end at two dashes; what follows is a program, in `ctx.meta["program"]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta["program"] = args[:cut], tuple(args[cut + 1 :])
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*filter(None, super().collect_usage_pieces(ctx)), "[-- CMD...]"]


class PythonAgentOnly(click.Command):
    """A verb that continues a run inside the agent's process, and therefore takes no other kind of candidate."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for argument in args:
            kind = argument.partition("=")[0]
            if kind in ("--runner-cmd", "--endpoint", "--"):
                raise click.UsageError(
                    f"`replaykit {ctx.info_name}` works inside the agent's process, so it needs a Python agent: "
                    f"--agent MODULE:FUNCTION, not {kind}",
                    ctx,
                )
        return super().parse_args(ctx, args)


def named_program() -> tuple[str, ...] | None:
    """Return the program that follows two dashes; None where the command line has none."""
    return click.get_current_context().meta.get("program")


def chosen_candidate(
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    *,
    program: tuple[str, ...] | None = None,
    launch_options: Any = None,
    project: Any = None,
    reuses_workers: bool = False,
) -> Any:
    """The candidate that the options name, else the project's; `program` is what follows two dashes."""
    named = [value for value in (runner_cmd, agent, endpoint, program) if value is not None]
    if named and reuses_workers:
        raise UsageError("--reuse-workers is for the Python agent of a configuration", hint="Leave it out.")
    if not named and project is not None:
        from replaykit.candidates.agents import candidate_of as agent_of

        return agent_of(project, launch_options=launch_options, reuses_workers=reuses_workers)
    if len(named) != 1:
        raise UsageError(
            "give exactly one candidate" if named else "no candidate to run",
            hint="One of: --runner-cmd CMD, --agent MODULE:FUNCTION, --endpoint URL, -- PROGRAM",
        )
    if agent is not None:
        from replaykit.candidates.python import PythonCandidate

        return PythonCandidate(agent)
    if endpoint is not None:
        from replaykit.candidates.http import HttpCandidate

        return HttpCandidate(endpoint)
    from replaykit.candidates.command import CommandCandidate

    return CommandCandidate(named[0], launch_options)


def candidate_and_jobs(*names: str | None, jobs: int | None, project: Any, **settings: Any) -> tuple[Any, int]:
    """The candidate that the options name, else the project's, and how many of its runs go side by side. What it
    keeps running ends with the command."""
    program = named_program()
    candidate = stopped_at_the_end(chosen_candidate(*names, program=program, project=project, **settings))
    if jobs is None and project is not None and not any((*names, program)):
        from replaykit.candidates.agents import default_jobs

        return candidate, default_jobs(project)
    return candidate, jobs or 1


def stopped_at_the_end(candidate: Any) -> Any:
    """Return the candidate; what it keeps running ends with the command."""
    from replaykit.candidates.attempt import Stoppable

    if isinstance(candidate, Stoppable):
        click.get_current_context().call_on_close(candidate.stop)
        _leave_when_told()
    return candidate


def _leave_when_told() -> None:
    """End as after ctrl-c where a pipeline is cancelled: else what the candidate runs would go on alone."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        click.get_current_context().call_on_close(lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def cluster_of(on: str, candidate: Any, **settings: Any) -> Any:
    """Return the engine that `--on` names, with the agent; it ends with the command."""
    from replaykit.cluster.cluster import Cluster, ClusterSettings

    project = settings["project"]
    if project is not None and project.files.revision_text:
        raise UsageError("--on sends the working tree, so it cannot be combined with --config-from or --untrusted")
    cluster = Cluster(on, candidate, ClusterSettings(**settings))
    options.note(*(f"{path} is not sent: the link leads elsewhere" for path in cluster.left_out))
    stopped_at_the_end(cluster.candidate)
    return cluster


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


def evidence_of(directory: Path | None) -> Any:
    """Return where the runs of a trial leave their files; passing runs leave some only in a named directory."""
    from replaykit.candidates.evidence import EvidenceFiles

    return EvidenceFiles(root=directory or default_evidence_path(), of_passed=directory is not None)


def refuse_out_of_reach(endpoint: str | None, plans: Iterable[ChaosPlan]) -> None:
    """Raise a `UsageError` where faults of calls are planned, and the agent makes its calls behind a URL."""
    if endpoint is not None and any(plan.of_calls for plan in plans):
        raise UsageError(
            "faults of tools and models do not reach an agent behind a URL: it calls them in its own process",
            hint="Run it as a program (-- CMD) or as --agent MODULE:FUNCTION; "
            "or put the middleware around it, and name it in a configuration.",
        )


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
    keep_writes = "" if directory is None else str(directory.absolute())
    return Consent(isolation=IsolationLevel(parameters.pop("isolation")), keep_writes=keep_writes)


def refuse_in_live_world(allowed: Consent, *, is_recorded: bool) -> None:
    """Raise a `UsageError` where the options say nothing: what no case holds is live anyway."""
    if not is_recorded and allowed != NO_CONSENT:
        message = "--live, --allow-connect and --allow-write are for a recorded world, and this one is live"
        raise UsageError(message, hint="Name a case: --case CASE")


def mcp_props(files: tuple[Path, ...], *, in_place: bool) -> Any:
    """Return the MCP servers that the `--mcp-config` options name; None without any."""
    if not files and not in_place and not MCP_CONFIG.with_name(MCP_CONFIG.name + ORIGINAL).exists():
        return None
    from replaykit.programs.file_swap import restore_swapped_file

    for file in files:
        restore_swapped_file(file)
    if not files:
        with suppress(UsageError):  # whoever uses it is in nobody's way here
            restore_swapped_file(MCP_CONFIG)
        if in_place:
            raise UsageError("which file should be replaced?", hint=f"Name it: --mcp-config {MCP_CONFIG}")
        return None
    from replaykit.programs.mcp.config import McpConfigs, checked_config

    for file in files:
        checked_config(file)
    return McpConfigs(files=tuple(dict.fromkeys(files)), in_place=in_place)


def check_servers(servers: Any, candidate: Any, jobs: int) -> None:
    """Raise a `UsageError` where MCP servers are named for a candidate that cannot have them."""
    if servers is None:
        return
    if servers.in_place and jobs > 1:
        raise UsageError("--mcp-config-in-place replaces a file, so runs cannot share it", hint="Say --jobs 1.")
    from replaykit.candidates.command import CommandCandidate

    if not isinstance(candidate, CommandCandidate):
        raise UsageError("--mcp-config is for programs", hint="Name one with --runner-cmd, or after two dashes.")


def upstreams_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the upstreams that the `--upstream` options name, by name."""
    if not pairs:
        return {}
    from replaykit.programs.sdk_variables import checked_address

    found = {}
    for pair in pairs:
        name, equals, address = pair.partition("=")
        if not equals:
            raise UsageError(f"--upstream {pair!r}: expected NAME=URL")
        found[name] = checked_address(name, address)
    return found
