"""Telemetry: report runs as OpenTelemetry traces.

Spans are made from the events in the log, which are redacted. Their content is decided in pure code (`spans`,
`call_attributes`, `messages`). Only `live_spans` uses OpenTelemetry, and is imported when telemetry is turned on.
"""

from replaykit.telemetry.switch import disable, enable

__all__ = ["disable", "enable"]
