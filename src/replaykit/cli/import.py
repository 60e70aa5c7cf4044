"""`replaykit import`: runs come in, from trace files and from services that keep traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replaykit.cases.config_files import config_file
from replaykit.cli import import_runs, import_services, options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import reports
from replaykit.errors import NothingSelected, UsageError, failed_if, nearest
from replaykit.intake.job import ImportTarget, read_files
from replaykit.intake.source_sessions import import_sources
from replaykit.project.project import load_project


class ImportGroup(click.Group):
    """The parts of `import`; whatever is the name of none is the path of a trace file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            self._refuse_misspelt(args[0])
            args = ["files", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelt(self, word: str) -> None:
        if not word.isalpha() or Path(word).exists():
            return
        suggestion = nearest(word, self.commands)
        if suggestion.startswith("did you mean"):
            raise UsageError(f"{word}: no such file or directory; {suggestion}", hint="See: replaykit import --help")


@click.group(name="import", cls=ImportGroup)
def command() -> None:
    """Import runs from trace files of any vendor, or from a tracing service.

    Skips runs that the store already has. A run that cannot be read is reported, and the others are imported.
    The output shows how much of each run can be replayed. Exit 1 if a run could not be imported, 3 if a service cannot
    be reached, 5 if there was nothing to import.

    \b
    replaykit import traces/ exported.jsonl
    replaykit import runs.jsonl --filter status=error --scaffold cases
    replaykit import langsmith --trace 0199a1b2-… -o replays
    replaykit import langsmith --project support --since 7d -o replays --run
    replaykit import langfuse --all --since 24h
    replaykit import sources

    All options for files: replaykit import files --help
    """


@command.command(name="files")
@click.argument("paths", nargs=-1, required=True, type=options.PATH, metavar="PATH...")
@click.option("--format", "format_", metavar="NAME", help="The format of the files, where it cannot be recognised.")
@click.option("--since", metavar="TIME", help="Only runs that started since: 7d, 24h, or 2026-02-15.")
@click.option("-n", "--limit", type=options.WholeNumber(1), help="Import at most N runs, in the order they are found.")
@import_runs.target_options
@reports
def files(paths: tuple[Path, ...], format_: str | None, **parameters: Any) -> int:
    """Import the runs in files and directories.

    You can leave out `files`. Files may be compressed (.gz, .zst) and of any size; `-` is standard input. To see all
    formats: replaykit help formats

    \b
    replaykit import files traces/ exported.jsonl.gz --filter status=error --since 7d
    replaykit import runs.jsonl --scaffold cases
    zcat runs.json.gz | replaykit import - --format langsmith --dry-run
    """
    load_plugins(parameters["config"])
    return import_runs.import_and_report(read_files(paths, format_), **parameters)


for _service in import_services.COMMANDS:
    command.add_command(_service)


@command.command(name="sources")
@import_services.timeout
@options.flag("--force", help="Replace session files whose content differs.")
@options.flag("--dry-run", help="Show what would be imported; write nothing.")
@options.config
@options.store
@options.as_json
@reports
def sources(
    timeout_s: float, force: bool, dry_run: bool, config: Path | None, store_path: Path | None, as_json: bool
) -> int:
    """Import the sources that the configuration names.

    The runs of `replays.sources` become session files, which `ci` and `replay` use from then on. A source with
    `auto_import` is fetched there each time.

    \b
    replaykit import sources -c replaykit.yaml
    """
    load_plugins(config)
    project = load_project(config or config_file())
    into = ImportTarget(store=store_path, force=force, dry_run=dry_run)
    with progress("importing", is_logged=True) as importing:
        result = import_sources(project, into, timeout_s, importing.advance)
    if not result.entries:
        raise NothingSelected(f"{project.file} has no source that gave a run", hint="\n".join(result.notes) or None)
    import_runs.report(result, as_json=as_json, store_path=store_path)
    return failed_if(result.failed)
