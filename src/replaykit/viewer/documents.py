"""Documents: what the page asks for, from the store, the evidence of replays, and cases."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from replaykit.checks.grounding import output_figures, unexplained
from replaykit.errors import RunNotFound, UsageError
from replaykit.model.run import PROCESS_LOGS, RunHeader, RunStatus, TraceRun
from replaykit.model.text_lines import one_line
from replaykit.model.values import Json, encode
from replaykit.store.sqlite import SQLiteStore
from replaykit.travel.compare import compare
from replaykit.travel.fork import RunFamily, family_of
from replaykit.viewer.evidence import CASE, REPLAY, EvidenceReader
from replaykit.viewer.page_types import (
    ComparePage,
    FamilyPage,
    Home,
    ListedRun,
    Occurrence,
    RunPage,
    UngroundedFigure,
)
from replaykit.viewer.search import find_text
from replaykit.viewer.sources import LoadedRun, RunSource, StoredRun
from replaykit.viewer.spool import RunSpool
from replaykit.viewer.suites import Suite, SuiteReader

_SHOWN_RUNS = 100
_READ_RUNS = 200
_OPEN_RUNS = 16
_LINE_CHARS = 200
_CHECKED_EVENTS = 20_000
"""Events of a run that is loaded as a whole to check the figures of its output."""


class Documents:
    """Everything that one viewer shows. Its methods may be called from any thread."""

    def __init__(
        self,
        store: SQLiteStore | None,
        evidence: EvidenceReader,
        *,
        project: str = "",
        agent: str = "",
        opens: str = "",
        suites: SuiteReader | None = None,
    ) -> None:
        self._store = store
        self.evidence = evidence
        self.project = project
        self._agent = agent
        self.opens = opens
        self._suites = suites
        self._spools: OrderedDict[str, RunSpool] = OrderedDict()
        self._lock = threading.Lock()

    def run_page(self, address: str) -> RunPage:
        """Return a run without its events, as it is now."""
        spool = self.spool(address)
        if spool.is_stale():
            with self._lock:
                self._spools.pop(spool.address, None)
            spool = self.spool(address)
        return spool.page()

    def spool(self, address: str) -> RunSpool:
        """Return the opened run of an address."""
        with self._lock:
            if address in self._spools:
                self._spools.move_to_end(address)
                return self._spools[address]
        source = self._source(address)
        is_stored = not address.startswith((REPLAY, CASE))
        full_address = source.header.id if is_stored else address
        agent = self._agent if is_stored else ""
        with self._lock:
            spool = self._spools.get(full_address)
            if spool is None:
                spool = self._spools[full_address] = RunSpool(source, full_address, agent)
            while len(self._spools) > _OPEN_RUNS:
                self._spools.popitem(last=False)  # whoever reads it at the moment still can
        return spool

    def _source(self, address: str) -> RunSource:
        if address.startswith((REPLAY, CASE)):
            return LoadedRun(self.run(address))
        return StoredRun(self._own_store(address), address)

    def _own_store(self, run_id: str) -> SQLiteStore:
        if self._store is None:
            raise RunNotFound(f"no run {run_id!r}: this project has no store yet")
        return self._store

    def run(self, address: str) -> TraceRun:
        """Return the complete run of an address."""
        if address.startswith(CASE):
            return self.evidence.case_run(address.removeprefix(CASE))
        if not address.startswith(REPLAY):
            return self._own_store(address).load(address)
        run = self.evidence.result(address.removeprefix(REPLAY)).run
        if run is None:
            raise RunNotFound("this replay ended without a run")
        return run

    def home(self, query: str = "", status: str = "", before: str = "") -> Home:
        """Return what there is to see; `before` is the run after which the list goes on."""
        runs = list(islice(self._runs(query, status, before), _SHOWN_RUNS + 1))
        return Home(
            project=self.project,
            opens=self.opens,
            can_fork=bool(self._agent) and self._store is not None,
            runs=tuple(map(listed_run, runs[:_SHOWN_RUNS])),
            has_more=len(runs) > _SHOWN_RUNS,
            cases=self.evidence.listed_cases(),
            replays=self.evidence.listed_replays(),
            suites=() if self._suites is None else self._suites.listed(),
        )

    def _runs(self, query: str, status: str, before: str) -> Iterator[RunHeader]:
        if self._store is None or (status and status not in list(RunStatus)):
            return
        words = query.casefold().split()
        last = before or None
        while headers := self._store.headers(limit=_READ_RUNS, status=status or None, before=last):
            for header in headers:
                if not header.id.startswith(f"{PROCESS_LOGS}/") and _has_words(header, words):
                    yield header
            last = headers[-1].id

    def suite(self, name: str) -> Suite:
        """Return the results of `ci` of a name."""
        if self._suites is None:
            raise UsageError(f"no suite {name!r}")
        return self._suites.suite(name)

    def find(self, address: str, text: str) -> list[Occurrence]:
        """Return where a text occurs in a run."""
        return list(find_text(self.spool(address).events_json(), text))

    def ungrounded(self, address: str) -> list[UngroundedFigure]:
        """Return the figures of a run's output that nothing in it explains."""
        totals = self.spool(address).finished_page().totals
        if totals is not None and totals.events > _CHECKED_EVENTS:
            raise UsageError(f"figures are checked in runs of up to {_CHECKED_EVENTS:,} events")
        run = self.run(address)
        found = unexplained(run, output_figures(run))
        return [UngroundedFigure(text=one.figure.text, reason=_reason(one.nearest)) for one in found]

    def family(self, run_id: str) -> FamilyPage:
        """Return a run with its ancestors and forks."""
        return _family_page(family_of(self._own_store(run_id), run_id))

    def compare(self, a: str, b: str) -> ComparePage:
        """Return two runs side by side."""
        first, second = self.run(a), self.run(b)
        comparison = compare(first, second)
        return ComparePage(a=self.spool(a).page(), b=self.spool(b).page(), comparison=comparison)


def listed_run(header: RunHeader) -> ListedRun:
    """Return a run as it stands in a list."""
    return ListedRun(
        id=header.id,
        name=header.name,
        status=header.status.value,
        started_at=header.started_at,
        duration_s=header.duration_s,
        events=header.event_count,
        line=_line_of(header),
        forked_from=header.origin.run or "",
        step=header.origin.step or "",
    )


def _line_of(header: RunHeader) -> str:
    ending = ""
    if header.error is not None:
        ending = str(header.error)
    elif header.output_json:
        ending = _text(header.output)
    question = "" if header.input is None else one_line(_text(header.input), _LINE_CHARS)
    return " → ".join(filter(None, (question, one_line(ending, _LINE_CHARS))))


def _has_words(header: RunHeader, words: list[str]) -> bool:
    if not words:
        return True
    facts = (header.id, header.name, header.agent, *header.tags, _line_of(header))
    text = " ".join(facts).casefold()
    return all(word in text for word in words)


def _reason(nearest: str) -> str:
    if nearest:
        return f"nothing in the run supports it; nearest: {nearest}"
    return "nothing in the run supports it"


def _family_page(family: RunFamily) -> FamilyPage:
    return FamilyPage(run=listed_run(family.run), children=tuple(map(_family_page, family.children)))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value).decode()
