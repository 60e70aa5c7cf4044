"""How much of an imported run can be replayed: which calls are whole, which lack something, and what would help.

What the events themselves show (a call without an answer, a model's call without messages) is seen here, by the code
that serves them in a replay. What only
the importer knows (arguments that the format does not have, a value that the vendor cut or hid) it says with
`with_lacks`, and the run carries it in its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from replaykit.formats.core.members import object_in
from replaykit.model.events import Call, LlmCall, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.unrecorded import all_unrecorded
from replaykit.model.values import Json, raw
from replaykit.wire.conversation import ConversationReader
from replaykit.wire.json_fields import as_object, as_text
from replaykit.wire.traced_calls import outcome_of

LACKS, ADVICE = "lacks", "advice"
"""Keys of a run's metadata: the gaps of its calls by sequence number, and advice on how to capture more."""


class Lack(StrEnum):
    """A gap of a recorded call."""

    ARGUMENTS = "arguments"
    RESULT = "result"
    MESSAGES = "messages"  # that a model was asked
    CUT = "cut"  # a value is there, but not all of it
    HIDDEN = "hidden"  # the vendor, or its SDK, put something else in the place of a value


_SPOILT = (Lack.CUT, Lack.HIDDEN)


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
        """The number of calls that can be replayed as they were."""
        return self.calls - len(self.lacking)

    @property
    def score(self) -> float:
        """The share of the calls that can; 1 for a run that made none."""
        if self.calls:
            return self.exact / self.calls
        return 1.0

    @property
    def summary(self) -> str:
        """In one line."""
        if self.unrecorded:
            past = ", and not everything it did was recorded"
        else:
            past = ""
        if not self.lacking:
            return (f"all {self.calls} calls can be replayed" if self.calls else "it made no calls") + past
        what = sorted({lack for call in self.lacking for lack in call.lacks})
        missing = ", ".join(lack for lack in what if lack not in _SPOILT)
        parts = [f"{missing} missing"] if missing else []
        parts += [f"values {lack}" for lack in what if lack in _SPOILT]
        return f"{self.exact} of {self.calls} calls can be replayed exactly ({', '.join(parts)}){past}"


def replayability(run: TraceRun) -> Replayability:
    """Return what can be replayed of a run, as far as the run and its importer show."""
    metadata = as_object(run.metadata)
    stated = object_in(metadata, LACKS)
    calls = [event for event in run.events if isinstance(event, ToolCall | LlmCall)]
    reader = ConversationReader()
    found = [(call, _lacks(call, stated.get(str(call.seq)), reader)) for call in calls]
    advice = metadata.get(ADVICE)
    return Replayability(
        calls=len(calls),
        lacking=tuple(Lacking(seq=call.seq, name=call.name, lacks=lacks) for call, lacks in found if lacks),
        advice=tuple(filter(None, map(as_text, advice))) if isinstance(advice, list) else (),
        unrecorded=tuple(action.text for action in all_unrecorded(run.events)),
    )


def leaves_out_answer(run: TraceRun) -> bool:
    """True for an imported run that ended well without an output, where the trace lacks what its last model said."""
    if run.origin.kind != "imported" or run.status is not RunStatus.SUCCESS or run.output is not None:
        return False
    last = max((event.seq for event in run.events if isinstance(event, LlmCall)), default=None)
    return any(call.seq == last and {Lack.RESULT, Lack.HIDDEN} & set(call.lacks) for call in replayability(run).lacking)


def with_lacks(run: TraceRun, lacks: Mapping[int, Iterable[Lack]], advice: Iterable[str] = ()) -> TraceRun:
    """The run, carrying what its calls lack beside what the events show; advice only where it lacks something."""
    stated = {str(seq): sorted(set(what)) for seq, what in lacks.items() if what}
    metadata = as_object(run.metadata) | ({LACKS: stated} if stated else {})
    if stated:
        marked = replace(run, metadata_json=raw(metadata))
    else:
        marked = run
    unique_advice = list(dict.fromkeys(advice))
    if not unique_advice or not replayability(marked).lacking:
        return marked
    return replace(marked, metadata_json=raw({**metadata, ADVICE: unique_advice}))


def _lacks(call: Call, stated: Json, reader: ConversationReader) -> tuple[Lack, ...]:
    known = {item.value for item in Lack}
    if isinstance(stated, list):
        found = {Lack(item) for item in stated if item in known}
    else:
        found = set()
    if not call.answered or (isinstance(call, LlmCall) and call.wire is None and _has_no_answer(call)):
        found.add(Lack.RESULT)
    if isinstance(call, LlmCall) and not _has_messages(call, reader):
        found.add(Lack.MESSAGES)
    return tuple(sorted(found))


def _has_no_answer(call: LlmCall) -> bool:
    """True where a replay has nothing to serve; of an answer that was cut off the importer says so."""
    return call.complete and bool(outcome_of(call).problem)


def _has_messages(call: LlmCall, reader: ConversationReader) -> bool:
    """True where a replay finds the call by what was asked."""
    conversation = reader.read(bytes(call.request_json))
    return conversation is not None and conversation.is_known
