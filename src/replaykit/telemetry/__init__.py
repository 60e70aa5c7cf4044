"""Telemetry: a run as a trace of OpenTelemetry.

Spans are made of the events of the log, as they are written there: redacted. What a span says is decided in pure code
(`spans`, `call_attributes`, `messages`). Only `live_spans` knows OpenTelemetry; it is imported when that is turned on.
"""

from replaykit.telemetry.switch import disable, enable

__all__ = ["disable", "enable"]
