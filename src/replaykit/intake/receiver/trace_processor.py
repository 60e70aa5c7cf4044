"""The trace processor: puts requests into the spool, and turns finished traces into runs."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from msgspec import Struct

from replaykit.errors import CorruptStore, StoreError, UsageError
from replaykit.formats.spans.runs import TraceResult, run_of
from replaykit.formats.spans.span import Span, SpanReading
from replaykit.intake.entries import FAILURES
from replaykit.intake.receiver import otlp_http
from replaykit.intake.receiver.otlp_http import ExportRefused, ExportReply, ExportRequest
from replaykit.intake.receiver.spool import Due, Spool
from replaykit.intake.store_import import StoreResult, store_run
from replaykit.model.run import TraceRun
from replaykit.store.protocol import Store

KEEP_SPANS_S = 3600.0
"""How long spans stay after their run was written, in case more come."""
KEEP_NAMES_S = 7 * 86400.0
"""How long closed traces are remembered: a late span must not become a run of its own."""
DEFAULT_QUIET_S = 10.0
_RECENT = 10_000


class ReceiverTotals(Struct):
    """Counts of requests, spans, traces and runs."""

    requests: int = 0
    """Requests received."""
    refused: int = 0
    """Requests refused."""
    traces: int = 0
    """Traces received."""
    spans: int = 0
    """Spans accepted."""
    rejected: int = 0
    """Spans rejected."""
    runs: int = 0
    """Runs in the store, however often each was written."""
    failed_runs: int = 0
    """Runs that failed."""
    aside: int = 0
    """Traces that are not of an agent, or not of a requested status."""
    problems: int = 0
    """Traces that could not become a run."""


class SettledTrace(Struct, frozen=True, kw_only=True):
    """The result of one trace."""

    trace: str
    run: TraceRun | None = None
    landing: StoreResult | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


class _NoRunPossible(Exception):
    """The trace can never become a run."""


class TraceProcessor:
    """Processes requests and due traces. For use in one thread."""

    def __init__(
        self,
        spool: Spool,
        store: Store,
        *,
        quiet_s: float = DEFAULT_QUIET_S,
        only_failed: bool = False,
        on_settled: Callable[[SettledTrace], None] = lambda _settled: None,
        on_refused: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._spool = spool
        self._store = store
        self._quiet_s = quiet_s
        self._only_failed = only_failed
        self._on_settled = on_settled
        self._on_refused = on_refused
        # Traces that raised an unexpected error; they are tried again after a restart.
        self._parked: set[str] = set()
        self._recent: dict[str, bool] = {}  # recent runs, and whether they failed: late spans rewrite a run
        self.totals = ReceiverTotals()

    def take(self, request: ExportRequest) -> ExportReply:
        """Answer a request; spans that the reply acknowledges are on disk."""
        try:
            reading = otlp_http.read(request)
        except ExportRefused as error:
            return self.refuse(request, error)
        return self.keep(request, reading)

    def refuse(self, request: ExportRequest, error: ExportRefused) -> ExportReply:
        """Answer a request that cannot be read."""
        self.totals.requests += 1
        return self._refused(request, error.status, str(error))

    def keep(self, request: ExportRequest, reading: SpanReading) -> ExportReply:
        """Answer a parsed request; spans that the reply acknowledges are on disk."""
        totals = self.totals
        totals.requests += 1
        try:
            written = self._spool.keep(reading.spans)
        except StoreError as error:  # such as a full disk: the client retries
            return self._refused(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        rejected, problem = reading.rejected + written.refused, reading.problem or written.problem
        totals.spans += len(reading.spans) - written.refused
        totals.traces += written.traces
        totals.rejected += rejected
        if problem:
            self._on_refused(problem)
        return otlp_http.accepted(request, rejected, problem)

    def _refused(self, request: ExportRequest, status: HTTPStatus, why: str) -> ExportReply:
        self.totals.refused += 1
        self._on_refused(why)
        return otlp_http.refused(request.content_type, status, why)

    def settle(self, *, limit: int = 100) -> int:
        """Turn up to `limit` due traces into runs; return the number of traces examined."""
        parked = self._parked
        try:
            candidates = self._spool.due(self._quiet_s, limit + len(parked))
            due = [item for item in candidates if item.trace not in parked]
            for item in due:
                self._settle(item)
        except StoreError as error:
            return self._put_off(error)
        return len(due)

    def finish(self) -> None:
        """Turn all finished traces into runs; others stay in the spool."""
        while self.settle():
            pass

    def tidy(self) -> None:
        """Delete the spans of traces that were finished long ago."""
        try:
            self._spool.forget(KEEP_SPANS_S, KEEP_NAMES_S)
        except StoreError as error:
            self._put_off(error)

    def waiting(self) -> int:
        """Return the number of traces that are not yet runs."""
        return self._spool.waiting()

    def _settle(self, due: Due) -> None:
        trace = due.trace
        try:
            spans, last = self._spans(trace)
            result = run_of(spans)
            if result.is_whole or due.is_quiet:
                self._land(trace, last, result)
            else:
                self._spool.wait(trace)
        except (_NoRunPossible, UsageError) as error:
            self._spool.give_up(trace)
            self._tell(trace, str(error))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 (spans are untrusted: one trace must not stop the others)
            self._parked.add(trace)
            self._tell(trace, f"no run could be made of it: {type(error).__name__}: {error}")

    def _spans(self, trace: str) -> tuple[list[Span], int]:
        try:
            spans, last = self._spool.spans(trace)
        except CorruptStore as error:
            raise _NoRunPossible(str(error)) from None
        if not spans:
            raise _NoRunPossible("its spans are gone")
        return spans, last

    def _land(self, trace: str, last: int, result: TraceResult) -> None:
        run, landing = result.run, None
        if run is not None and (not self._only_failed or run.status in FAILURES):
            landing = store_run(self._store, run)
        is_first = self._spool.settle(trace, last)
        if run is None or landing is None:
            self.totals.aside += is_first
            return
        self._count(run, landing)
        self._on_settled(SettledTrace(trace=trace, run=run, landing=landing, notes=result.notes))

    def _put_off(self, error: StoreError) -> int:
        """Report a store error, such as a full disk; nothing is lost, and everything is tried again."""
        self.totals.problems += 1
        self._on_refused(str(error))
        return 0

    def _count(self, run: TraceRun, landing: StoreResult) -> None:
        failed = run.status in FAILURES
        self.totals.runs += landing is StoreResult.IMPORTED
        self.totals.failed_runs += failed - self._recent.pop(run.id, False)
        self._recent[run.id] = failed
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]

    def _tell(self, trace: str, problem: str) -> None:
        self.totals.problems += 1
        self._on_settled(SettledTrace(trace=trace, problem=problem))
