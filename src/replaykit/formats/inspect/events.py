"""The events of a sample, told to a `Talk`.

Spans (`span_begin`, `span_end`; before them `step`) say what an event belongs to: what is inside of a tool's is
inside of its call, what is inside of a scorer's is no work of the agent, and a solver's or an agent's name is the
step of what is inside of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import time_in
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.talk import Talk, Turn
from replaykit.formats.inspect.messages import REMOVED, SampleAttachments, error_in, plain, usage_in
from replaykit.model.events import ErrorInfo
from replaykit.model.matching import ToolErrors
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_object, as_objects, as_text, without
from replaykit.wire.model_calls import ToolUse

_SCORING = ("scorer", "scorers")
_STEPS = ("solver", "agent", "subtask")
_SILENT = ("sample_init", "state", "span_end", "score")
"""Events that say nothing that is not said elsewhere."""
_COMMON = ("event", "timestamp", "working_start", "span_id", "uuid", "pending", "events", "call", "input_ansi")
_SHORT = 1000
_MAX_DEPTH = 20


class _EventPlace(Struct, kw_only=True):
    """The place of an event in its sample."""

    talk: Talk
    step: str | None = None
    is_scoring: bool = False

    def inner(self, kind: str, name: str) -> _EventPlace:
        return _EventPlace(
            talk=self.talk,
            step=name if kind in _STEPS and name else self.step,
            is_scoring=self.is_scoring or kind in _SCORING,
        )


class InspectConversation:
    """Tells the events of one sample."""

    def __init__(self, talk: Talk, attachments: SampleAttachments, *, is_told: bool = False) -> None:
        self._attachments = attachments
        self._is_told = is_told
        """True where the sample's messages have told the calls already."""
        self._outside = _EventPlace(talk=talk)
        self._spans: dict[str, _EventPlace] = {}
        self._steps: list[_EventPlace] = []
        self._tools: dict[tuple[str, str], list[_EventPlace]] = {}
        """The spans of tools whose event has not come, by the span they are in and their name."""

    def tell(self, events: Iterable[Json], depth: int = 0) -> None:
        for event in events:
            if isinstance(event, dict):
                self._event(event, depth)

    def _event(self, event: dict[str, Json], depth: int) -> None:
        kind, place = as_text(event.get("event")), self._place(as_text(event.get("span_id")))
        if kind == "span_begin":
            self._begin(event)
        elif kind == "step":
            self._step(event)
        elif kind in ("model", "tool") and place.is_scoring:
            self._note(event, place)
        elif kind in ("model", "tool") and self._is_told:
            return
        elif kind == "model":
            self._model(event, place)
        elif kind == "tool":
            self._tool(event, place, depth)
        elif kind == "error":
            place.talk.fails(sample_error(event.get("error")), at=time_in(event.get("timestamp")), step=place.step)
        elif kind not in _SILENT or event.get("intermediate") is True:
            self._note(event, place)
            self._inside(event, place, depth)

    def _place(self, span: str) -> _EventPlace:
        return self._spans.get(span) or (self._steps[-1] if self._steps else self._outside)

    def _begin(self, event: dict[str, Json]) -> None:
        kind, name, above = (as_text(event.get(key)) for key in ("type", "name", "parent_id"))
        place = self._place(above).inner(kind, name)
        self._spans[as_text(event.get("id"))] = place
        if kind == "tool":
            self._tools.setdefault((above, name), []).append(place)

    def _step(self, event: dict[str, Json]) -> None:
        """An end closes what began last, whatever its name."""
        if event.get("action") == "begin":
            self._steps.append(self._place("").inner(as_text(event.get("type")), as_text(event.get("name"))))
        elif self._steps:
            self._steps.pop()

    def _model(self, event: dict[str, Json], place: _EventPlace) -> None:
        output, talk = as_object(event.get("output")), place.talk
        messages = self._attachments.request_messages(event)
        if messages:
            talk.catches_up(messages)
        talk.offers(self._attachments.whole(event.get("tools")))
        at, duration_s = _times(event, output)
        error = event.get("error") or output.get("error")
        choices = as_objects(output.get("choices"))
        turn = talk.answers(
            self._attachments.answer(output),
            model=as_text(event.get("model")) or as_text(output.get("model")),
            usage=usage_in(output.get("usage")),
            finish_reason=as_text(choices[0].get("stop_reason")) or None if choices else None,
            error=sample_error(error) if error else None,
            parameters=_parameters(event),
            at=at,
            duration_s=duration_s,
            step=place.step,
        )
        if self._attachments.lacks_images and any(REMOVED in encode(message) for message in messages):
            turn.lacks.add(Lack.HIDDEN)

    def _tool(self, event: dict[str, Json], place: _EventPlace, depth: int) -> None:
        id, name, talk = as_text(event.get("id")), as_text(event.get("function")), place.talk
        at, duration_s = _times(event, {})
        turn = talk.turn_of(id) if id else None
        if turn is None:
            arguments = self._attachments.whole(event.get("arguments"))
            turn = talk.calls(ToolUse(id=id, name=name, arguments=arguments or {}), at=at, step=place.step)
        span = self._tools.get((as_text(event.get("span_id")), name))
        if span:
            span.pop(0).talk = talk.inside(turn)
        self._inside(event, place, depth, turn)
        if event.get("pending") is not True:
            result, error = plain(self._attachments.whole(event.get("result"))), error_in(event)
            ended = at + duration_s if at else 0.0
            talk.returns(
                result,
                call_id=id,
                name=name,
                failed=False,
                error=error,
                ending=ToolErrors.RAISED,  # Inspect catches what a tool raises, and names it
                at=ended,
                duration_s=duration_s,
            )

    def _inside(self, event: dict[str, Json], place: _EventPlace, depth: int, turn: Turn | None = None) -> None:
        """The events that an older log keeps inside of another event."""
        inner = event.get("events")
        if not isinstance(inner, list) or not inner or depth >= _MAX_DEPTH:
            return
        outside, steps = self._outside, self._steps
        if turn is None:
            talk = place.talk
        else:
            talk = place.talk.inside(turn)
        self._outside, self._steps = _EventPlace(talk=talk, step=place.step, is_scoring=place.is_scoring), []
        self.tell(inner, depth + 1)
        self._outside, self._steps = outside, steps

    def _note(self, event: dict[str, Json], place: _EventPlace) -> None:
        kind = as_text(event.get("event"))
        content = _short(self._attachments.whole(without(event, *_COMMON)))
        name = f"scorer {kind}" if place.is_scoring else kind
        place.talk.notes(name or "event", content, at=time_in(event.get("timestamp")), step=place.step)


def sample_error(value: Json) -> ErrorInfo:
    """An error as Inspect writes it: the text, or the repr of an exception, beside its traceback."""
    error = as_object(value) or {"message": value}
    text = as_text(error.get("message"))
    name, opened, rest = text.partition("(")
    if opened and name.isidentifier() and text.endswith(")"):
        return ErrorInfo(type=name, message=_unquoted(rest[:-1]), traceback=as_text(error.get("traceback")) or None)
    found = error_of(text)
    return ErrorInfo(type=found.type, message=found.message, traceback=as_text(error.get("traceback")) or None)


def _unquoted(text: str) -> str:
    text = text.removesuffix(",")
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    if quoted:
        return text[1:-1]
    return text


def _times(event: dict[str, Json], output: dict[str, Json]) -> tuple[float, float]:
    at, ended, took = time_in(event.get("timestamp")), time_in(event.get("completed")), output.get("time")
    if at and ended:
        return at, max(0.0, ended - at)
    return at, max(0.0, took) if isinstance(took, float) and math.isfinite(took) else 0.0


def _parameters(event: dict[str, Json]) -> dict[str, Json]:
    config = {key: value for key, value in as_object(event.get("config")).items() if value is not None}
    choice = event.get("tool_choice")
    return config | ({"tool_choice": choice} if event.get("tools") and choice is not None else {})


def _short(value: Json, depth: int = 0) -> Json:
    if isinstance(value, str):
        if len(value) <= _SHORT:
            return value
        return value[:_SHORT].rstrip() + "…"
    if isinstance(value, list):
        if depth < _MAX_DEPTH:
            return [_short(item, depth + 1) for item in value[:_SHORT]]
        return []
    if isinstance(value, dict):
        if depth < _MAX_DEPTH:
            return {key: _short(item, depth + 1) for key, item in value.items()}
        return {}
    return value
