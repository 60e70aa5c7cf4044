"""Suites: results of `ci`, with the history of each item and the replays that left evidence."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Hashable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from replaykit.errors import ReplayKitError, UsageError
from replaykit.model.text_lines import one_line
from replaykit.model.values import sayable
from replaykit.trials.ci_causes import cause_of
from replaykit.trials.ci_history import SHOWN_RUNS, HistoryHeader, SuiteHistory, letter_of, read_history, standing_of
from replaykit.trials.ci_records import read_footer, read_header, result_of
from replaykit.trials.ci_result import CiItem, CiOutcome, CiResult
from replaykit.viewer.evidence import EvidenceReader
from replaykit.viewer.page_types import ListedSuite, SuiteItem, SuitePage, SuiteRun
from replaykit.viewer.spool import SpoolFile

SUITE = "suite:"
"""The beginning of the addresses of suites."""
_SHOWN_SUITES = 20
_OPEN_SUITES = 4
_TEXT_CHARS = 200
_encode = msgspec.json.Encoder().encode


class Suite:
    """A result with its history. The items are read once; their details wait in a private temporary file."""

    def __init__(self, name: str, result: CiResult, history: SuiteHistory, evidence: EvidenceReader) -> None:
        self._details = SpoolFile()
        self._borders = array("q", [0])
        """Where the details of each item end, and before them where the first begins."""
        self._evidence = evidence
        self._history = history
        current = HistoryHeader(at=result.started_at, revision=result.revision, settings=result.settings)
        runs = (*history.runs, current)
        self._codes = [run.code for run in runs]
        self.page = SuitePage(
            name=name,
            verdict=result.verdict,
            passed=result.passed,
            agent=result.agent,
            config=result.config,
            config_from=result.config_from,
            seed=result.seed,
            duration_s=result.duration_s,
            parts=result.parts,
            runs=tuple(SuiteRun(at=run.at, revision=run.revision) for run in runs),
            items=tuple(self._items(result)),
            notices=(*result.notices, *map(sayable, history.problems)),
        )

    def _items(self, result: CiResult) -> Iterator[SuiteItem]:
        causes: dict[Hashable, int] = {}
        for item in result.items:
            self._details.append(_encode(item))
            self._borders.append(self._details.size)
            cause = None
            if item.outcome is not CiOutcome.PASSED:
                cause = causes.setdefault(cause_of(item), len(causes))
            yield self._item(item, cause)

    def _item(self, item: CiItem, cause: int | None) -> SuiteItem:
        outcomes = self._history.outcomes_of(item.part, item.id) + letter_of(item.outcome)
        standing = standing_of(outcomes, self._codes)
        return SuiteItem(
            part=item.part.value,
            id=item.id,
            outcome=item.outcome.value,
            verdict=item.verdict,
            reason=one_line(_reason(item), _TEXT_CHARS),
            duration_s=item.duration_s,
            cause=cause,
            replay=self._evidence.name_of(item.evidence),
            outcomes=outcomes,
            standing=standing.word,
            since=standing.since,
            contract=item.contract,
            scenario=item.scenario,
            faults=len(item.faults),
        )

    def item_json(self, index: int) -> bytes:
        """Return an item in full, as in the JSON of `ci`; raise `UsageError` if there is none."""
        if index >= len(self._borders) - 1:
            raise UsageError(f"the suite has no item {index}")
        start = self._borders[index]
        return self._details.read(start, self._borders[index + 1] - start)

    def page_with_replays(self, names: Collection[str]) -> SuitePage:
        """Return the page with links to these replays only."""
        items = []
        for item in self.page.items:
            items.append(item if item.replay in names else replace(item, replay=""))
        return replace(self.page, items=tuple(items))


class SuiteReader:
    """Finds results of `ci` in their directory and at the paths that were named."""

    def __init__(self, results: Path, history: Path, evidence: EvidenceReader) -> None:
        self._results = results
        self._history = history
        self._evidence = evidence
        self._named_files: dict[str, Path] = {}
        self._suites: dict[str, tuple[tuple[int, int], Suite]] = {}
        self._memory_suites: dict[str, Suite] = {}

    def add_results(self, file: Path) -> str:
        """Add a results file outside of the directory, and return its name."""
        read_header(file)
        name = sayable(file.stem)
        self._named_files[name] = file
        return name

    def add_result(self, name: str, result: CiResult) -> None:
        """Add a result whose items may be in several files."""
        self._memory_suites[name] = self._opened(name, result)

    def newest(self) -> str:
        """Return the name of the newest complete suite; raise `UsageError` if there is none."""
        for listed in self.listed():
            return listed.name
        raise UsageError("no results of ci are here", hint="Run the suite first: replaykit ci")

    def listed(self) -> tuple[ListedSuite, ...]:
        """Return the newest complete suites, the newest first."""
        found = []
        for file in self._files():
            try:
                header, count = read_header(file), read_footer(file)
            except ReplayKitError:  # a file of another kind, or damaged; it can still be named to see why
                continue
            if count is not None:
                name = sayable(file.stem)
                found.append(ListedSuite(name=name, agent=header.agent, started_at=header.started_at, items=count))
            if len(found) == _SHOWN_SUITES:
                break
        return tuple(found)

    def _files(self) -> Iterator[Path]:
        yield from self._named_files.values()
        try:
            names = sorted(os.listdir(self._results), reverse=True)
        except OSError:  # no suite was run yet
            return
        for name in names:
            if name.endswith(".jsonl") and Path(name).stem not in self._named_files:
                yield self._results / name

    def suite(self, name: str) -> Suite:
        """Return a suite, read again if its file has changed."""
        if name in self._memory_suites:
            return self._memory_suites[name]
        file = self._named_files.get(name, self._results / f"{name}.jsonl")
        if os.sep in name or not os.path.isfile(file):
            raise UsageError(f"no suite {name!r}")
        facts = file.stat()
        version = (facts.st_mtime_ns, facts.st_size)
        known = self._suites.pop(name, None)
        if known is None or known[0] != version:
            header = read_header(file)
            known = version, self._opened(name, result_of(header, [file]))
        self._suites[name] = known
        while len(self._suites) > _OPEN_SUITES:
            del self._suites[next(iter(self._suites))]
        return known[1]

    def _opened(self, name: str, result: CiResult) -> Suite:
        before = result.started_at or float("inf")
        history = read_history(self._history, agent=result.agent, before=before, limit=SHOWN_RUNS - 1)
        return Suite(name, result, history, self._evidence)


def _reason(item: CiItem) -> str:
    if item.outcome is CiOutcome.PASSED:
        return ""
    if item.divergence is not None:
        return item.divergence.text
    return item.reason or item.error or "; ".join(finding.text for finding in item.failures)
