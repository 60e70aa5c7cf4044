"""The compact run log: a run whose calls share what they have in common, and name files for what is large.

    {"replaykit": 2, "parts": {"messages": […]}, "run": {…, "events": [
      {"type": "llm_call", …, "arguments": {…}, "parts": {"messages": "0-4"}, "values": {"result": "fixtures/…"}}]}}

It is the source trace of a case. A run log that has to stand by itself is plain (`model.run.encode_run`).
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

import msgspec
from msgspec import Struct

from replaykit.model.compact_calls import NO_REFERENCES, References, WriteValue, take_apart
from replaykit.model.events import AnyEvent, Call, encode_event
from replaykit.model.run import RUN_FORMAT, TraceRun
from replaykit.model.shared_parts import CanBeNamed, PartWriter
from replaykit.model.values import Json, Raw

COMPACT_RUN_FORMAT = 2
"""Version of the run log with references; `RUN_FORMAT` is that of a plain one."""


class RunReferences(Struct, frozen=True):
    """The references of each event of a run."""

    events: tuple[References, ...] = ()


class CompactRunFile(Struct, frozen=True, kw_only=True):
    """The parts and references of a compact run log; everything else is read as that of a plain one."""

    replaykit: int
    parts: dict[str, tuple[Raw, ...]] = {}
    run: RunReferences


def encode_compact_run(run: TraceRun, write_value: WriteValue, can_be_named: CanBeNamed) -> bytes:
    """Return a run as one JSON document; it is a plain one if nothing repeats and nothing is large."""
    parts = PartWriter((call.arguments_json for call in run.calls), can_be_named)
    encoded = [_encode(event, parts, write_value) for event in run.events]
    is_compact = any(references is not NO_REFERENCES for _, references in encoded)
    members = msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(run, events=())), type=dict[str, Raw])
    members["events"] = Raw(b"[%b]" % b",".join(text for text, _ in encoded))
    content: dict[str, Json] = {"replaykit": COMPACT_RUN_FORMAT if is_compact else RUN_FORMAT}
    if parts.tables:
        content["parts"] = parts.tables
    content["run"] = members
    return msgspec.json.encode(content)


def _encode(event: AnyEvent, parts: PartWriter, write_value: WriteValue) -> tuple[bytes, References]:
    if not isinstance(event, Call):
        return encode_event(event), NO_REFERENCES
    rest, references = take_apart(event, parts, write_value)
    if references is NO_REFERENCES:
        return encode_event(event), NO_REFERENCES
    return encode_event(rest)[:-1] + b"," + msgspec.json.encode(references)[1:], references
