"""Targets: what the command line asks to see, and where the page shows it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.store.sqlite import SQLiteStore
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import CASE, REPLAY, RESULT_FILE, EvidenceReader
from replaykit.viewer.routes import document_path
from replaykit.viewer.share import SharedPages
from replaykit.viewer.suite_file import suite_pages
from replaykit.viewer.suites import SUITE, SuiteReader

NEWEST_SUITE = "ci"


class ViewTarget(Struct, frozen=True):
    """The addresses of a run, of two runs to compare, or of none: the home page."""

    addresses: tuple[str, ...] = ()

    @property
    def route(self) -> str:
        """The part of the page's address that opens it; empty for the home page."""
        if self.addresses:
            return f"#/{self._path}"
        return ""

    @property
    def _path(self) -> str:
        if len(self.addresses) > 1:
            return document_path("compare", *self.addresses)
        (address,) = self.addresses
        for beginning, page in ((REPLAY, "replay"), (CASE, "case"), (SUITE, "suite")):
            if address.startswith(beginning):
                return document_path(page, address.removeprefix(beginning))
        return document_path("run", address)

    def shared_pages(self, documents: Documents) -> SharedPages:
        """Return what a file about the target holds."""
        if not self.addresses:
            raise UsageError("--share needs a TARGET", hint="Name a run, a case or the evidence of a replay.")
        first, *others = self.addresses
        if first.startswith(SUITE) and not others:
            return suite_pages(documents, first.removeprefix(SUITE))
        opened: dict[str, Callable[[], object]] = {}
        runs = self.addresses
        if others:
            opened[self._path] = lambda: documents.compare(first, *others)
        elif first.startswith(CASE):
            opened[self._path] = lambda: documents.evidence.case_page(first.removeprefix(CASE))
        elif first.startswith(REPLAY):
            replay = documents.evidence.replay_page(first.removeprefix(REPLAY))
            opened[self._path] = lambda: replay
            runs = (replay.run,) if replay.run else ()
        return SharedPages(opens=self.route, runs=runs, documents=opened)


def find_target(
    words: tuple[str, ...], store: SQLiteStore | None, reader: EvidenceReader, suites: SuiteReader
) -> ViewTarget:
    """Return the target that these words name; raise `UsageError` if there is none."""
    addresses = tuple(_address(word, store, reader, suites) for word in words)
    if len(addresses) > 1 and any(address.startswith(SUITE) for address in addresses):
        raise UsageError("results of ci cannot be compared", hint="Compare two runs.")
    return ViewTarget(addresses)


def _address(word: str, store: SQLiteStore | None, reader: EvidenceReader, suites: SuiteReader) -> str:
    path = Path(word)
    if word == NEWEST_SUITE:
        return f"{SUITE}{suites.newest()}"
    if path.suffix == ".jsonl" and path.is_file():
        return f"{SUITE}{suites.add_results(path)}"
    if path.name == RESULT_FILE and path.is_file():
        return f"{REPLAY}{reader.add_result(path)}"
    if (path / RESULT_FILE).is_file():
        return f"{REPLAY}{reader.add_result(path / RESULT_FILE)}"
    if path.is_dir():
        return f"{CASE}{reader.add_case(path)}"
    if os.sep in word and not path.exists():
        raise UsageError(
            f"{word} does not exist", hint="A TARGET is a run, a case, evidence of a replay, or results of ci."
        )
    if store is None:
        raise UsageError("this project has no store yet", hint="Record a run first: replaykit record -- CMD")
    return store.header(word).id
