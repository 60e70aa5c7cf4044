"""Options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from replaykit.cases.config_files import WORKING_TREE, ConfigFiles, find_project
from replaykit.cli.verbosity import detail, essential, hint, is_quiet
from replaykit.config import MAX_TIMEOUT_S
from replaykit.errors import nearest
from replaykit.report.layout import fit, highlighted, to_json
from replaykit.terminal import style

T = TypeVar("T")

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def flag(*names: str, help: str, **settings: Any) -> Decorator:
    """Return an option that is given or not, and takes no value."""
    return click.option(*names, is_flag=True, help=help, **settings)


def repeated(*names: str, help: str, **settings: Any) -> Decorator:
    """Return an option that may be given several times."""
    return click.option(*names, multiple=True, help=help, **settings)


def destination(name: str, help: str, **settings: Any) -> Decorator:
    """Return the option that says where to write: one spelling for every command, and a second for older habits."""
    return click.option("-o", "--out", "--output", name, help=help, **settings)


def combined(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options; the last of them stands first in the help."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            command = option(command)
        return command

    return add


def show(
    as_json: bool,
    value: T,
    text: Callable[[T], str],
    json: Callable[[T], str] = to_json,
    *,
    redact: bool = False,
    brief: Callable[[T], str] | None = None,
) -> None:
    """Print a value for people, or as JSON; with `redact` JSON that others will keep is redacted.

    With `--quiet`, people get what `brief` makes of it, or the last line of the text.
    """
    if not as_json and is_quiet():
        click.echo(essential(text(value)) if brief is None else brief(value))
    elif not as_json:
        click.echo(fit(text(value)))
    elif redact:
        print_json(redacted(json(value)))
    else:
        print_json(json(value))


def print_json(text: str) -> None:
    """Print JSON text, in colours on a terminal."""
    click.echo(highlighted(text))


as_json = flag("--json", "as_json", help="Print the result as JSON.")


def _turn_off(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Tell this process, and those that it starts, by the variable that says the same."""
    if value:
        from replaykit.redaction.project import SWITCH

        before = os.environ.get(SWITCH)
        os.environ[SWITCH] = "off"
        ctx.call_on_close(lambda: os.environ.pop(SWITCH) if before is None else os.environ.update({SWITCH: before}))


no_redact = flag(
    "--no-redact",
    expose_value=False,
    callback=_turn_off,
    help="Write secrets and personal data as they are: for made-up data only.",
)


def _turn_on(_ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from replaykit.telemetry import enable

        enable()


otel = flag(
    "--otel",
    expose_value=False,
    callback=_turn_on,
    help="Send runs to OpenTelemetry, as the OTEL_… variables configure it (or set REPLAYKIT_OTEL=1).",
)


def redacted(text: str) -> str:
    """A JSON text that others will keep, as it may be kept."""
    from replaykit.redaction.files import clean_text, file_redactor

    return clean_text(text, file_redactor())


store = click.option(
    "--store",
    "store_path",
    type=PATH,
    help="The store.  [default: $REPLAYKIT_STORE, or .replaykit/store.db]",
)


class SubcommandGroup(click.Group):
    """A command with commands of its own; an unknown one is answered with the nearest."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(f"no such command {args[0]!r}; {nearest(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)


class CommandWithParts(click.Group):
    """A command that takes arguments, and has commands of its own: a first word that names one of those is that one."""

    allow_interspersed_args = True  # as any command; a group takes no option behind a word
    allow_extra_args = False

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"no_args_is_help": False, "subcommand_metavar": "", **settings})

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        if ctx.command is self:
            return params
        return [param for param in params if isinstance(param, click.Option)]  # its arguments are none of a part

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in self.commands:
            ctx.invoked_subcommand = args[0]
            ctx.args = args
            return args
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.invoked_subcommand is None:
            return click.Command.invoke(self, ctx)
        name, *rest = ctx.args
        with self.commands[name].make_context(name, rest, parent=ctx) as part:
            return part.command.invoke(part)


class OneOf(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on
    """One of several words; a wrong one is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            message = f"unknown value {value!r}; {nearest(value, self.choices)}"
            if isinstance(param, click.Argument):  # click would name it by its brackets
                raise click.UsageError(message, ctx)
            self.fail(message, param, ctx)
        return str(value)


class WholeNumber(click.IntRange):
    """A whole number of a range: `N` in the help."""

    name = "whole number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "N"


class NumberRange(click.FloatRange):
    """A number of a range. NaN belongs to none, though it is neither below nor above."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value} is not a number.", param, ctx)
        return number


class Seconds(NumberRange):
    """A time limit: more than nothing, at most a day."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0, max=MAX_TIMEOUT_S, min_open=True)


class Speed(NumberRange):
    """A pace: `1x` as recorded, `0.5x` half as fast, 0 at once; the `x` may be left out."""

    name = "pace"

    def __init__(self) -> None:
        super().__init__(min=0, max=1000)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return super().convert(str(value).removesuffix("x"), param, ctx)


config = click.option(
    "-c",
    "--config",
    "config",
    type=PATH,
    help="The project's configuration.  [default: replaykit.yaml, if it exists]",
)


def project_of(config: Path | None, files: ConfigFiles = WORKING_TREE, *, untrusted: bool = False) -> Any:
    """The configuration that was named, or that lies here; None when there is none. Its notices are told.

    Its plugins are imported first, since its checks may be theirs.

    `files` are where it is read. One that is for strangers has no variable of the environment filled in that it does
    not list.
    """
    file = config or find_project(has=files.has)
    if file is None:
        return None
    from replaykit.cli.plugins import load_plugins  # it imports this module
    from replaykit.project.project import load_project

    load_plugins(file, files)
    project = load_project(file, files)
    detail(f"configuration {file}{files.where}")
    if untrusted and project.variables is None:
        from msgspec.structs import replace

        project = replace(project, variables=())
    note(*project.notices)
    return project


evidence = click.option(
    "--evidence", type=DIRECTORY, help="Where replays write their files.  [default: .replaykit/runs]"
)
timeout = click.option(
    "--timeout", "timeout_s", type=Seconds(), help="Time limit per run, in seconds, instead of the case's own."
)


def tell_notices(subjects: Any) -> None:
    """Say what was passed over, and what is wrong with files; one that is the only one is an error."""
    if len(subjects.all) == 1 and subjects.unusable:
        raise subjects.unusable[0].error
    note(*subjects.notices)
    for wrong in subjects.unusable:
        click.echo(fit(f"{style('error', fg='red', bold=True)}: {wrong.reason}"), err=True)


def note(*texts: str) -> None:
    """Say these things on stderr, a line each."""
    for text in texts:
        hint(fit(f"{style('note', fg='yellow')}: {text}"))


def json_or_text(text: str) -> Any:
    """The JSON value that a text spells, or else the text itself."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def json_of_kind(option: str, text: str, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
    """The JSON object or list that an option's text spells."""
    value = json_or_text(text)
    if not isinstance(value, kind):
        word = "object" if kind is dict else "list"
        raise click.UsageError(f"{option} {text!r}: expected a JSON {word}")
    return value
