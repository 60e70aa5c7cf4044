"""Options that several verbs share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from replaykit.config import MAX_TIMEOUT_S

as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def _turn_off(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Tell this process, and those that it starts, by the variable that says the same."""
    if value:
        from replaykit.redaction.project import SWITCH

        before = os.environ.get(SWITCH)
        os.environ[SWITCH] = "off"
        ctx.call_on_close(lambda: os.environ.pop(SWITCH) if before is None else os.environ.update({SWITCH: before}))


no_redact = click.option(
    "--no-redact",
    is_flag=True,
    expose_value=False,
    callback=_turn_off,
    help="Write secrets and personal data as they are: for made-up data only.",
)


def _turn_on(_ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from replaykit.telemetry import enable

        enable()


otel = click.option(
    "--otel",
    is_flag=True,
    expose_value=False,
    callback=_turn_on,
    help="Send runs as traces to OpenTelemetry, as the OTEL_… variables say; REPLAYKIT_OTEL=1 does as well.",
)


def redacted(text: str) -> str:
    """A JSON text that others will keep, as it may be kept."""
    from replaykit.redaction.files import clean_text, file_redactor

    return clean_text(text, file_redactor())


store = click.option(
    "--store",
    "store_path",
    type=click.Path(path_type=Path),
    default=None,
    help="The store.  [default: $REPLAYKIT_STORE, or .replaykit/store.db]",
)


upstream = click.option(
    "--upstream",
    multiple=True,
    metavar="NAME=URL",
    help="A further API behind the proxy; sets NAME_BASE_URL for the program. Repeatable.",
)


MCP_CONFIG = Path(".mcp.json")
"""Where many programs look for their MCP servers."""


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
    """What the `--mcp-config` options put on a program's stage; None where there are none."""
    from replaykit.programs.wanted import ORIGINAL

    if not files and not in_place and not MCP_CONFIG.with_name(MCP_CONFIG.name + ORIGINAL).exists():
        return None
    from replaykit.errors import UsageError
    from replaykit.programs.swapping import put_back

    for file in files:
        put_back(file)
    if not files:
        with suppress(UsageError):  # whoever uses it is in nobody's way here
            put_back(MCP_CONFIG)
        if in_place:
            raise UsageError("which file is to be swapped?", hint=f"Name it: --mcp-config {MCP_CONFIG}")
        return None
    from replaykit.mcp.config import checked_config
    from replaykit.mcp.staging import McpConfigs

    for file in files:
        checked_config(file)
    return McpConfigs(files=tuple(dict.fromkeys(files)), in_place=in_place)


def upstreams_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """What the `--upstream` options name."""
    if not pairs:
        return {}
    from replaykit.errors import UsageError
    from replaykit.programs.environment import checked

    found = {}
    for pair in pairs:
        name, equals, address = pair.partition("=")
        if not equals:
            raise UsageError(f"--upstream {pair!r}: expected NAME=URL")
        found[name] = checked(name, address)
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


class Parts(click.Group):
    """A verb with parts; one that there is not is answered with the nearest."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from replaykit.errors import nearest

        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(f"no such part {args[0]!r}; {nearest(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)


class Seconds(click.FloatRange):
    """A time limit: more than nothing, at most a day."""

    def __init__(self) -> None:
        super().__init__(min=0, max=MAX_TIMEOUT_S, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if seconds != seconds:  # NaN is neither too small nor too large
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


class Speed(click.FloatRange):
    """A pace: `1x` as recorded, `0.5x` half as fast, 0 at once; the `x` may be left out."""

    name = "pace"

    def __init__(self) -> None:
        super().__init__(min=0, max=1000)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: Any = str(value).removesuffix("x")
        speed = float(super().convert(number, param, ctx))
        if speed != speed:  # NaN is neither too small nor too large
            self.fail(f"{value} is not a pace.", param, ctx)
        return speed


config = click.option(
    "-c",
    "--config",
    "config",
    type=click.Path(path_type=Path),
    default=None,
    help="The project's configuration: its agent, contracts and sessions.  [default: replaykit.yaml, if there is one]",
)


def project_of(config: Path | None) -> Any:
    """The configuration that was named, or that lies here; None when there is none. Its notices are told."""
    from replaykit.project.find import find_project

    file = config if config is not None else find_project()
    if file is None:
        return None
    from replaykit.project.project import load_project

    project = load_project(file)
    for notice in project.notices:
        click.echo(f"note: {notice}", err=True)
    return project


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


def chaos_plan(name: str, seed: int | None, endpoint: str | None = None) -> Any:
    """The plan that `--chaos` and `--seed` name."""
    from replaykit.errors import UsageError
    from replaykit.project.chaos_config import named_plan

    plan = named_plan(name, seed=seed)
    if endpoint is not None and plan.of_calls:
        raise UsageError(OUT_OF_REACH, hint=OUT_OF_REACH_HINT)
    return plan


OUT_OF_REACH = "faults of tools and models do not reach an agent behind a URL: it calls them in its own process"
OUT_OF_REACH_HINT = (
    "Run it as a program (-- CMD) or as --agent MODULE:FUNCTION; "
    "or put the middleware around it, and name it in a configuration."
)


timeout = click.option("--timeout", "timeout_s", type=Seconds(), help="Seconds per run, instead of the case's own.")


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
    """Where the runs of a trial leave their files; those that pass only where a directory is named."""
    from replaykit.config import default_evidence_path
    from replaykit.trials.trying import Evidence

    return Evidence(root=directory or default_evidence_path(), of_passed=directory is not None)


def chosen_candidate(
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    *,
    program: tuple[str, ...] | None = None,
    staging: Any = None,
    project: Any = None,
) -> Any:
    """The candidate that the options name, else the project's; `program` is what follows two dashes."""
    from replaykit.errors import UsageError

    given = [value for value in (runner_cmd, agent, endpoint, program) if value is not None]
    if not given and project is not None:
        from replaykit.runners.agents import candidate_of as agent_of

        return agent_of(project, staging=staging)
    if len(given) != 1:
        raise UsageError(
            "give exactly one candidate" if given else "no candidate to run",
            hint="One of: --runner-cmd CMD, --agent MODULE:FUNCTION, --endpoint URL, -- PROGRAM",
        )
    if (command := runner_cmd if program is None else program) is not None:
        from replaykit.runners.command import CommandCandidate

        return CommandCandidate(command, staging)
    if agent is not None:
        from replaykit.runners.python import PythonCandidate

        return PythonCandidate(agent)
    from replaykit.runners.http import HttpCandidate

    return HttpCandidate(str(endpoint))


def candidate_and_jobs(*names: str | None, jobs: int | None, project: Any, **given: Any) -> tuple[Any, int]:
    """The candidate that the options name, else the project's, and how many of its runs go side by side. What it
    keeps running ends with the command."""
    from replaykit.runners.attempt import Stoppable

    named = any(name is not None for name in (*names, given.get("program")))
    candidate = chosen_candidate(*names, project=project, **given)
    if isinstance(candidate, Stoppable):
        click.get_current_context().call_on_close(candidate.stop)
        _leave_when_told()
    if jobs is None and project is not None and not named:
        from replaykit.runners.agents import default_jobs

        return candidate, default_jobs(project)
    return candidate, jobs or 1


def _leave_when_told() -> None:
    """End as after ctrl-c where a pipeline is cancelled: else what the candidate runs would go on alone."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        click.get_current_context().call_on_close(lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def tell_notices(subjects: Any) -> None:
    """Say what was passed over, and what is wrong with files; one that is the only one is an error."""
    if len(subjects.all) == 1 and subjects.unusable:
        raise subjects.unusable[0].error
    for notice in subjects.notices:
        click.echo(f"note: {notice}", err=True)
    for wrong in subjects.unusable:
        click.echo(f"{click.style('error', fg='red', bold=True)}: {wrong.reason}", err=True)


@contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr, where a person looks at it and there is something to wait for."""
    if total < 2 or not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)


def candidate_of(text: str) -> Any:
    """A candidate in one word: `module:function`, a URL, or a command."""
    import re

    if re.fullmatch(r"https?://\S+", text):
        return chosen_candidate(None, None, text)
    if re.fullmatch(r"[\w.]+:[\w.]+", text):
        return chosen_candidate(None, text, None)
    return chosen_candidate(text, None, None)


def journey(command: Callable[..., Any]) -> Callable[..., Any]:
    """What `resume` and `fork` have in common."""
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
        command = option(command)
    return command


def tell_journey(journey: Any, *, as_json: bool, dry_run: bool) -> None:
    """Print how a journey ended, and leave with its exit code."""
    from replaykit.errors import ExitCode
    from replaykit.model.run import RunStatus
    from replaykit.report.travel import journey_json, journey_text

    click.echo(journey_json(journey) if as_json else journey_text(journey, dry_run=dry_run))
    stops = ("undecided", "missing", "unanswerable", "unmade")
    stopped = any(deviation.kind in stops for deviation in journey.deviations)
    failed = (journey.status is not RunStatus.SUCCESS or stopped) and not dry_run
    click.get_current_context().exit(ExitCode.FAILED if failed else ExitCode.PASSED)


def json_or_text(text: str) -> Any:
    """The JSON value that a text spells, or else the text itself."""
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def json_object(option: str, text: str) -> dict[str, Any]:
    """The JSON object that an option's text spells."""
    value = json_or_text(text)
    if not isinstance(value, dict):
        raise click.UsageError(f"{option} {text!r}: expected a JSON object")
    return value


def json_list(option: str, text: str) -> list[Any]:
    """The JSON list that an option's text spells."""
    value = json_or_text(text)
    if not isinstance(value, list):
        raise click.UsageError(f"{option} {text!r}: expected a JSON list")
    return value


def judged_result(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which replay of a case is judged."""
    for option in (
        click.option(
            "--evidence",
            type=click.Path(path_type=Path, file_okay=False),
            default=None,
            help="Where replays leave their files.  [default: .replaykit/runs]",
        ),
        click.option(
            "--result",
            type=click.Path(path_type=Path),
            default=None,
            metavar="PATH",
            help="A replay's result.json, or its directory.  [default: the newest replay of the case]",
        ),
    ):
        command = option(command)
    return command


def asking_judge(command: Callable[..., Any]) -> Callable[..., Any]:
    """Who answers the `judge.…` assertions of a contract, where nobody has."""
    for option in (
        click.option(
            "--judge",
            "judge_spec",
            metavar="JUDGE",
            help="With --ask-judge: openai:MODEL, anthropic:MODEL or python:MODULE:FUNCTION.  [default: the project's]",
        ),
        click.option("--ask-judge", is_flag=True, help="Ask the judge what nobody has answered, and store that."),
    ):
        command = option(command)
    return command


def answers_of(project: Any, command: str, *, ask: bool, spec: str | None) -> Any:
    """What judges said of runs that are no case's, beside the configuration; with `ask` they are asked as well."""
    from replaykit.errors import UsageError
    from replaykit.judges.stored import ProjectAnswers

    if spec is not None and not ask:
        raise UsageError("--judge goes with --ask-judge", hint="Without it nobody is asked.")
    judge = _judge(spec, project) if ask else None
    return ProjectAnswers(Path() if project is None else project.directory, command, judge)


def judged_case(path: Path) -> Any:
    """The case or the session that is judged."""
    from replaykit.cases.case import CASE_FILE, load_case

    if path.is_dir() or path.name == CASE_FILE or not path.is_file():
        return load_case(path)
    from replaykit.project.subjects import load_subject

    return load_subject(path)


def chosen_judge(spec: str | None, config: Path | None) -> Any:
    """The judge that is named, or else the project's own. No case ever names one."""
    return _judge(spec, None if spec is not None else project_of(config))


def _judge(spec: str | None, project: Any) -> Any:
    from replaykit.errors import UsageError
    from replaykit.trials.judging import judge_of

    if spec is not None:
        return judge_of(spec)
    if project is None or project.judge is None:
        where = "no judge to ask" if project is None else f"{project.file} names no judge"
        raise UsageError(where, hint="Name one: --judge openai:MODEL, or `judge:` in replaykit.yaml")
    return judge_of(project.judge.use, project.judge.parameters)
