"""Options that several verbs share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from replaykit.config import MAX_TIMEOUT_S

as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
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


def upstreams_of(pairs: tuple[str, ...]) -> dict[str, str]:
    """What the `--upstream` options name."""
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


class Seconds(click.FloatRange):
    """A time limit: more than nothing, at most a day."""

    def __init__(self) -> None:
        super().__init__(min=0, max=MAX_TIMEOUT_S, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if seconds != seconds:  # NaN is neither too small nor too large
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


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


def chosen_candidate(
    runner_cmd: str | None,
    agent: str | None,
    endpoint: str | None,
    *,
    program: tuple[str, ...] | None = None,
    staging: Any = None,
) -> Any:
    """The candidate that the options name; `program` is what follows two dashes."""
    from replaykit.errors import UsageError

    given = [value for value in (runner_cmd, agent, endpoint, program) if value is not None]
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
