"""Providers of spans and metrics: the application's own, or else those that the `OTEL_…` variables name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics, trace

from replaykit.errors import UsageError

_KINDS = ("otlp", "console", "none")
_PATIENCE_S = 3  # a program that ends waits as long for a collector that is not there; the SDK's own is 10


def chosen_tracers(provider: Any) -> Callable[[], Any]:
    """Return a getter of the tracer provider, called for each run, since an application may set up its own later."""
    if provider is not None:
        return lambda: provider
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _set_up_traces()
    return trace.get_tracer_provider


def chosen_meters(provider: Any) -> Any:
    """The provider of meters."""
    if provider is not None:
        return provider
    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider":  # the API has no public name for it
        _set_up_metrics()
    return metrics.get_meter_provider()


def _set_up_traces() -> None:
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 (slow; an application may have set up its own)
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter  # noqa: PLC0415

    kind = _kind("OTEL_TRACES_EXPORTER")
    provider = TracerProvider(resource=_resource())
    if kind == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_timeout_s("TRACES"))))
    elif kind == "console":  # what a program or a verb prints is for others to read
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    trace.set_tracer_provider(provider)


def _set_up_metrics() -> None:
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 (as above)
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader  # noqa: PLC0415

    kind = _kind("OTEL_METRICS_EXPORTER")
    readers = []
    if kind == "otlp":
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(timeout=_timeout_s("METRICS"))))
    elif kind == "console":
        readers.append(PeriodicExportingMetricReader(ConsoleMetricExporter(out=sys.stderr)))
    metrics.set_meter_provider(MeterProvider(metric_readers=readers, resource=_resource()))


def _kind(variable: str) -> str:
    kind = os.environ.get(variable, "").strip().lower() or "otlp"
    if kind not in _KINDS:
        raise UsageError(
            f"{variable}={kind!r}: ReplayKit sets up one of {', '.join(_KINDS)}",
            hint="For another exporter set up OpenTelemetry in the application, and call replaykit.telemetry.enable().",
        )
    return kind


def _timeout_s(signal: str) -> float | None:
    """Unless a variable says how long a collector is waited for."""
    names = ("OTEL_EXPORTER_OTLP_TIMEOUT", f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT")
    if any(os.environ.get(name) for name in names):
        return None
    return _PATIENCE_S


def _resource() -> Any:
    """Return the resource of the `OTEL_…` variables, with a default name."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 (as above)

    attributes = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in attributes
    return Resource.create({} if is_named else {"service.name": "replaykit"})
