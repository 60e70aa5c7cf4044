"""OTLP/JSON as the protobuf message it spells, by the library's own reader."""

from __future__ import annotations

import base64
import copy
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = ("traceId", "spanId", "parentSpanId")


def as_protobuf(document: dict[str, Any], kind: Any = ExportTraceServiceRequest) -> bytes:
    """The bytes of an export request."""
    held = _in_base64(copy.deepcopy(document))
    data: bytes = ParseDict(held, kind()).SerializeToString()
    return data


def _in_base64(value: Any) -> Any:
    """protobuf's own JSON has base64 where OTLP/JSON has hex."""
    if isinstance(value, list):
        return [_in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(item)).decode() if name in _IDS and item else _in_base64(item)
        for name, item in value.items()
    }
