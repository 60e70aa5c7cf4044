"""`replaykit view`: runs, replays, cases and comparisons in the browser."""

from __future__ import annotations

import asyncio
import html
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from replaykit.cases.config_files import find_project
from replaykit.cli import candidate_options, options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import hint, reports
from replaykit.config import default_evidence_path, default_history_path, default_results_path, default_store_path
from replaykit.errors import ReplayKitError
from replaykit.private_files import make_file, private_directory
from replaykit.project.project import load_project
from replaykit.report.layout import to_json_line
from replaykit.report.servers import SharedFile, ViewerListening
from replaykit.store.sqlite import SQLiteStore
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import EvidenceReader
from replaykit.viewer.forks import PageForks
from replaykit.viewer.server import ViewerServer
from replaykit.viewer.share import write_shared_file
from replaykit.viewer.suites import SuiteReader
from replaykit.viewer.target import find_target


@click.command(name="view", cls=candidate_options.PythonAgentOnly)
@click.argument("target", metavar="[TARGET]", required=False)
@click.argument("other", metavar="[OTHER]", required=False)
@click.option("--share", type=options.FILE, metavar="FILE", help="Write one HTML file that shows TARGET, and end.")
@click.option(
    "--port", type=options.WholeNumber(0, 65535), default=0, show_default="a free one", help="The port on 127.0.0.1."
)
@click.option(
    "--agent", metavar="MODULE:FUNCTION", help="The agent, a Python function, to fork runs from the page with."
)
@options.flag("--no-browser", help="Only print the address.")
@options.evidence
@options.store
@options.flag("--json", "as_json", help="Print the address, or what was written, as JSON.")
@reports
def command(
    target: str | None,
    other: str | None,
    share: Path | None,
    port: int,
    agent: str | None,
    no_browser: bool,
    evidence: Path | None,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Look at runs, replays, cases and results of ci in the browser.

    TARGET is a run (an id, the beginning of one, a name, `last` or `last-failed`), the directory of a case, the
    directory of a replay's evidence, or its result.json, `ci` (its newest results) or a file in .replaykit/ci. Two runs
    are compared. Without a target, the page lists what there is.

    A failed run opens at the event that went wrong. A run that is being recorded grows on screen. The page is served on
    this machine only, under a random address. Ctrl-C ends it.

    With --agent, you can fork a run from the page. The agent runs as with `replaykit fork`: what has effects happens
    only after you have allowed it by name.

    --share writes the page and everything that it shows into one file, which opens from disk and makes no request. If
    the file would hold what may be a secret, nothing is written and the exit code is 2.

    \b
    replaykit view
    replaykit view last-failed --agent my_agent:answer
    replaykit view 20260215-143200 20260215-150112
    replaykit view ci
    replaykit view cases/billing --share billing.html
    """
    with _store(store_path) as store:
        reader = EvidenceReader(evidence or default_evidence_path(), _case_paths())
        suites = SuiteReader(default_results_path(), default_history_path(), reader)
        named = find_target(tuple(filter(None, (target, other))), store, reader, suites)
        documents = Documents(
            store, reader, project=Path.cwd().name, agent=agent or "", opens=named.route, suites=suites
        )
        if share is not None:
            with progress("writing") as writing:
                size = write_shared_file(share, documents, named.shared_pages(documents), writing.set)
            if as_json:
                click.echo(to_json_line(SharedFile(file=str(share), size_bytes=size)))
            else:
                hint(f"wrote {share}")
            return

        forks = None if agent is None or store is None else PageForks(store.path, agent)
        with ExitStack() as files:

            def ready(url: str) -> None:
                _report(f"{url}{named.route}", as_json=as_json)
                if not no_browser and sys.stdout.isatty():
                    _open_browser(files.enter_context(_opening_file(f"{url}{named.route}")))

            asyncio.run(ViewerServer(documents, forks).serve(port, ready))


def _case_paths() -> list[Path]:
    """Where the project's cases are. No plugin is imported, since the page only reads."""
    file = find_project()
    if file is not None:
        try:
            return list(load_project(file).cases) or [Path("cases")]
        except ReplayKitError as error:
            options.note(f"the cases of {file} are not listed: {error.message}")
    return [Path("cases")]


@contextmanager
def _store(path: Path | None) -> Iterator[SQLiteStore | None]:
    """The store, or None in a project that has none yet."""
    if path is None and not default_store_path().exists():
        yield None
        return
    with SQLiteStore.open(default_store_path() if path is None else path, read_only=True) as store:
        yield store


def _report(url: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(to_json_line(ViewerListening(url=url)))
    else:
        click.echo(url)
        hint("Ctrl-C ends it")
    sys.stdout.flush()


@contextmanager
def _opening_file(url: str) -> Iterator[str]:
    """Yield the address of a private file that leads to the page.

    A browser is opened with an address among its arguments, which every user of the machine can read. The address of
    the page holds the token.
    """
    with private_directory() as directory:
        file = directory / "open.html"
        make_file(file)
        target = html.escape(url)
        file.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={target}">\n', encoding="utf-8")
        yield file.as_uri()


def _open_browser(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
