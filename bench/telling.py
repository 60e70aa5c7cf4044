"""What it costs to tell OpenTelemetry of a call: over recording it, and beside a span that the SDK makes itself.

Spans go to a batch processor as applications have one, its thread included; the exporter behind it only counts, so that
none can be lost unseen.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from clock import Stopwatch

ROUNDS = 20  # short ones: what disturbs a round only ever adds
ATTRIBUTES = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "lookup",
    "gen_ai.tool.type": "function",
    "app.run": "20260215-143200-4f9cab12cd",
    "app.number": 7,
}


class Counting:
    """A provider of tracers with a batch processor, and how many spans came out of it."""

    def __init__(self, room: int) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

        counting = self
        self.count = 0

        class Exporter(SpanExporter):
            def export(self, spans: Sequence[Any]) -> SpanExportResult:
                counting.count += len(spans)
                return SpanExportResult.SUCCESS

        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(Exporter(), max_queue_size=room))
        self._tracer = self.provider.get_tracer("bench")

    def bare_span(self) -> None:
        self._tracer.start_span("execute_tool lookup", attributes=ATTRIBUTES).end()

    def expect(self, count: int) -> None:
        self.provider.force_flush()
        if self.count != count:
            raise AssertionError(f"{self.count} spans came out, and {count} went in")


@dataclass(frozen=True)
class Way:
    """One way to record a call: how telemetry is set for it, and the call."""

    switch: Callable[[], None]
    call: Callable[[int], None]


def recorded(session: Callable[[], AbstractContextManager[None]], count: int, **ways: Way) -> dict[str, float]:
    """CPU of a call in a session, one way after the other by turns: the least of the rounds."""
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            way.switch()
            with session():
                way.call(0)
                gc.collect()
                with Stopwatch() as watch:
                    for index in range(1, count):
                        way.call(index)
            least[name] = min(least[name], watch.cpu_s / (count - 1) * 1e6)
    return {f"{name}_us": value for name, value in least.items()}


def timed(make: Callable[[], object], count: int) -> float:
    """CPU of making a span, the thread of the processor included: the least of the rounds."""
    least = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        with Stopwatch() as watch:
            for _ in range(count):
                make()
        least = min(least, watch.cpu_s / count * 1e6)
    return least


def bare(count: int) -> dict[str, float]:
    """CPU of a span that the SDK starts and ends."""
    counting = Counting(count * ROUNDS + 1)
    least = timed(counting.bare_span, count)
    counting.expect(count * ROUNDS)
    return {"span_us": least}
