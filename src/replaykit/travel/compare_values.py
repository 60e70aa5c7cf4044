"""Where two events, inputs or endings differ, by JSON path.

Values are compared as the JSON they were logged as: what a tagged form stands for is not looked at, so every
difference can be written down again, and reads the same in every process.
"""

from __future__ import annotations

import orjson

from replaykit.model.diff import Difference, brief, call_text, differences
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, LlmCall, Message
from replaykit.model.run import RunHeader
from replaykit.model.values import Json, Raw

_DETAILED_BYTES = 64 * 1024 * 1024  # arguments beyond this are known to differ, but not where
_SMALL_BYTES = 2048  # arguments up to this are read for a line of text
_LINE = 160


class Differ:
    """Finds the differences of one comparison; counts what it reads, so that conversations do not take for ever."""

    def __init__(self) -> None:
        self._left_bytes = _DETAILED_BYTES

    def of_requests(self, a: AnyEvent, b: AnyEvent) -> tuple[Difference, ...]:
        """How the second event asks for something else: `name` for another model, `$…` inside the arguments."""
        renamed = [Difference("changed", "name", _name(a), _name(b))] if _name(a) != _name(b) else []
        old, new = bytes(request_json(a)), bytes(request_json(b))
        if old == new:
            return tuple(renamed)
        self._left_bytes -= len(old) + len(new)
        if self._left_bytes < 0:
            return (*renamed, Difference("changed", "$", f"{len(old):,} bytes", f"{len(new):,} bytes"))
        return (*renamed, *differences(value_of(old), value_of(new)))

    def of_outcomes(self, a: AnyEvent, b: AnyEvent) -> tuple[Difference, ...]:
        """How the second event ends otherwise: `$.result…`, `$.error…`, `$.items…`."""
        if isinstance(a, ErrorEvent) and isinstance(b, ErrorEvent):
            return tuple(differences(*_errors(a.error, b.error)))
        if not isinstance(a, Call) or not isinstance(b, Call) or _ended_alike(a, b):
            return ()
        return tuple(differences(*_outcomes(a, b)))


def of_texts(a: Raw, b: Raw) -> tuple[Difference, ...]:
    """Where two logged values differ."""
    return () if bytes(a) == bytes(b) else tuple(differences(value_of(a), value_of(b)))


def of_endings(a: RunHeader, b: RunHeader) -> tuple[Difference, ...]:
    """Where status, output and error of two runs differ."""
    old, new = ({"status": run.status.value, "output": value_of(run.output_json)} for run in (a, b))
    old_error, new_error = _errors(a.error, b.error)
    return tuple(differences(old | old_error, new | new_error))


def value_of(text: Raw | bytes) -> Json:
    """The JSON value; None for no value at all."""
    return orjson.loads(bytes(text)) if text else None


def request_json(event: AnyEvent) -> Raw:
    """What an event asks or says, as JSON text."""
    if isinstance(event, Call):
        return event.arguments_json
    return event.content_json if isinstance(event, Message | Decision) else Raw(b"null")


def line_of(event: AnyEvent) -> str:
    """An event as one would write it, without reading a long conversation for it."""
    if isinstance(event, Call):
        text = bytes(event.arguments_json)
        if len(text) <= _SMALL_BYTES:
            return _cut(call_text(event.name, value_of(text)))
        return _cut(f"{event.name}({text[: 2 * _LINE].decode(errors='ignore')}")
    if isinstance(event, Message):
        return _cut(f"{event.role}: {brief(value_of(event.content_json), _LINE)}")
    if isinstance(event, Decision):
        return _cut(f"decided {brief(value_of(event.content_json), _LINE)}")
    return _cut(str(event.error)) if isinstance(event, ErrorEvent) else ""


def whole_line_of(event: AnyEvent) -> str:
    """An event with its answer."""
    return f"{line_of(event)} → {_cut(_answer(event))}" if isinstance(event, Call) else line_of(event)


def _answer(call: Call) -> str:
    if call.error is not None:
        return str(call.error)
    if call.items_json is not None:
        return f"{len(call.items_json)} items" + ("" if call.complete else ", left early")
    return brief(value_of(call.result_json), _LINE) if call.result_json else "no answer"


def _name(event: AnyEvent) -> str:
    return event.name if isinstance(event, Call) else ""


def _ended_alike(a: Call, b: Call) -> bool:
    """True when the logs say the same, byte for byte."""
    return (
        bytes(a.result_json) == bytes(b.result_json)
        and a.error is b.error is None
        and a.items_json == b.items_json
        and a.complete == b.complete
        and _reason(a) == _reason(b)
    )


def _outcomes(a: Call, b: Call) -> tuple[Json, Json]:
    """Two outcomes as JSON: what either of them has."""
    both = []
    for call in (a, b):
        value = {"result": value_of(call.result_json)} if call.result_json else {}
        if call.items_json is not None:
            value["items"] = [value_of(item) for item in call.items_json]
        if not call.complete:
            value["complete"] = False
        both.append(value)
    if _reason(a) and _reason(b):
        both[0]["finish_reason"], both[1]["finish_reason"] = _reason(a), _reason(b)
    old_error, new_error = _errors(a.error, b.error)
    return both[0] | old_error, both[1] | new_error


def _errors(a: ErrorInfo | None, b: ErrorInfo | None) -> tuple[dict[str, Json], dict[str, Json]]:
    """Two errors as JSON, under `error`: all that both logs hold of them, but where they were raised."""
    old, new = ({"type": error.type, "message": error.message} if error is not None else {} for error in (a, b))
    for name in ("args", "attributes") if a is not None and b is not None else ():
        texts = [getattr(error, f"{name}_json") for error in (a, b)]
        if all(texts):
            old[name], new[name] = map(value_of, texts)
    return {"error": old} if old else {}, {"error": new} if new else {}


def _reason(call: Call) -> str | None:
    return call.finish_reason if isinstance(call, LlmCall) else None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"
