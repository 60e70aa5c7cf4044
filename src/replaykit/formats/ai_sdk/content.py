"""The content of what a model said in the AI SDK: parts of text, reasoning, calls of tools, and their results.

    {type: text | reasoning, text}                   {type: file | source, …}
    {type: tool-call, toolCallId, toolName, input, providerExecuted?}               `args` up to version 4
    {type: tool-result, toolCallId, toolName, output}                               `result` up to version 4
    {type: tool-error, toolCallId, toolName, error}

Inside of messages an output is `{type: text | json | error-text | error-json | content | execution-denied, value}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replaykit.formats.core.errors import error_of
from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.talk import UNSET, Talk, Turn
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text, joined
from replaykit.wire.model_calls import ModelAnswer, ToolUse

RESULTS = ("tool-result", "tool-error")
HIDDEN = (
    "A tool's error says nothing in JSON: write `error.message` of a tool-error, or keep `response.messages`, "
    "which have it as text."
)
_ERRORS = ("error-text", "error-json", "execution-denied")
_OUTPUTS = ("text", "json", "content", *_ERRORS)
_KNOWN_PARTS = ("text", "reasoning", "tool-call", *RESULTS)


class ToolOutcome:
    """The outcome of a call."""

    def __init__(self, content: Json, error: ErrorInfo | None = None, *, hidden: bool = False) -> None:
        self.content, self.error, self.hidden = content, error, hidden


def tell_answer(talk: Talk, content: list[Json], words: Mapping[str, Json], **details: Any) -> Turn:
    """What the model said, and the results that stand beside its calls. `words` are errors that are told elsewhere."""
    parts = as_objects(content)
    own = _own(parts)
    calls = [part for part in parts if part.get("type") == "tool-call"]
    turn = talk.answers(
        ModelAnswer(
            content=joined(as_text(part.get("text")) for part in parts if part.get("type") == "text"),
            thinking=joined(as_text(part.get("text")) for part in parts if part.get("type") == "reasoning"),
            tool_calls=tuple(use_of(part) for part in calls if as_text(part.get("toolCallId")) not in own),
            parts=tuple(part for part in parts if part.get("type") not in _KNOWN_PARTS),
        ),
        **details,
    )
    results = {as_text(part.get("toolCallId")): part for part in parts if part.get("type") in RESULTS}
    for part in calls:
        if (call_id := as_text(part.get("toolCallId"))) in own:
            found = results.get(call_id)
            if found is None:
                outcome = ToolOutcome(UNSET)
            else:
                outcome = outcome_of(found, words)
            talk.uses(turn, use_of(part), outcome.content, error=outcome.error)
    return turn


def results_in(content: list[Json]) -> Iterator[dict[str, Json]]:
    """The results of tools that the agent ran; of one that reported progress only the last."""
    parts = as_objects(content)
    own = _own(parts)
    return (
        part
        for part in parts
        if part.get("type") in RESULTS
        and part.get("preliminary") is not True
        and as_text(part.get("toolCallId")) not in own
    )


def _own(parts: list[dict[str, Json]]) -> set[str]:
    """The ids of calls that the provider made itself."""
    return {as_text(part.get("toolCallId")) for part in parts if part.get("providerExecuted") is True}


def tell_result(talk: Talk, part: dict[str, Json], words: Mapping[str, Json], **details: Any) -> bool:
    """What came of a call of a tool; True when the file hides that."""
    outcome = outcome_of(part, words)
    turn = talk.returns(
        outcome.content,
        call_id=as_text(part.get("toolCallId")),
        name=as_text(part.get("toolName")),
        failed=outcome.error is not None,
        error=outcome.error,
        **details,
    )
    if outcome.hidden:
        turn.lacks.add(Lack.HIDDEN)
    return outcome.hidden


def outcome_of(part: dict[str, Json], words: Mapping[str, Json]) -> ToolOutcome:
    """The result, or the error, of a part."""
    if part.get("type") == "tool-error":
        error = part.get("error") or words.get(as_text(part.get("toolCallId")))
        return ToolOutcome(error, spoken(error), hidden=not error)
    if "output" in part:
        output = part["output"]
    else:
        output = part.get("result")
    return ToolOutcome(output, spoken(output) if part.get("isError") is True else None)


def unwrapped(part: dict[str, Json]) -> dict[str, Json]:
    """The part of a message, its output as the tool gave it."""
    output = as_object(part.get("output"))
    if output.get("type") not in _OUTPUTS:
        return part
    value = output.get("value", output.get("reason"))
    if output["type"] in _ERRORS:
        return {**part, "type": "tool-error", "error": value or output["type"]}
    return {**part, "output": value}


def use_of(part: dict[str, Json]) -> ToolUse:
    """A call that the model asked for."""
    arguments = read_arguments(part["input"] if "input" in part else part.get("args"))
    return ToolUse(id=as_text(part.get("toolCallId")), name=as_text(part.get("toolName")), arguments=arguments)


def spoken(value: Json) -> ErrorInfo:
    """An error as JavaScript writes it: `Error: what`, or what `JSON.stringify` leaves of it."""
    if isinstance(value, str) and value.startswith("Error: "):
        return ErrorInfo(type="Error", message=value.removeprefix("Error: "))
    return error_of(value, "ToolError")
