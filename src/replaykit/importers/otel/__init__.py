"""OpenTelemetry traces: OTLP as JSON (one document, a list, or one a line) and as protobuf.

A trace becomes one run, and its id is the run's. What spans mean is said once, for files and for the receiver: a
dialect (`dialects/`) reads a span into a `Meaning`, and `trace.run_of` makes the run.
"""

from __future__ import annotations

from replaykit.importers.otel.documents import by_trace, holds_otlp, read_file
from replaykit.importers.otel.span import FORMAT
from replaykit.importers.registry import IMPORTERS, Imported
from replaykit.importers.source import Source
from replaykit.model.run import TraceRun

_MAX_NOTES = 100


class OtlpImporter:
    """Reads traces of OpenTelemetry."""

    name = FORMAT

    def recognises(self, source: Source) -> bool:
        return holds_otlp(source)

    def read(self, source: Source) -> Imported:
        from replaykit.importers.otel.trace import run_of  # noqa: PLC0415 (slow to import)

        reading = read_file(source)
        runs: list[TraceRun] = []
        left_out: list[str] = []
        notes: list[str] = []
        for trace, spans in by_trace(reading.spans).items():
            made = run_of(spans)
            notes += made.notes
            if made.run is None:
                notes.append(f"trace {trace}: left aside, none of its spans is of an agent, a model or a tool")
            else:
                runs.append(made.run)
        if reading.rejected:
            left_out.append(f"{source.file}: {reading.rejected} spans are not OTLP: {reading.problem}")
        if not runs:
            raise source.error("; ".join((*left_out, *notes)) or "the file holds no span")
        return Imported(format=self.name, runs=tuple(runs), left_out=tuple(left_out), notes=_some(notes))


IMPORTERS.register(FORMAT)(OtlpImporter())


def _some(notes: list[str]) -> tuple[str, ...]:
    more = len(notes) - _MAX_NOTES
    return (*notes[:_MAX_NOTES], f"and {more} more") if more > 0 else tuple(notes)
