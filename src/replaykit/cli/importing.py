"""What the parts of `import` share, and the spellings of it that `replay` has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.cli import options

if TYPE_CHECKING:
    from replaykit.importing.job import ImportResult
    from replaykit.importing.record import Record

STATUSES = ("error", "warning", "all")

_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE|DIRECTORY",
    help="Write a session file for each run: into a directory, or to a .yaml or .json file.",
)


def into(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where the runs go, and what is done with them."""
    for option in (
        options.as_json,
        options.store,
        options.config,
        click.option("--run", "run_them", is_flag=True, help="Replay the sessions right away, with the configuration."),
        click.option("--dry-run", is_flag=True, help="Show what would come in, and write nothing."),
        click.option("--force", is_flag=True, help="Replace session files that say something else."),
        click.option(
            "--contract", metavar="NAME", help="The contract of the sessions.  [default: the configuration's only one]"
        ),
        _OUTPUT,
    ):
        command = option(command)
    return command


def bring_in(records: Iterable[Record], *, run_them: bool, dry_run: bool, as_json: bool, **place: Any) -> None:
    """Bring the records in, tell what became of them, replay them where that is asked for, and leave."""
    from replaykit.errors import ExitCode, NothingSelected, UsageError

    if run_them and dry_run:
        raise UsageError("--run and --dry-run do not go together")
    result = landed(records, needs_sessions=run_them, dry_run=dry_run, **place)
    failed = ExitCode.FAILED if result.failed else ExitCode.PASSED
    tell(result, as_json=as_json, aside=run_them)
    context = click.get_current_context()
    if not run_them:
        context.exit(failed)
    if not result.sessions:
        raise NothingSelected("there is no session to replay")
    from replaykit.cli import replay

    try:
        context.invoke(replay.command, cases=tuple(result.sessions), config=place["config"], as_json=as_json)
    except click.exceptions.Exit as exit_:
        context.exit(exit_.exit_code or failed)


def landed(
    records: Iterable[Record],
    *,
    output: Path | None,
    config: Path | None,
    contract: str | None = None,
    force: bool = False,
    store_path: Path | None = None,
    dry_run: bool = False,
    needs_sessions: bool = False,
) -> ImportResult:
    """Bring the records into the store and into session files, with a count on a terminal."""
    from replaykit.errors import NothingSelected
    from replaykit.importing.job import Into, import_records
    from replaykit.importing.sessions import FETCHED, contract_of_imports
    from replaykit.project.find import find_project
    from replaykit.project.project import load_project

    is_own = output is None and needs_sessions
    target = FETCHED if is_own else output
    file = config if config is not None else find_project()
    project = load_project(file) if target is not None and file is not None else None
    place = Into(
        store=store_path,
        output=target,
        contract=contract_of_imports(project, contract or "") if target is not None else "",
        force=force or is_own,
        dry_run=dry_run,
    )
    with counting("importing") as advance:
        result = import_records(records, place, advance)
    if not result.entries:
        raise NothingSelected("no run came in", hint="\n".join(result.notes) or None)
    if result.sessions and not place.contract:
        click.echo("note: the sessions name no contract: --contract NAME, or a configuration with one", err=True)
    return result


def tell(result: ImportResult, *, as_json: bool, aside: bool = False) -> None:
    """Print what became of the runs; to standard error where a replay's result follows."""
    from replaykit.model.values import printable
    from replaykit.report.imports import import_json, import_text, problems_text

    for note in result.notes:
        click.echo(f"note: {printable(note)}", err=True)
    if result.failed:
        click.echo(problems_text(result), err=True)
    click.echo(import_json(result) if as_json and not aside else import_text(result), err=aside)


@contextmanager
def counting(label: str) -> Iterator[Callable[[], None]]:
    """A count on stderr of something whose end is not known, where a person looks at it."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    number = 0

    def advance() -> None:
        nonlocal number
        number += 1
        click.echo(f"\r{label}: {number}", nl=False, err=True)

    try:
        yield advance
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def project_records(
    project: str, *, status: str, since: str | None, min_latency_ms: float, limit: int, timeout_s: float
) -> Iterator[Record]:
    """The runs of a project of LangSmith."""
    import datetime as dt

    from replaykit.errors import UsageError
    from replaykit.importers.langsmith_wanted import Status, since_of
    from replaykit.importing.langsmith import LangSmith, Query

    try:
        began = None if since is None else since_of(since, dt.datetime.now(dt.UTC))
    except ValueError as error:
        raise UsageError(f"--since: {error}", hint="Write --since 7d, --since 24h or --since 2026-02-15") from None
    query = Query(project=project, status=Status(status), since=began, min_latency_ms=min_latency_ms, limit=limit)
    return LangSmith(timeout_s=timeout_s).runs(query)


def run_records(run_ids: Iterable[str], project: str | None, timeout_s: float) -> Iterator[Record]:
    """Runs of LangSmith by their ids; where one of several cannot be had, that is a record."""
    from replaykit.errors import UsageError
    from replaykit.importing.langsmith import ORIGIN, LangSmith
    from replaykit.importing.record import Record

    langsmith, ids = LangSmith(timeout_s=timeout_s), list(dict.fromkeys(run_ids))
    for run_id in ids:
        try:
            yield langsmith.run(run_id, project)
        except UsageError as error:
            if len(ids) == 1:
                raise
            yield Record(origin=ORIGIN, id=run_id, problem=str(error))


def from_langsmith(command: Callable[..., Any]) -> Callable[..., Any]:
    """The spellings of `import langsmith` that `replay` has."""
    for option in (
        click.option("--run", "run_them", is_flag=True, help="With -o: replay the sessions that are written as well."),
        _OUTPUT,
        click.option(
            "--filter-status",
            type=click.Choice(STATUSES),
            default="error",
            show_default=True,
            help="With --from-langsmith-project: which runs.",
        ),
        click.option("--from-langsmith-project", "from_project", metavar="NAME", help="Import a project's runs first."),
        click.option("--from-langsmith", "from_runs", multiple=True, metavar="RUN_ID", help="Import this run first."),
    ):
        command = option(command)
    return command


def replayed_from_langsmith(given: dict[str, Any]) -> int:
    """Take these spellings out of a call of `replay`; its cases are the sessions then. Gives what to exit with at best.

    Sessions that are written with -o are replayed only where `--run` says so.
    """
    from replaykit.errors import ExitCode, UsageError
    from replaykit.importers.langsmith_wanted import DEFAULT_LIMIT
    from replaykit.importing.transport import DEFAULT_TIMEOUT_S

    names = ("from_runs", "from_project", "filter_status", "output", "run_them")
    runs, project, status, output, run_them = (given.pop(name) for name in names)
    if not runs and project is None:
        if output is not None or run_them:
            raise UsageError("-o and --run go with --from-langsmith", hint="Reports: replaykit ci --only replay -o DIR")
        return ExitCode.PASSED
    if given["cases"] or (runs and project is not None):
        raise UsageError("give cases, or --from-langsmith, or --from-langsmith-project: one of them")
    if runs:
        records = run_records(runs, None, DEFAULT_TIMEOUT_S)
    else:
        records = project_records(
            project, status=status, since=None, min_latency_ms=0, limit=DEFAULT_LIMIT, timeout_s=DEFAULT_TIMEOUT_S
        )
    result = landed(records, output=output, config=given["config"], needs_sessions=True)
    failed = ExitCode.FAILED if result.failed else ExitCode.PASSED
    is_run = run_them or output is None
    tell(result, as_json=given["as_json"], aside=is_run)
    if not is_run or not result.sessions:
        click.get_current_context().exit(failed)
    given["cases"] = tuple(result.sessions)
    return failed
