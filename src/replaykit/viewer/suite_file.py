"""Suites as one file: the results of `ci`, their failures in full, and the replays that left evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Raw
from msgspec.structs import replace

from replaykit.config import default_history_path, default_results_path
from replaykit.errors import ReplayKitError
from replaykit.trials.ci_result import CiOutcome, CiResult
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import REPLAY, EvidenceReader
from replaykit.viewer.page_types import ReplayPage
from replaykit.viewer.routes import document_path
from replaykit.viewer.share import MAX_EVENTS, SharedPages, write_shared_file
from replaykit.viewer.suites import Suite, SuiteReader

MAX_REPLAYS = 50
"""The replays that a file holds: the first one of each cause comes first."""
_NAME = "ci"


def write_suite_file(file: Path, result: CiResult, evidence: Path) -> int:
    """Write the results of `ci` as one HTML file and return its size; raise `UsageError` if it may hold a secret."""
    reader = EvidenceReader(evidence, ())
    suites = SuiteReader(default_results_path(), default_history_path(), reader)
    suites.add_result(_NAME, result)
    documents = Documents(None, reader, suites=suites, project=Path.cwd().name)
    return write_shared_file(file, documents, suite_pages(documents, _NAME))


def suite_pages(documents: Documents, name: str) -> SharedPages:
    """Return what a file about a suite holds."""
    suite = documents.suite(name)
    replays = dict(_replays(documents, suite))
    path = document_path("suite", name)
    opened: dict[str, Callable[[], object]] = {path: lambda: suite.page_with_replays(replays)}
    for index, item in enumerate(suite.page.items):
        if item.outcome != CiOutcome.PASSED:
            opened[f"{path}/item/{index}"] = partial(_item, suite, index)
    for replay, page in replays.items():
        opened[document_path("replay", replay)] = partial(_same, page)
    runs = tuple(page.run for page in replays.values() if page.run)
    return SharedPages(opens=f"#/{path}", runs=runs, documents=opened, is_redacted=True)


def _replays(documents: Documents, suite: Suite) -> Iterator[tuple[str, ReplayPage]]:
    """Yield the replays that a file has room for, by name."""
    count = events = 0
    for name in _by_importance(suite):
        try:
            result = documents.evidence.result(name)
            run = "" if result.run is None else f"{REPLAY}{name}"
            if run:
                documents.spool(run).finished_page()
        except ReplayKitError:  # deleted or damaged meanwhile; the suite still names its directory
            continue
        events += 0 if result.run is None else len(result.run.events)
        if events > MAX_EVENTS or count == MAX_REPLAYS:
            return
        count += 1
        yield name, ReplayPage(name=name, result=replace(result, run=None, more=()), run=run)


def _item(suite: Suite, index: int) -> Raw:
    return Raw(suite.item_json(index))


def _same(page: ReplayPage) -> ReplayPage:
    return page


def _by_importance(suite: Suite) -> list[str]:
    """Return the names of replays: one for each cause, then the others."""
    first: dict[int, str] = {}
    others = []
    for item in suite.page.items:
        if item.cause is None or not item.replay:
            continue
        if item.cause in first:
            others.append(item.replay)
        else:
            first[item.cause] = item.replay
    return [*first.values(), *others]
