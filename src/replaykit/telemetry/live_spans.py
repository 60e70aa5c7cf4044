"""Report spans and metrics live: events of runs, through the application's OpenTelemetry.

A span is created when its event is on disk, and is passed to the processors' `on_end` as a finished `ReadableSpan`, at
a third of the cost of starting and ending one. Ids derive from the run and the event's number, so that a child can name
its parent before that has ended.

A rate is the share of one attribute value in a counter:

    checkpoint success rate   replaykit.runs{replaykit.checkpointed}
    replay success rate       replaykit.replays{replaykit.completed}
    storage size              replaykit.store.size
    replay latency            replaykit.replay.duration
    divergence rate           replaykit.forks{replaykit.diverged}

The providers are the application's own, or else those that the `OTEL_…` variables configure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from opentelemetry import context, metrics, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as SUPPRESSED
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.trace import Event, ReadableSpan, Tracer
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from replaykit import __version__
from replaykit.errors import UsageError
from replaykit.model.events import StoredEvent
from replaykit.model.run import RunHeader, TraceRun
from replaykit.telemetry.span import TelemetrySpan, TelemetrySpanKind, origin_trace, root_id, trace_id_of, with_trace
from replaykit.telemetry.spans import RunSpans, root_attributes, root_name
from replaykit.telemetry.switch import warn

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class RunMetrics:
    """The metrics of runs, replays, forks and stores."""

    def __init__(self, meter: Meter) -> None:
        self._stores: dict[Path, None] = {}
        self._runs = meter.create_counter("replaykit.runs", "{run}", "Runs that were recorded")
        self._replays = meter.create_counter("replaykit.replays", "{replay}", "Candidates that were replayed")
        self._durations = meter.create_histogram(
            "replaykit.replay.duration",
            "s",
            "How long a replay took",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._forks = meter.create_counter("replaykit.forks", "{fork}", "Runs that continued from a step of another")
        meter.create_observable_gauge("replaykit.store.size", [self._sizes], "By", "What a store takes on the disk")

    def writes_to(self, store: Path) -> None:
        """Report the size of this store from now on."""
        self._stores.setdefault(store.absolute())

    def ended(self, run: RunHeader, *, whole: bool) -> None:
        """Count a finished run; `whole` is false if a part of it is not on disk."""
        self._runs.add(1, {"replaykit.run.status": run.status.value, "replaykit.checkpointed": whole})

    def replayed(self, verdict: str, duration_s: float, *, completed: bool) -> None:
        """Count a replay; a candidate that could not be run is not completed."""
        attributes: dict[str, str | bool] = {"replaykit.verdict": verdict, "replaykit.completed": completed}
        self._replays.add(1, attributes)
        self._durations.record(duration_s, attributes)

    def forked(self, parent: RunHeader, fork: RunHeader) -> None:
        """Count a fork, and whether it ended differently from its parent."""
        diverged = _outcome(parent) != _outcome(fork)
        self._forks.add(1, {"replaykit.origin.kind": fork.origin.kind, "replaykit.diverged": diverged})

    def _sizes(self, _options: CallbackOptions) -> Iterable[Observation]:
        for store in list(self._stores):
            files = (store, store.with_name(f"{store.name}-wal"))
            sizes = [file.stat().st_size for file in files if file.exists()]
            if sizes:
                yield Observation(sum(sizes), {"replaykit.store": str(store)})


def _outcome(run: RunHeader) -> tuple[str, bytes, str]:
    return run.status.value, bytes(run.output_json), str(run.error)


SCOPE = "replaykit"
_PART = "part"  # a part of a recorded program: the joined run is reported instead
_KINDS = {TelemetrySpanKind.INTERNAL: SpanKind.INTERNAL, TelemetrySpanKind.CLIENT: SpanKind.CLIENT}
_UNSET = Status(StatusCode.UNSET)
_F = TypeVar("_F", bound=Callable[..., Any])


def _quiet(method: _F) -> _F:
    """Log telemetry errors instead of raising them: processors and exporters are foreign code."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 (see above)
            _say(error)
            return None

    return call  # type: ignore[return-value]


@lru_cache(64)
def _say_once(kind: str, text: str) -> None:
    warn(f"a run continues without telemetry: {kind}: {text}", traceback=True)


def _say(error: Exception) -> None:
    _say_once(type(error).__name__, str(error))


class LiveTelemetry:
    """Reports runs to OpenTelemetry."""

    def __init__(self, tracer_provider: Any, meter_provider: Any, *, content: bool) -> None:
        self._content = content
        self._tracers = chosen_tracers(tracer_provider)
        self._metrics = RunMetrics(chosen_meters(meter_provider).get_meter(SCOPE, __version__))

    @_quiet
    def begun(self, header: RunHeader, store: Path) -> LiveRun | None:
        if header.origin.kind == _PART or context.get_value(SUPPRESSED):
            return None
        self._metrics.writes_to(store)
        return self._run(header)

    @_quiet
    def replayed(self, run: TraceRun | None, verdict: str, duration_s: float) -> None:
        self._metrics.replayed(verdict, duration_s, completed=run is not None)
        if run is not None:
            cleaned = _cleaned(run)
            self._run(cleaned.header).tell(cleaned)

    @_quiet
    def forked(self, parent: RunHeader, fork: RunHeader) -> None:
        self._metrics.forked(parent, fork)

    def _run(self, header: RunHeader) -> LiveRun:
        tracer = self._tracers().get_tracer(SCOPE, __version__)
        return LiveRun(header, tracer, self._metrics, content=self._content)


class LiveRun:
    """A run that is reported live. Nothing here raises."""

    def __init__(self, header: RunHeader, tracer: Any, metrics: RunMetrics, *, content: bool) -> None:
        self._metrics = metrics
        self._spans = RunSpans(header, content=content)
        self._whole = True
        self._over = False
        self._link = _link(header)
        self._around = trace.get_current_span().get_span_context()
        own = trace_id_of(header)
        self.trace = f"{self._around.trace_id:032x}" if self._around.is_valid else own
        root = self._spans.root_id
        self._sink = _SpanSink(tracer, int(self.trace, 16), root, header) if isinstance(tracer, Tracer) else None

    def marked(self, header: RunHeader) -> RunHeader:
        return with_trace(header, self.trace)

    @contextmanager
    def active(self) -> Iterator[None]:
        if self._sink is None:
            yield
            return
        root_span = trace.NonRecordingSpan(self._sink.root)
        token = context.attach(trace.set_span_in_context(root_span))
        try:
            yield
        finally:
            context.detach(token)

    def event(self, event: StoredEvent) -> None:
        if self._sink is None or self._over or context.get_value(SUPPRESSED):
            return
        try:
            span = self._spans.of(event)
            if span is not None:
                self._sink.put(span)
        except Exception as error:  # noqa: BLE001 (as in `_quiet`; this is done for every event)
            _say(error)

    def lost(self) -> None:
        self._whole = False

    @_quiet
    def end(self, header: RunHeader) -> None:
        if self._over:
            return
        self._over = True
        self._metrics.ended(header, whole=self._whole)
        self._finish(header)

    @_quiet
    def whole(self, run: TraceRun) -> None:
        self._metrics.ended(run, whole=self._whole)
        self.tell(run)
        self._over = True

    def tell(self, run: TraceRun) -> None:
        """Report a run that has ended."""
        for event in run.events:
            self.event(event)
        self._finish(run.header)

    def _finish(self, header: RunHeader) -> None:
        if self._sink is None:
            return
        *steps, root = self._spans.rest(header)
        for span in steps:
            self._sink.put(span)
        self._sink.put(root, around=self._around, link=self._link)


class _SpanSink:
    """Hands the spans of one trace to the span processor."""

    def __init__(self, tracer: Tracer, trace_id: int, root: int, header: RunHeader) -> None:
        self._trace = trace_id
        self._resource = tracer.resource
        self._put = tracer.span_processor.on_end
        self._scope = InstrumentationScope(SCOPE, __version__)
        decided = tracer.sampler.should_sample(
            context.get_current(), trace_id, root_name(header), SpanKind.INTERNAL, root_attributes(header)
        )
        self._recording = decided.decision is not Decision.DROP
        is_sampled = decided.decision is Decision.RECORD_AND_SAMPLE
        self._flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
        self._state = decided.trace_state
        self.root = self._context(root)
        self._root_id = root

    def put(self, span: TelemetrySpan, *, around: SpanContext | None = None, link: Link | None = None) -> None:
        if not self._recording:
            return
        if span.parent == self._root_id:
            parent: SpanContext | None = self.root
        elif span.parent:
            parent = self._context(span.parent)
        else:
            parent = around
        self._put(
            ReadableSpan(
                name=span.name,
                context=self._context(span.id),
                parent=parent if parent is not None and parent.is_valid else None,
                resource=self._resource,
                attributes=span.attributes,
                events=[Event(event.name, event.attributes, event.at_ns) for event in span.happenings],
                links=() if link is None else (link,),
                kind=_KINDS[span.kind],
                status=_UNSET if span.failure is None else Status(StatusCode.ERROR, span.failure or None),
                start_time=span.started_ns,
                end_time=span.ended_ns,
                instrumentation_scope=self._scope,
            )
        )

    def _context(self, span_id: int) -> SpanContext:
        return SpanContext(self._trace, span_id, is_remote=False, trace_flags=self._flags, trace_state=self._state)


def _link(header: RunHeader) -> Link | None:
    """Return a link to the run that a fork comes from."""
    origin = origin_trace(header)
    if origin is None or header.origin.run is None:
        return None
    return Link(SpanContext(int(origin, 16), root_id(header.origin.run), is_remote=True))


def _cleaned(run: TraceRun) -> TraceRun:
    """Return an unstored run as redacted as a stored one."""
    from replaykit.redaction.events import Door  # noqa: PLC0415 (only replays need it)
    from replaykit.redaction.files import file_redactor  # noqa: PLC0415

    redactor = file_redactor()
    if redactor is None:
        return run
    return Door(redactor).run(run)


_EXPORTERS = ("otlp", "console", "none")
_PATIENCE_S = 3  # how long a program waits for an unreachable collector at exit; the SDK's default is 10


def chosen_tracers(provider: Any) -> Callable[[], Any]:
    """Return a getter of the tracer provider, called for each run, since an application may set up its own later."""
    if provider is not None:
        return lambda: provider
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _set_up_traces()
    return trace.get_tracer_provider


def chosen_meters(provider: Any) -> Any:
    """Return the provider of meters."""
    if provider is not None:
        return provider
    # The API has no public name for this class.
    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider":
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
    elif kind == "console":  # stdout belongs to the program's own output
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
    if kind not in _EXPORTERS:
        raise UsageError(
            f"{variable}={kind!r}: ReplayKit sets up one of {', '.join(_EXPORTERS)}",
            hint="For another exporter set up OpenTelemetry in the application, and call replaykit.telemetry.enable().",
        )
    return kind


def _timeout_s(signal: str) -> float | None:
    """Return the exporter's timeout, unless a variable sets it."""
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
