"""OpenTelemetry as an application sets it up, with everything it is told kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import replaykit as rk


class Told:
    """What OpenTelemetry was told."""

    def __init__(self) -> None:
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self._exporter = InMemorySpanExporter()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def enable(self, **options: Any) -> None:
        rk.telemetry.enable(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def figures(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """The points of a metric: attributes, and value (of a histogram, how many)."""
        data = self._reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        points = [point for metric in metrics for point in metric.data.data_points]
        return [(dict(p.attributes or {}), getattr(p, "value", None) or getattr(p, "count", 0)) for p in points]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    found = Told()
    found.enable()
    yield found
    rk.telemetry.disable()
    found.meters.shutdown()
    found.tracers.shutdown()
