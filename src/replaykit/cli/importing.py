"""What the parts of `import` share, and the spellings of it that `replay` has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.cli import options
from replaykit.cli.tally import Tally

if TYPE_CHECKING:
    from replaykit.errors import ExitCode
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
            "--allow-incomplete",
            is_flag=True,
            help="With --scaffold: also of runs of which no tool call can be replayed.",
        ),
        click.option(
            "--scaffold",
            "cases",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIRECTORY",
            help="Make a case of each failed run, one for each way to fail.",
        ),
        click.option(
            "--filter",
            "filters",
            multiple=True,
            metavar="KEY=VALUE",
            help="Only such runs: status, agent, name, tag or format; * stands for anything. Repeatable.",
        ),
        click.option(
            "--contract", metavar="NAME", help="The contract of the sessions.  [default: the configuration's only one]"
        ),
        _OUTPUT,
    ):
        command = option(command)
    return command


def bring_in(records: Iterable[Record], *, run_them: bool, dry_run: bool, as_json: bool, **place: Any) -> None:
    """Bring the records in, tell what became of them, replay them where that is asked for, and leave."""
    from replaykit.errors import ExitCode, NothingSelected, UsageError, gravest

    if run_them and dry_run:
        raise UsageError("--run and --dry-run do not go together")
    result = landed(records, needs_sessions=run_them, dry_run=dry_run, quiet=as_json, **place)
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
        context.exit(gravest([ExitCode(exit_.exit_code), failed]))


def landed(
    records: Iterable[Record],
    *,
    output: Path | None,
    config: Path | None,
    contract: str | None = None,
    cases: Path | None = None,
    allow_incomplete: bool = False,
    filters: tuple[str, ...] = (),
    since: str | None = None,
    limit: int | None = None,
    force: bool = False,
    store_path: Path | None = None,
    dry_run: bool = False,
    needs_sessions: bool = False,
    quiet: bool = False,
) -> ImportResult:
    """Bring the records into the store, into session files and into cases, with a count of them."""
    from replaykit.errors import NothingSelected, UsageError
    from replaykit.importing.job import Into, import_records
    from replaykit.importing.sessions import FETCHED, contract_of_imports
    from replaykit.importing.wanted import wanted_of
    from replaykit.project.find import find_project
    from replaykit.project.project import load_project

    if allow_incomplete and cases is None:
        raise UsageError("--allow-incomplete goes with --scaffold")
    wanted = wanted_of(filters, since, limit)
    is_own = output is None and needs_sessions
    target = FETCHED if is_own else output
    file = config if config is not None else find_project()
    project = load_project(file) if target is not None and file is not None else None
    place = Into(
        store=store_path,
        output=target,
        contract=contract_of_imports(project, contract or "") if target is not None else "",
        cases=cases,
        allow_incomplete=allow_incomplete,
        force=force or is_own,
        dry_run=dry_run,
    )
    with counting("importing", quiet=quiet) as advance:
        result = import_records(_each(records, advance), place, wanted=wanted)
    if not result.entries:
        raise NothingSelected("no run came in", hint="\n".join(result.notes) or None)
    if result.sessions and not place.contract:
        click.echo("note: the sessions name no contract: --contract NAME, or a configuration with one", err=True)
    return result


def tell(result: ImportResult, *, as_json: bool, aside: bool = False) -> None:
    """Print what became of the runs; to standard error where a replay's result follows."""
    from replaykit.report.imports import import_json, import_text, problems_text
    from replaykit.terminal import visible

    for note in result.notes:
        click.echo(f"note: {visible(note)}", err=True)
    if result.failed:
        click.echo(problems_text(result), err=True)
    if as_json and not aside:
        for piece in import_json(result):
            click.echo(piece, nl=False)
        click.echo()
    else:
        click.echo(import_text(result), err=aside)


def _each(records: Iterable[Record], advance: Callable[[], None]) -> Iterator[Record]:
    for record in records:
        advance()
        yield record


@contextmanager
def counting(label: str, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A count on stderr of something whose end is not known."""
    if quiet:
        yield lambda: None
        return
    tally = Tally(label, is_terminal=sys.stderr.isatty())
    try:
        yield tally.advance
    finally:
        tally.end()


def project_records(project: str, **search: Any) -> Iterator[Record]:
    """The runs of a project of LangSmith."""
    from replaykit.importing.services import records_of

    return records_of("langsmith", (), project, **search)


def run_records(run_ids: Sequence[str], project: str | None, timeout_s: float) -> Iterator[Record]:
    """Runs of LangSmith by their ids; where one of several cannot be had, that is a record."""
    from replaykit.importing.services import records_of

    return records_of("langsmith", run_ids, project or "", timeout_s=timeout_s)


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


def replayed_from_langsmith(given: dict[str, Any]) -> ExitCode:
    """Take these spellings out of a call of `replay`; its cases are the sessions then. Gives what to exit with at best.

    Sessions that are written with -o are replayed only where `--run` says so.
    """
    from replaykit.errors import ExitCode, UsageError

    names = ("from_runs", "from_project", "filter_status", "output", "run_them")
    runs, project, status, output, run_them = (given.pop(name) for name in names)
    if not runs and project is None:
        if output is not None or run_them:
            raise UsageError("-o and --run go with --from-langsmith", hint="Reports: replaykit ci --only replay -o DIR")
        return ExitCode.PASSED
    if given["cases"] or (runs and project is not None):
        raise UsageError("give cases, or --from-langsmith, or --from-langsmith-project: one of them")
    if given["config_from"] is not None or given["untrusted"]:
        hint = "Import it first, on a machine of yours: replaykit import langsmith"
        raise UsageError("--from-langsmith does not go with --config-from and --untrusted", hint=hint)
    from replaykit.importers.langsmith_wanted import DEFAULT_LIMIT
    from replaykit.importing.transport import DEFAULT_TIMEOUT_S

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
