"""OpenTelemetry traces: OTLP as JSON (one document, a list, or one a line) and as protobuf.

A trace becomes one run, and its id is the run's. What spans mean is said once, for files and for the receiver: a
dialect (`dialects/`) reads a span into a `Meaning`, and `trace.run_of` makes the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.importers.otel.documents import holds_otlp, read_traces
from replaykit.importers.otel.span import FORMAT
from replaykit.importers.registry import IMPORTERS, Found
from replaykit.importers.source import Source


class OtlpImporter:
    """Reads traces of OpenTelemetry."""

    name = FORMAT
    title = "OpenTelemetry: OTLP, JSON and protobuf (GenAI, OpenInference, OpenLLMetry, Langfuse, Vercel, Pydantic AI)"

    def recognises(self, source: Source) -> bool:
        return holds_otlp(source)

    def read(self, source: Source) -> Iterator[Found]:
        from replaykit.importers.otel.making import runs_of  # noqa: PLC0415 (slow to import)

        return runs_of(source, read_traces(source))


IMPORTERS.register(FORMAT)(OtlpImporter())
