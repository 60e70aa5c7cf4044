"""Totals: the figures of a run, and the event at which it went wrong, gathered while its events are read."""

from __future__ import annotations

from replaykit.formats.core.replayability import ReplayabilityReader, added
from replaykit.model.events import AnyEvent, Call, ErrorEvent, ErrorInfo, LlmCall, Note, Usage
from replaykit.model.run import RunHeader, RunStatus
from replaykit.model.text_lines import one_line
from replaykit.model.unreplayable import concerns, note_text, types_returned
from replaykit.viewer.page_types import Row, RunPage, Totals

_FAILED = (RunStatus.ERROR, RunStatus.TIMEOUT)
_MAX_CONCERNS = 1000
_WHY_CHARS = 300


class RunTotals:
    """What the events so far add up to."""

    def __init__(self, header: RunHeader) -> None:
        self._manifest = ReplayabilityReader(header) if header.origin.kind == "imported" else None
        self._events = self._calls = self._errors = 0
        self._usage = Usage()
        self._last_seq: int | None = None
        self._last_error: tuple[int, str] | None = None
        self._same_error: tuple[int, str] | None = None
        self._concerning: list[AnyEvent] = []

    def add(self, event: AnyEvent, row: Row, run_error: ErrorInfo | None) -> None:
        """Count an event; `run_error` is the error that ended the run, if that is known."""
        self._events += 1
        self._last_seq = event.seq if self._last_seq is None else max(self._last_seq, event.seq)
        if self._manifest is not None:
            self._manifest.add(event)
        if isinstance(event, Call):
            self._calls += 1
        if isinstance(event, LlmCall) and event.usage is not None:
            self._usage = added((self._usage, event.usage))
        if "error" in row.marks:
            self._errors += 1
            self._note_error(event, row, run_error)
        if len(self._concerning) < _MAX_CONCERNS and _is_concerning(event):
            self._concerning.append(event)

    def _note_error(self, event: AnyEvent, row: Row, run_error: ErrorInfo | None) -> None:
        error = event.error if isinstance(event, Call | ErrorEvent) else None
        why = row.title
        if isinstance(event, Call):
            why = f"{event.name}: {row.answer}"
        if self._last_error is None or event.seq > self._last_error[0]:
            self._last_error = event.seq, why
        is_same = error is not None and run_error is not None and str(error) == str(run_error)
        # Of an exception that passed several calls, the last to begin is the innermost.
        if is_same and (self._same_error is None or event.seq > self._same_error[0]):
            self._same_error = event.seq, why

    def page(self, address: str, header: RunHeader, *, is_running: bool, agent: str = "") -> RunPage:
        """Return the page of the run, all of whose events were added."""
        opens_at, why = (None, "") if is_running else self._failure(header)
        return RunPage(
            address=address,
            header=header,
            is_running=is_running,
            totals=Totals(
                events=self._events,
                calls=self._calls,
                errors=self._errors,
                input_tokens=self._usage.input_tokens,
                output_tokens=self._usage.output_tokens,
                cost_usd=self._usage.cost_usd,
            ),
            opens_at=opens_at,
            why=why,
            remarks=self._remarks(),
            agent=agent,
        )

    def _remarks(self) -> tuple[str, ...]:
        remarks = concerns(self._concerning)
        manifest = None if self._manifest is None else self._manifest.result()
        if manifest is not None and manifest.lacking:
            remarks = [manifest.summary, *manifest.advice, *remarks]
        return tuple(remarks)

    def _failure(self, header: RunHeader) -> tuple[int | None, str]:
        """Return the event at which the run went wrong, and how."""
        if header.status is RunStatus.RUNNING:
            return self._last_seq, "the recording stopped here: its process ended"
        if header.status not in _FAILED or self._last_seq is None:
            return None, ""
        found = self._same_error or self._last_error
        if found is not None:
            return found[0], one_line(found[1], _WHY_CHARS)
        if header.error is not None:
            return self._last_seq, one_line(str(header.error), _WHY_CHARS)
        return self._last_seq, f"the run ended here with the status {header.status.value}"


def _is_concerning(event: AnyEvent) -> bool:
    """Return whether an event says that a replay lacks something."""
    if isinstance(event, Note):
        return bool(note_text(event))
    return isinstance(event, Call) and bool(types_returned(event))
