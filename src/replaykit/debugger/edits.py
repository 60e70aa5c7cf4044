"""Editing before a fork: the JSON text to edit, and the `Edits` it results in."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
import orjson
from msgspec import UNSET, Struct

from replaykit.debugger.navigation import DebuggerStep
from replaykit.errors import UsageError
from replaykit.model.diff import call_text
from replaykit.model.events import Call, ToolCall
from replaykit.model.matching import ErrorSpec
from replaykit.model.nesting import NestedTooDeeply, check_value_nesting
from replaykit.model.values import Json, canonical, encode, thaw
from replaykit.report.layout import short
from replaykit.terminal import visible, visible_lines
from replaykit.travel.edits import Edits

_COMMENT = "//"
_WRONG = "// Not yet: "


class EditablePart(StrEnum):
    """A part of a step that a fork can change."""

    STATE = "state"  # the state after the step
    ANSWER = "answer"  # the result or the error of a call
    ARGUMENTS = "arguments"  # the arguments of a call


class EditChoice(Struct, frozen=True, kw_only=True):
    """A part of a step that the user can choose to change."""

    part: EditablePart
    step: str
    call: Call | None = None

    @property
    def text(self) -> str:
        if self.call is None:
            return f"the state after {visible(self.step)}"
        shown = short(call_text(self.call.name, self.call.arguments), 60)
        if self.part is EditablePart.ANSWER:
            return f"what {shown} answers"
        return f"what {shown} is called with"


def choices(stop: DebuggerStep, *, state: bool) -> list[EditChoice]:
    """Return the changes that a step allows.

    Among several calls of one tool it is the last one, because a fork changes that one. Nested calls are left out: they
    are served with the outer call. Only tools can be called with other arguments.
    """
    options = [EditChoice(part=EditablePart.STATE, step=stop.name)] if state else []
    call_numbers = {event.seq for event in stop.events if isinstance(event, Call)}
    calls = {event.name: event for event in stop.own if isinstance(event, Call) and event.parent not in call_numbers}
    for call in calls.values():
        options.append(EditChoice(part=EditablePart.ANSWER, step=stop.name, call=call))
        if isinstance(call, ToolCall):
            options.append(EditChoice(part=EditablePart.ARGUMENTS, step=stop.name, call=call))
    return options


def document(choice: EditChoice, state: Json = None) -> Json:
    call = choice.call
    if call is None:
        return state
    if choice.part is EditablePart.ARGUMENTS:
        return call.arguments
    if call.error is not None:
        return {"error": {"type": call.error.type, "message": call.error.message}}
    return {"result": call.items if call.items_json is not None else call.result}


def template(choice: EditChoice, value: Json) -> str:
    """Return the initial text in the editor."""
    text = visible_lines(msgspec.json.format(encode(value), indent=2).decode())
    return "\n".join([*(f"{_COMMENT} {line}" for line in _words(choice)), text, ""])


def _words(choice: EditChoice) -> Iterator[str]:
    yield f"{visible(choice.step)}: {choice.text}."
    if choice.part is EditablePart.STATE:
        yield "You can change, add and remove keys. The agent continues with this state."
    elif choice.part is EditablePart.ARGUMENTS:
        yield "The call is made for real with these arguments."
    else:
        yield 'Either {"result": …}, what it answers, or {"error": {"type": "TimeoutError", "message": "…"}},'
        yield "what it fails with."
        if choice.call is not None and choice.call.items_json is not None:
            yield "It streams: its result is the list of its items."
    yield "Save and close to fork from here; close without a change to stay. These lines are ignored."


def parsed(text: str) -> Json:
    """Parse an edited text; a `UsageError` names the line that is not JSON."""
    # Comments become empty lines, so that errors count lines as the editor does.
    lines = ["" if line.lstrip().startswith(_COMMENT) else line for line in text.split("\n")]
    try:
        value = orjson.loads("\n".join(lines).encode("utf-8", "surrogatepass"))
        check_value_nesting(value)
        return thaw(value)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"this is not JSON: {error}") from None
    except NestedTooDeeply as error:
        raise UsageError(f"this JSON cannot be used: it is {error}") from None


def with_error(text: str, error: UsageError) -> str:
    """Return the edited text with the error in its first line."""
    rest = text.partition("\n")[2] if text.startswith(_WRONG) else text
    try:
        parsed(f"{_WRONG}\n{rest}")
    except UsageError as counted:  # parsed again, so that line numbers include the line of the error
        error = counted
    return f"{_WRONG}{short(error.message, 200)}\n{rest}"


def edits_of(choice: EditChoice, old: Json, new: Json) -> Edits | None:
    """Return the change as `Edits`; None if nothing changed. Raise `UsageError` for an impossible change."""
    if canonical(old) == canonical(new):
        return None
    if choice.part is EditablePart.STATE:
        return Edits(patch=tuple(_patch(old, new, "")))
    name = choice.call.name if choice.call is not None else None
    if choice.part is EditablePart.ARGUMENTS:
        if not isinstance(new, dict):
            raise UsageError("arguments are an object: names and values")
        return Edits(arguments=new, tool=name)
    edits = _answer_edits(new, name)
    streams = choice.call is not None and choice.call.items_json is not None
    if streams and edits.error is None and not isinstance(edits.result, list):
        raise UsageError(f"`{name}` streams: its result is a list of items")
    return edits


def _answer_edits(new: Json, name: str | None) -> Edits:
    if not isinstance(new, dict) or len(new) != 1 or next(iter(new)) not in ("result", "error"):
        raise UsageError('an answer is {"result": …} or {"error": {"type": …, "message": …}}')
    if "result" in new:
        return Edits(result=new["result"], error=None, tool=name)
    error = new["error"]
    texts = isinstance(error, dict) and error.keys() <= {"type", "message"} and error.get("type")
    if not texts or not all(isinstance(text, str) for text in error.values()):
        raise UsageError('an error is {"type": "TimeoutError", "message": "…"}')
    return Edits(result=UNSET, error=ErrorSpec(**error), tool=name)


def _patch(old: Json, new: Json, path: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON Patch from one state to the other; a list is replaced as a whole."""
    if not (_is_plain_object(old) and _is_plain_object(new)):
        if canonical(old) != canonical(new):
            yield {"op": "replace", "path": path, "value": new}
        return
    for key in old:
        place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            yield {"op": "remove", "path": place}
        else:
            yield from _patch(old[key], new[key], place)
    for key in new:
        if key not in old:
            yield {"op": "add", "path": f"{path}/{key.replace('~', '~0').replace('/', '~1')}", "value": new[key]}


def _is_plain_object(value: Json) -> bool:
    return type(value) is dict and all(type(key) is str for key in value)
