"""The switch for telemetry. While off, it costs one environment lookup per run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from replaykit.errors import UsageError, install_hint

if TYPE_CHECKING:
    from pathlib import Path

    from replaykit.model.run import RunHeader
    from replaykit.telemetry.live_spans import LiveRun, LiveTelemetry

VARIABLE = "REPLAYKIT_OTEL"
"""The environment variable that turns telemetry on."""
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which OpenTelemetry's own instrumentations capture the contents of messages."""
_ON = ("1", "true", "yes", "on")
_CAPTURING = (*_ON, "span_only", "span_and_event")


class _Switch:
    """The state of the switch."""

    def __init__(self) -> None:
        self.watcher: LiveTelemetry | None = None
        self.refused = False
        """True if the environment asks for telemetry that cannot be turned on."""


_SWITCH = _Switch()
# Weak, so that a run whose writer is gone without an end is forgotten.
_RUNS: WeakValueDictionary[str, LiveRun] = WeakValueDictionary()


def enable(*, content: bool | None = None, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Report runs, forks and replays of this process to OpenTelemetry, from the next one on.

    Spans and figures go to the application's own providers, or to those that are given. Where there are none, some are
    made of the `OTEL_…` variables. `content` puts messages, arguments and results into the spans, redacted as they are
    stored; unless it is said here, `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says it.
    """
    try:
        from replaykit.telemetry.live_spans import LiveTelemetry  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the OpenTelemetry SDK is not installed ({error.name} is missing)",
            hint=install_hint("otel"),
        ) from None
    if content is None:
        captures_content = os.environ.get(CAPTURE, "").lower() in _CAPTURING
    else:
        captures_content = content
    _SWITCH.watcher = LiveTelemetry(tracer_provider, meter_provider, content=captures_content)


def disable() -> None:
    """Send no telemetry from the next run on; current runs are reported to their end."""
    _SWITCH.watcher = None


def watcher() -> LiveTelemetry | None:
    """Return the receiver of telemetry; None if it is off."""
    if _SWITCH.watcher is None and not _SWITCH.refused and os.environ.get(VARIABLE, "").lower() in _ON:
        try:
            enable()
        except UsageError as error:  # telemetry must not stop a recording
            # Warn once, not for every run.
            _SWITCH.refused = True
            warn(f"{VARIABLE} is set, but nothing is sent to OpenTelemetry: {error}")
    return _SWITCH.watcher


def watch(header: RunHeader, store: Path) -> LiveRun | None:
    """Start reporting a run, if telemetry is on."""
    listening = watcher()
    live_run = None if listening is None else listening.begun(header, store)
    if live_run is not None:
        _RUNS[header.id] = live_run
    return live_run


def watched(run_id: str) -> LiveRun | None:
    """Return a run that is being reported, for code that ends it without its writer."""
    return _RUNS.get(run_id)


def warn(text: str, *, traceback: bool = False) -> None:
    """Log a warning to the application's log."""
    import logging  # noqa: PLC0415 (takes 4 ms at every start, and is rarely needed)

    logging.getLogger("replaykit.telemetry").warning(text, exc_info=traceback)
