"""OpenTelemetry traces: OTLP as JSON (one document, a list, or one a line) and as protobuf.

A trace becomes one run, and its id is the run's. `formats.spans` makes runs of spans, for files and for the receiver.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.otel.documents import by_trace, holds_otlp, read_traces
from replaykit.formats.spans.span import FORMAT

_NO_AGENT = "left aside, none of its spans is of an agent, a model or a tool"
_ONLY_LOGS = "only log records of it are here; put them into one file with its spans, a request on each line"


class OtlpImporter:
    """Reads traces of OpenTelemetry."""

    name = FORMAT
    title = "OpenTelemetry: OTLP, JSON and protobuf (GenAI, OpenInference, OpenLLMetry, Langfuse, Vercel, Pydantic AI)"

    def recognises(self, source: Source) -> bool:
        return holds_otlp(source)

    def read(self, source: Source) -> Iterator[Found]:
        from replaykit.formats.core.messages import ConversationCache  # noqa: PLC0415 (slow to import)
        from replaykit.formats.spans.runs import run_of  # noqa: PLC0415 (slow to import)

        rejected, first_rejection, cache = 0, None, ConversationCache()
        for reading in read_traces(source):
            if isinstance(reading, InvalidFile):
                yield reading
                continue
            rejected += reading.rejected
            if first_rejection is None and reading.rejected:
                first_rejection = reading
            for trace, spans in by_trace(reading.spans).items():
                result = run_of(spans, cache)
                if result.run is not None:
                    yield result.run
                elif all(span.is_aside for span in spans):
                    yield f"trace {trace}: {_ONLY_LOGS}"
                else:
                    yield f"trace {trace}: {_NO_AGENT}"
                yield from result.notes
        if first_rejection is not None:
            problem = f"{rejected} spans are not OTLP: {first_rejection.problem}"
            yield InvalidFile(problem, file=source.file, line=first_rejection.line)


IMPORTERS.register(FORMAT)(OtlpImporter())
