"""From what a file holds of traces to its runs, whatever form its spans have in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.errors import InvalidFile
from replaykit.importers.otel.documents import by_trace
from replaykit.importers.otel.meaning import Heard
from replaykit.importers.otel.span import Reading
from replaykit.importers.otel.trace import run_of
from replaykit.importers.registry import Found
from replaykit.importers.source import Source

_NO_AGENT = "left aside, none of its spans is of an agent, a model or a tool"
_ONLY_LOGS = "only log records of it are here; put them into one file with its spans, a request on each line"


def runs_of(source: Source, readings: Iterable[Reading | InvalidFile]) -> Iterator[Found]:
    """The runs of readings that each hold all there is of their traces."""
    rejected, first, heard = 0, None, Heard()
    for reading in readings:
        if isinstance(reading, InvalidFile):
            yield reading
            continue
        rejected += reading.rejected
        first = first or (reading if reading.rejected else None)
        for trace, spans in by_trace(reading.spans).items():
            made = run_of(spans, heard)
            if made.run is None:
                yield f"trace {trace}: {_ONLY_LOGS if all(span.is_aside for span in spans) else _NO_AGENT}"
            else:
                yield made.run
            yield from made.notes
    if first is not None:
        yield InvalidFile(f"{rejected} spans are not OTLP: {first.problem}", file=source.file, line=first.line)
