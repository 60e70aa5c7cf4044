"""Replayability of an imported run: which calls are complete, what others lack, and how to capture it.

Gaps that the events themselves show (a call without an answer, a model call without messages) are detected here, with
the code that serves them in a replay. Gaps that only the importer knows of (arguments that the format lacks, a value
that the vendor cut or hid) are passed to `with_lacks`, and the run carries them in its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.model.events import AnyEvent, Call, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.unrecorded import all_unrecorded, unrecorded_in
from replaykit.model.values import Json, raw
from replaykit.wire.conversation import ConversationReader
from replaykit.wire.json_fields import as_object, object_in, texts_in, value_in
from replaykit.wire.traced_calls import outcome_of

LACKS, ADVICE = "lacks", "advice"
"""Metadata keys: the gaps of calls by sequence number, and advice on how to capture more."""


class Lack(StrEnum):
    """A gap of a recorded call."""

    ARGUMENTS = "arguments"
    RESULT = "result"
    MESSAGES = "messages"  # the messages that the model was sent
    CUT = "cut"  # the value is incomplete
    HIDDEN = "hidden"  # the vendor, or its SDK, replaced the value


_SPOILT = (Lack.CUT, Lack.HIDDEN)
_LACKS = frozenset(map(str, Lack))


class Lacking(Struct, frozen=True, kw_only=True):
    """A call that cannot be replayed exactly."""

    seq: int
    name: str
    lacks: tuple[Lack, ...]


class Replayability(Struct, frozen=True, kw_only=True):
    """The manifest of a run."""

    calls: int
    """The number of tool and model calls, which a replay serves."""
    lacking: tuple[Lacking, ...] = ()
    advice: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()
    """Actions of the run that were not recorded, in sentences."""

    @property
    def exact(self) -> int:
        """The number of calls that can be replayed exactly."""
        return self.calls - len(self.lacking)

    @property
    def score(self) -> float:
        """The share of calls that can be replayed exactly; 1 for a run without calls."""
        if self.calls:
            return self.exact / self.calls
        return 1.0

    @property
    def summary(self) -> str:
        """The manifest in one line."""
        past = ""
        if self.unrecorded:
            past = ", and not everything it did was recorded"
        if not self.calls:
            return f"it made no calls{past}"
        if not self.lacking:
            return f"all {self.calls} calls can be replayed{past}"
        lacks = set[Lack]().union(*(call.lacks for call in self.lacking))
        missing = ", ".join(sorted(lacks.difference(_SPOILT)))
        parts = [f"values {lack}" for lack in sorted(lacks.intersection(_SPOILT))]
        if missing:
            parts.insert(0, f"{missing} missing")
        return f"{self.exact} of {self.calls} calls can be replayed exactly ({', '.join(parts)}){past}"


def replayability(run: TraceRun) -> Replayability:
    """Return what can be replayed of a run, as far as the run and its importer know."""
    manifest = ReplayabilityReader(run)
    for event in run.events:
        manifest.add(event)
    return manifest.result()


class ReplayabilityReader:
    """Reads what can be replayed of a run from its events, one by one."""

    def __init__(self, header: RunHeader) -> None:
        self._metadata = as_object(header.metadata)
        self._stated_lacks = object_in(self._metadata, LACKS)
        self._reader = ConversationReader()
        self._calls = 0
        self._lacking: list[Lacking] = []
        self._notes: list[Note] = []

    def add(self, event: AnyEvent) -> None:
        """Read the next event."""
        if isinstance(event, Note):
            if unrecorded_in(event) is not None:
                self._notes.append(event)
        elif isinstance(event, ToolCall | LlmCall):
            self._calls += 1
            lacks = _lacks(event, self._stated_lacks.get(str(event.seq)), self._reader)
            if lacks:
                self._lacking.append(Lacking(seq=event.seq, name=event.name, lacks=lacks))

    def result(self) -> Replayability:
        """Return what can be replayed of the events so far."""
        return Replayability(
            calls=self._calls,
            lacking=tuple(self._lacking),
            advice=texts_in(self._metadata.get(ADVICE)),
            unrecorded=tuple(action.text for action in all_unrecorded(self._notes)),
        )


def leaves_out_answer(run: TraceRun) -> bool:
    """Return whether an imported run succeeded without an output, and the trace lacks its last model answer."""
    if run.origin.kind != "imported" or run.status is not RunStatus.SUCCESS or run.output is not None:
        return False
    for call in replayability(run).lacking:
        if run.llm_calls and call.seq == run.llm_calls[-1].seq:
            return not {Lack.RESULT, Lack.HIDDEN}.isdisjoint(call.lacks)
    return False


def with_lacks(run: TraceRun, lacks: Mapping[int, Iterable[Lack]], advice: Iterable[str] = ()) -> TraceRun:
    """Return the run with the gaps that the importer knows of, and advice if any call lacks something."""
    metadata = as_object(run.metadata)
    lacks_by_seq = {str(seq): sorted(set(what)) for seq, what in lacks.items() if what}
    if lacks_by_seq:
        metadata = metadata | {LACKS: lacks_by_seq}
        run = replace(run, metadata_json=raw(metadata))
    unique_advice = list(dict.fromkeys(advice))
    if not unique_advice or not replayability(run).lacking:
        return run
    return replace(run, metadata_json=raw({**metadata, ADVICE: unique_advice}))


def _lacks(call: Call, stated_lacks: Json, reader: ConversationReader) -> tuple[Lack, ...]:
    lacks = {Lack(word) for word in texts_in(stated_lacks) if word in _LACKS}
    if not call.answered or (isinstance(call, LlmCall) and call.wire is None and _has_no_answer(call)):
        lacks.add(Lack.RESULT)
    if isinstance(call, LlmCall) and not _has_messages(call, reader):
        lacks.add(Lack.MESSAGES)
    return tuple(sorted(lacks))


def _has_no_answer(call: LlmCall) -> bool:
    """Return whether a replay has no answer to serve; importers report answers that were cut off themselves."""
    return call.complete and bool(outcome_of(call).problem)


def _has_messages(call: LlmCall, reader: ConversationReader) -> bool:
    """Return whether a replay can find the call by its messages."""
    conversation = reader.read(bytes(call.request_json))
    return conversation is not None and conversation.is_known


_AGAIN = "Then record the run again, or import a trace that was made with it."
_SPANS = (
    "Turn on the content of messages where the spans are made: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true "
    "(OpenTelemetry; newer versions take SPAN_AND_EVENT), TRACELOOP_TRACE_CONTENT=true (OpenLLMetry), "
    "OPENINFERENCE_HIDE_INPUTS=false and OPENINFERENCE_HIDE_OUTPUTS=false (OpenInference), include_content=True "
    "(Pydantic AI), experimental_telemetry with recordInputs and recordOutputs (AI SDK)."
)
_LANGFUSE = (
    "Have Langfuse keep input and output: no `capture_input=False` or `capture_output=False` on @observe, no `mask` "
    "that empties them, and export with the fields `io`."
)
_LANGSMITH = (
    "Have LangSmith keep inputs and outputs: LANGSMITH_HIDE_INPUTS=false and LANGSMITH_HIDE_OUTPUTS=false, and export "
    "the runs with their inputs and outputs."
)
_MLFLOW = "Turn on autologging of the library that calls the model, or call `span.set_inputs` and `span.set_outputs`."
_AGENTS = "Have the Agents SDK keep them: OPENAI_AGENTS_DONT_LOG_MODEL_DATA=0 and `trace_include_sensitive_data=True`."
_LOGS = "Log each request beside its response, with all of its messages."
_ADVICE = {
    "langfuse": _LANGFUSE,
    "langsmith": _LANGSMITH,
    "mlflow": _MLFLOW,
    "openai_agents": _AGENTS,
    **dict.fromkeys(("openai_chat", "openai_responses", "anthropic", "gemini", "har"), _LOGS),
}

_OF_SPANS = ("otlp", "otel_spans", "phoenix", "ai_sdk", "pydantic_ai")


def capture_advice(format: str) -> str:
    """Return what to turn on so that a trace of this format holds the content of calls."""
    if format in _ADVICE or format in _OF_SPANS:
        return f"{_ADVICE.get(format, _SPANS)} {_AGAIN}"
    return f"{_SPANS} {_LANGFUSE} {_LANGSMITH} {_AGAIN}"


N = TypeVar("N", int, float)
TOTAL = "usage"
"""The metadata key of the total usage, for runs whose calls have none."""


def with_total(run: TraceRun, total: Usage | None) -> TraceRun:
    """Return the run with the total that the format states, on its only call or else in the metadata."""
    if total is None or total == Usage() or any(call.usage is not None for call in run.llm_calls):
        return run
    if len(run.llm_calls) == 1:
        (only,) = run.llm_calls
        events = [replace(event, usage=total) if event is only else event for event in run.events]
        return replace(run, events=tuple(events))
    metadata = as_object(run.metadata) | {TOTAL: msgspec.to_builtins(total)}
    return replace(run, metadata_json=raw(metadata))


def total_of(run: TraceRun) -> Usage:
    """Return a run's usage: the sum over its calls, or the total in its metadata."""
    used = [event.usage for event in run.events if isinstance(event, LlmCall) and event.usage is not None]
    if used:
        return added(used)
    try:
        return msgspec.convert(value_in(run.metadata, TOTAL), Usage)
    except msgspec.ValidationError:  # anybody may have written the metadata
        return Usage()


def added(usages: Iterable[Usage]) -> Usage:
    """Return the sum; a figure that no usage states stays unknown."""
    total = Usage()
    for usage in usages:
        total = Usage(
            input_tokens=_sum(total.input_tokens, usage.input_tokens),
            output_tokens=_sum(total.output_tokens, usage.output_tokens),
            cost_usd=_sum(total.cost_usd, usage.cost_usd),
        )
    return total


def _sum(total: N | None, part: N | None) -> N | None:
    if total is None:
        return part
    if part is None:
        return total
    return total + part


def stated_usage(input_tokens: int | None, output_tokens: int | None, cost_usd: float | None = None) -> Usage | None:
    """Return the usage of a call; None if the trace states none."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd)
    if usage == Usage():
        return None
    return usage
