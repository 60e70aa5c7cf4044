"""`replaykit import langsmith`, `langfuse`, `phoenix`, `mlflow`: runs that these services keep."""

from __future__ import annotations

from typing import Any

import click

from replaykit.cli import import_runs, options
from replaykit.cli.verbosity import reports
from replaykit.errors import UsageError
from replaykit.intake.services import fetch_records
from replaykit.intake.services.phoenix import default_project

DEFAULT_TIMEOUT_S = 300.0

timeout = click.option(
    "--timeout",
    "timeout_s",
    type=options.Seconds(),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="Time limit for fetching everything, in seconds.",
)


_which = options.combined(
    timeout,
    click.option(
        "-n",
        "--limit",
        type=options.WholeNumber(1, 10_000),
        default=100,
        show_default=True,
        help="Import at most N runs.",
    ),
    click.option(
        "--min-latency-ms", type=options.NumberRange(0), default=0, help="Only runs that took at least this long."
    ),
    click.option("--since", metavar="TIME", help="Only runs that started since: 7d, 24h, or 2026-02-15."),
    click.option(
        "--status",
        type=options.OneOf(import_runs.STATUSES),
        default="error",
        show_default=True,
        help="Which runs to import; warning: runs that succeeded although a step failed.",
    ),
    options.repeated("--trace", "traces", metavar="ID", help="A trace by its id. Repeatable."),
)
"""Which traces, and within what time."""


@click.command(name="langsmith")
@_which
@click.option("--project", metavar="NAME", help="The project, by its name or its id.")
@import_runs.target_options
@reports
def langsmith(project: str | None, **parameters: Any) -> int:
    """Import runs from LangSmith.

    Imports traces by id, with all their child runs, or the failed traces of a project. Set LANGSMITH_API_KEY, and where
    needed LANGSMITH_ENDPOINT (the address) and LANGSMITH_WORKSPACE_ID.

    \b
    replaykit import langsmith --trace 0199a1b2-…
    replaykit import langsmith --project support --status error --since 7d --min-latency-ms 5000 -o replays
    """
    return _import("langsmith", project or "", "--project NAME", is_asked=project is not None, **parameters)


@click.command(name="langfuse")
@_which
@options.flag("--all", "is_whole", help="All traces of the project that the keys belong to.")
@import_runs.target_options
@reports
def langfuse(is_whole: bool, **parameters: Any) -> int:
    """Import traces from Langfuse.

    Imports traces by id, or the failed traces of the project. Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, and
    where needed LANGFUSE_BASE_URL or LANGFUSE_HOST (the address).

    \b
    replaykit import langfuse --trace 4bf92f3577b34da6a3ce929d0e0e4736
    replaykit import langfuse --all --status error --since 7d -o replays
    """
    return _import("langfuse", "", "--all", is_asked=is_whole, **parameters)


@click.command(name="phoenix")
@_which
@click.option("--project", metavar="NAME", help="The project, by its name or its id.  [default: $PHOENIX_PROJECT_NAME]")
@import_runs.target_options
@reports
def phoenix(project: str | None, **parameters: Any) -> int:
    """Import traces from Phoenix.

    Imports the failed traces of a project, or some of its traces by id. Set PHOENIX_COLLECTOR_ENDPOINT (the address),
    and where needed PHOENIX_API_KEY and PHOENIX_CLIENT_HEADERS.

    \b
    replaykit import phoenix --project support --since 24h
    replaykit import phoenix --project support --trace 4bf92f3577b34da6a3ce929d0e0e4736
    """
    named = project or default_project()
    if not named:
        raise UsageError("which project?", hint="Name it: --project NAME")
    return _import("phoenix", named, "--project NAME", is_asked=True, **parameters)


@click.command(name="mlflow")
@_which
@click.option("--experiment", metavar="NAME", help="The experiment, by its name or its id.")
@import_runs.target_options
@reports
def mlflow(experiment: str | None, **parameters: Any) -> int:
    """Import traces from an MLflow tracking server.

    Imports traces by id, or the failed traces of an experiment. Set MLFLOW_TRACKING_URI (the address), and where needed
    MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.

    \b
    replaykit import mlflow --trace tr-8587b4f292f32356af1ee984320a878b
    replaykit import mlflow --experiment support --status all --since 7d --dry-run
    """
    return _import("mlflow", experiment or "", "--experiment NAME", is_asked=experiment is not None, **parameters)


COMMANDS = (langsmith, langfuse, phoenix, mlflow)


def _import(
    service: str, project: str, option: str, *, is_asked: bool, traces: tuple[str, ...], **parameters: Any
) -> int:
    search = {name: parameters.pop(name) for name in ("status", "since", "min_latency_ms", "limit", "timeout_s")}
    if not traces and not is_asked:
        raise UsageError("no traces selected", hint=f"Select them: --trace ID, or {option}")
    if traces:
        refuse_choosing("--trace", "is_whole", "experiment")
    return import_runs.import_and_report(fetch_records(service, traces, project, **search), **parameters)


def _long_name(parameter: click.Parameter) -> str:
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])


def refuse_choosing(option: str, *more: str) -> None:
    """Refuse what chooses among many beside an option that names one: it would choose nothing."""
    context = click.get_current_context()
    spellings = {parameter.name: _long_name(parameter) for parameter in context.command.params}
    for name in ("status", "since", "min_latency_ms", "limit", *more):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"{option} names one, and {spellings[name]} chooses among many: give one of them")
