"""Options and steps that all subcommands of `import` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replaykit.cases.config_files import find_project
from replaykit.cli import options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import progress
from replaykit.cli.short_ids import shown_ids
from replaykit.cli.verbosity import essential, is_quiet
from replaykit.errors import ExitCode, NothingSelected, UsageError, failed_if, gravest
from replaykit.terminal import visible

if TYPE_CHECKING:
    from replaykit.intake.entries import ImportRecord, ImportResult


STATUSES = ("error", "warning", "all")

OUTPUT = options.destination(
    "output",
    "Write a session file for each run: into a directory, or to a .yaml or .json file.",
    type=options.PATH,
    metavar="FILE|DIRECTORY",
)


target_options = options.combined(
    options.as_json,
    options.store,
    options.config,
    options.flag("--run", "run_them", help="Replay the sessions right away, with the configuration."),
    options.flag("--dry-run", help="Show what would be imported; write nothing."),
    options.flag("--force", help="Replace session files whose content differs."),
    options.flag(
        "--allow-incomplete",
        help="With --scaffold: also make cases of runs whose tool calls cannot be replayed.",
    ),
    click.option(
        "--scaffold",
        "cases",
        type=options.DIRECTORY,
        metavar="DIRECTORY",
        help="Make a case of each failed run, one per kind of failure.",
    ),
    options.repeated(
        "--filter",
        "filters",
        metavar="KEY=VALUE",
        help="Only runs with this status, agent, name, tag or format; * matches anything. Repeatable.",
    ),
    click.option(
        "--contract", metavar="NAME", help="The contract of the sessions.  [default: the configuration's only one]"
    ),
    OUTPUT,
)
"""The options that say where the runs go and what is done with them."""


def import_and_report(
    records: Iterable[ImportRecord], *, run_them: bool, dry_run: bool, as_json: bool, **place: Any
) -> int:
    """Import the records, print the result, replay the sessions if `run_them`, and return the exit code."""
    if run_them and dry_run:
        raise UsageError("--run and --dry-run cannot be combined")
    result = import_into_project(records, needs_sessions=run_them, dry_run=dry_run, quiet=as_json, **place)
    failed = failed_if(result.failed)
    report(result, as_json=as_json, aside=run_them, store_path=place["store_path"])
    if not run_them:
        return failed
    if not result.sessions:
        raise NothingSelected("there is no session to replay")
    from replaykit.cli import replay  # here: `replay` imports this module

    arguments = {"cases": tuple(result.sessions), "config": place["config"], "as_json": as_json}
    return gravest([click.get_current_context().invoke(replay.command, **arguments), failed])


def import_into_project(
    records: Iterable[ImportRecord],
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
    needs_sessions: bool,
    quiet: bool = False,
) -> ImportResult:
    """Import the records into the store, session files and cases, and count them on stderr."""
    from replaykit.intake.entries import parse_run_filter
    from replaykit.intake.job import ImportTarget, import_records
    from replaykit.intake.session_files import FETCHED, contract_of_imports
    from replaykit.project.project import load_project

    if allow_incomplete and cases is None:
        raise UsageError("--allow-incomplete needs --scaffold")
    load_plugins(config)
    selection = parse_run_filter(filters, since, limit)
    is_own = output is None and needs_sessions
    target = FETCHED if is_own else output
    file = config or find_project()
    named_contract = ""
    if target is not None:
        project = None if file is None else load_project(file)
        named_contract = contract_of_imports(project, contract or "")
    place = ImportTarget(
        store=store_path,
        output=target,
        contract=named_contract,
        cases=cases,
        allow_incomplete=allow_incomplete,
        force=force or is_own,
        dry_run=dry_run,
    )
    with progress("importing", quiet=quiet, is_logged=True) as importing:
        result = import_records(_counted(records, importing.advance), place, run_filter=selection)
    if not result.entries:
        raise NothingSelected("no run was imported", hint="\n".join(result.notes) or None)
    if result.sessions and not place.contract:
        options.note("the sessions name no contract: --contract NAME, or a configuration with one")
    return result


def report(result: ImportResult, *, as_json: bool, aside: bool = False, store_path: Path | None = None) -> None:
    """Print the result of an import; to standard error where a replay's result follows."""
    from replaykit.report.imports import import_json, import_text, problems_text
    from replaykit.report.layout import fit

    options.note(*map(visible, result.notes))
    if result.failed:
        click.echo(fit(problems_text(result)), err=True)
    if as_json and not aside:
        for piece in import_json(result):
            click.echo(piece, nl=False)
        click.echo()
    else:
        text = import_text(result, _names(result, store_path))
        click.echo(essential(text) if is_quiet() else fit(text), err=aside)


def _names(result: ImportResult, store_path: Path | None) -> dict[str, str]:
    """Return how the ids of the runs that are in the store now are printed."""
    run_ids = [entry.run for entry in result.entries if entry.result != "failed"]
    if result.dry_run or not run_ids:
        return {}
    from replaykit.store.open import open_store

    with open_store(store_path, read_only=True) as store:
        return shown_ids(store, run_ids)


def _counted(records: Iterable[ImportRecord], advance: Callable[[], None]) -> Iterator[ImportRecord]:
    for record in records:
        advance()
        yield record


def replays_langsmith(command: Callable[..., ExitCode]) -> Callable[..., Any]:
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
    ) -> ExitCode:
        if not from_runs and from_project is None:
            if output is not None or run_them:
                hint = "Reports: replaykit ci --only replay -o DIR"
                raise UsageError("-o and --run need --from-langsmith", hint=hint)
            return command(**parameters)
        _check(from_runs, from_project, parameters)
        options.note("`replaykit import langsmith -o DIRECTORY --run` does the same, with more options")
        records = _records(from_runs, from_project, filter_status)
        result = import_into_project(records, output=output, config=parameters["config"], needs_sessions=True)
        import_code = failed_if(result.failed)
        is_replayed = run_them or output is None
        report(result, as_json=parameters["as_json"], aside=is_replayed)
        if not is_replayed or not result.sessions:
            return import_code
        return gravest([command(**{**parameters, "cases": tuple(result.sessions)}), import_code])

    return _langsmith_options(import_first)


_langsmith_options = options.combined(
    options.flag("--run", "run_them", help="With -o: replay the written sessions as well.", hidden=True),
    options.destination(
        "output", "Write a session file for each run.", type=options.PATH, metavar="FILE|DIRECTORY", hidden=True
    ),
    click.option(
        "--filter-status",
        type=options.OneOf(STATUSES),
        default="error",
        show_default=True,
        help="With --from-langsmith-project: which runs.",
        hidden=True,
    ),
    click.option(
        "--from-langsmith-project", "from_project", metavar="NAME", help="Import a project's runs first.", hidden=True
    ),
    options.repeated("--from-langsmith", "from_runs", metavar="RUN_ID", help="Import this run first.", hidden=True),
)


def _check(run_ids: Sequence[str], project: str | None, parameters: dict[str, Any]) -> None:
    """Raise a UsageError for options that do not go together."""
    if parameters["cases"] or (run_ids and project is not None):
        raise UsageError("give cases, or --from-langsmith, or --from-langsmith-project: one of them")
    if parameters["config_from"] is not None or parameters["untrusted"]:
        hint = "Import it first, on your own machine: replaykit import langsmith"
        raise UsageError("--from-langsmith cannot be combined with --config-from or --untrusted", hint=hint)


def _records(run_ids: Sequence[str], project: str | None, status: str) -> Iterator[ImportRecord]:
    # A replay without these options needs none of the importers.
    from replaykit.formats.core.run_query import DEFAULT_LIMIT
    from replaykit.intake.services import fetch_records
    from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S

    if run_ids:
        return fetch_records("langsmith", run_ids, "", timeout_s=DEFAULT_TIMEOUT_S)
    search: dict[str, Any] = {"status": status, "since": None, "min_latency_ms": 0, "limit": DEFAULT_LIMIT}
    return fetch_records("langsmith", (), project or "", **search, timeout_s=DEFAULT_TIMEOUT_S)
