"""`replay --from-langsmith`: import runs from LangSmith first, and replay the sessions made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from replaykit.cli import import_runs
from replaykit.errors import ExitCode, UsageError, gravest

if TYPE_CHECKING:
    from replaykit.intake.entries import ImportRecord


def replays_langsmith(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the LangSmith options to a replay command; where they are used, its cases are the imported sessions.

    Sessions that are written with -o are replayed only with `--run`.
    """

    @wraps(command)
    def import_first(
        *,
        from_runs: tuple[str, ...],
        from_project: str | None,
        filter_status: str,
        output: Any,
        run_them: bool,
        **parameters: Any,
    ) -> None:
        if not from_runs and from_project is None:
            if output is not None or run_them:
                hint = "Reports: replaykit ci --only replay -o DIR"
                raise UsageError("-o and --run go with --from-langsmith", hint=hint)
            command(**parameters)
            return
        _check(from_runs, from_project, parameters)
        records = _records(from_runs, from_project, filter_status)
        result = import_runs.import_into_project(
            records, output=output, config=parameters["config"], needs_sessions=True
        )
        import_code = ExitCode.FAILED if result.failed else ExitCode.PASSED
        is_replayed = run_them or output is None
        import_runs.report(result, as_json=parameters["as_json"], aside=is_replayed)
        context = click.get_current_context()
        if not is_replayed or not result.sessions:
            context.exit(import_code)
        try:
            command(**{**parameters, "cases": tuple(result.sessions)})
        except click.exceptions.Exit as exit_:
            context.exit(gravest([ExitCode(exit_.exit_code), import_code]))

    wrapped: Callable[..., Any] = import_first
    for option in (
        click.option("--run", "run_them", is_flag=True, help="With -o: replay the sessions that are written as well."),
        import_runs.OUTPUT,
        click.option(
            "--filter-status",
            type=click.Choice(import_runs.STATUSES),
            default="error",
            show_default=True,
            help="With --from-langsmith-project: which runs.",
        ),
        click.option("--from-langsmith-project", "from_project", metavar="NAME", help="Import a project's runs first."),
        click.option("--from-langsmith", "from_runs", multiple=True, metavar="RUN_ID", help="Import this run first."),
    ):
        wrapped = option(wrapped)
    return wrapped


def _check(run_ids: Sequence[str], project: str | None, parameters: dict[str, Any]) -> None:
    """Raise a UsageError for options that do not go together."""
    if parameters["cases"] or (run_ids and project is not None):
        raise UsageError("give cases, or --from-langsmith, or --from-langsmith-project: one of them")
    if parameters["config_from"] is not None or parameters["untrusted"]:
        hint = "Import it first, on a machine of yours: replaykit import langsmith"
        raise UsageError("--from-langsmith does not go with --config-from and --untrusted", hint=hint)


def _records(run_ids: Sequence[str], project: str | None, status: str) -> Iterator[ImportRecord]:
    # A replay without these options needs none of the importers.
    from replaykit.formats.core.run_query import DEFAULT_LIMIT
    from replaykit.intake.services import fetch_records
    from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S

    if run_ids:
        return fetch_records("langsmith", run_ids, "", timeout_s=DEFAULT_TIMEOUT_S)
    return fetch_records(
        "langsmith",
        (),
        project or "",
        status=status,
        since=None,
        min_latency_ms=0,
        limit=DEFAULT_LIMIT,
        timeout_s=DEFAULT_TIMEOUT_S,
    )
