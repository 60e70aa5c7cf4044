"""`replaykit view`: runs, replays, cases and comparisons in the browser."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from replaykit.cli import options
from replaykit.cli.verbosity import hint, reports
from replaykit.config import default_evidence_path, default_store_path
from replaykit.errors import UsageError
from replaykit.report.layout import to_json_line
from replaykit.report.servers import ViewerListening
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import CASE, REPLAY, RESULT_FILE, EvidenceReader
from replaykit.viewer.server import ViewerServer

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore


@click.command(name="view")
@click.argument("target", metavar="[TARGET]", required=False)
@click.argument("other", metavar="[OTHER]", required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="The port on 127.0.0.1."
)
@options.flag("--no-browser", help="Only print the address.")
@options.evidence
@options.config
@options.store
@options.flag("--json", "as_json", help="Print the address as JSON.")
@reports
def command(
    target: str | None,
    other: str | None,
    port: int,
    no_browser: bool,
    evidence: Path | None,
    config: Path | None,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Look at runs, replays and cases in the browser.

    TARGET is a run (an id, the beginning of one, a name, `last` or `last-failed`), the directory of a case, the
    directory of a replay's evidence, or its result.json. Two runs are compared. Without a target, the page lists what
    there is.

    A failed run opens at the event that went wrong. A run that is being recorded grows on screen. The page is served on
    this machine only, under an address that nobody can guess. Ctrl-C ends it.

    \b
    replaykit view
    replaykit view last-failed
    replaykit view 20260215-143200 20260215-150112
    replaykit view cases/billing
    """
    project = options.project_of(config)
    cases = list(project.cases) if project is not None and project.cases else [Path("cases")]
    with _store(store_path) as store:
        reader = EvidenceReader(evidence or default_evidence_path(), cases)
        route = _route(target, other, store, reader)
        documents = Documents(store, reader, project=Path.cwd().name, opens=route)
        server = ViewerServer(documents)

        def ready(url: str) -> None:
            _report(f"{url}{route}", as_json=as_json, opens_browser=not no_browser and not as_json)

        asyncio.run(server.serve(port, ready))


@contextmanager
def _store(path: Path | None) -> Iterator[SQLiteStore | None]:
    """The store, or None in a project that has none yet."""
    from replaykit.store.sqlite import SQLiteStore

    if path is None and not default_store_path().exists():
        yield None
        return
    with SQLiteStore.open(default_store_path() if path is None else path, read_only=True) as store:
        yield store


def _route(target: str | None, other: str | None, store: SQLiteStore | None, reader: EvidenceReader) -> str:
    """The part of the address that names what to open; it is resolved here, so that a wrong target is an error now."""
    if target is None:
        return ""
    if other is not None:
        a, b = _address(target, store, reader), _address(other, store, reader)
        return f"#/compare/{quote(a, safe=':')}/{quote(b, safe=':')}"
    address = _address(target, store, reader)
    for beginning, page in ((REPLAY, "replay"), (CASE, "case")):
        if address.startswith(beginning):
            return f"#/{page}/{quote(address.removeprefix(beginning), safe='')}"
    return f"#/run/{quote(address, safe='')}"


def _address(target: str, store: SQLiteStore | None, reader: EvidenceReader) -> str:
    """The address of a run that a target names."""
    path = Path(target)
    if path.name == RESULT_FILE and path.is_file():
        return f"{REPLAY}{reader.add_result(path)}"
    if (path / RESULT_FILE).is_file():
        return f"{REPLAY}{reader.add_result(path / RESULT_FILE)}"
    if path.is_dir():
        return f"{CASE}{reader.add_case(path)}"
    if os.sep in target and not path.exists():
        raise UsageError(f"{target} does not exist", hint="A TARGET is a run, a case, or the evidence of a replay.")
    if store is None:
        raise UsageError("this project has no store yet", hint="Record a run first: replaykit record -- CMD")
    return store.header(target).id


def _report(url: str, *, as_json: bool, opens_browser: bool) -> None:
    if as_json:
        click.echo(to_json_line(ViewerListening(url=url)))
    else:
        click.echo(url)
        hint("Ctrl-C ends it")
    sys.stdout.flush()
    if opens_browser and sys.stderr.isatty():
        import webbrowser

        webbrowser.open(url)
