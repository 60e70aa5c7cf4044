"""Results of MCP tools in the protocol's own form: failures and corrupted results.

    {"content": [{"type": "text", "text": …}, …], "structuredContent": {…}, "isError": true}

A model reads the texts of the blocks, a program the structured content: faults change both.
"""

from __future__ import annotations

from collections.abc import Callable

from replaykit.handlers.chaos import answers
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, JsonObject, canonical, decode, raw
from replaykit.seam.scope import CallAnswer, Outcome

TIMED_OUT, CLOSED = -32001, -32000
"""The codes that clients use for a timeout and for a closed connection."""

Result = JsonObject
_CONTENT, _STRUCTURED, _IS_ERROR = "content", "structuredContent", "isError"


def refused(code: int, text: str) -> Outcome:
    """Return a JSON-RPC error instead of a result."""
    return Outcome(error=ErrorInfo(type="McpError", message=text, attributes_json=raw({"code": code})))


def failed(text: str, payload: Json) -> Outcome:
    """Return the result of a failed tool, with the payload as its message if there is one."""
    result = as_result(text if payload is None else payload)
    return Outcome(result_json=raw({**result, _IS_ERROR: True}))


def as_result(value: Json) -> Result:
    """Return the value as a result, unchanged if it is one."""
    if isinstance(value, str):
        return {_CONTENT: [_block(value)]}
    if isinstance(value, dict) and isinstance(value.get(_CONTENT), list):
        return value
    result: Result = {_CONTENT: [_block(canonical(value).decode())]}
    if isinstance(value, dict):
        result[_STRUCTURED] = value
    return result


def changed(answer: CallAnswer, change: Callable[[Result], Result]) -> Outcome | None:
    """Return the answer with its result changed; None if the tool itself failed."""
    if answer.error is not None or not answer.result_json:
        return None
    result = as_result(decode(answer.result_json))
    if result.get(_IS_ERROR):
        return None
    return Outcome(result_json=raw(change(result)), wire=answer.wire)


def malformed(result: Result) -> Result:
    """Break off every text and remove the structured content."""
    shown = {key: value for key, value in result.items() if key != _STRUCTURED}
    blocks = [_with_text(block, answers.malformed) for block in result[_CONTENT]]
    return {**shown, _CONTENT: blocks or [_block(str(answers.malformed("")))]}


def partial(result: Result) -> Result:
    """Return the first half: of several blocks, or else of the text."""
    blocks = result[_CONTENT]
    if len(blocks) > 1:
        blocks = blocks[: len(blocks) // 2]
    else:
        blocks = [_with_text(block, answers.partial) for block in blocks]
    return _structured({**result, _CONTENT: blocks}, lambda value: _each(value, answers.partial))


def empty(result: Result) -> Result:
    """Remove all blocks, and empty the members of the structured content."""
    return _structured({**result, _CONTENT: []}, lambda value: _each(value, answers.empty))


def saying(result: Result, payload: str) -> Result:
    """Replace the longest text by the payload."""
    return _with_longest(result, lambda _: payload, lambda value: answers.saying(value, payload))


def with_hidden(result: Result, payload: str) -> Result:
    """Append the payload to the longest text."""
    return _with_longest(
        result,
        lambda text: answers.behind(text, payload),
        lambda value: answers.with_hidden(value, payload),
    )


def _with_longest(result: Result, edit: Callable[[str], str], inside: Callable[[Json], Json]) -> Result:
    blocks = list(result[_CONTENT])
    lengths = {index: len(holder["text"]) for index, block in enumerate(blocks) if (holder := _holder(block))}
    if lengths:
        index = max(lengths, key=lengths.__getitem__)
        blocks[index] = _with_text(blocks[index], edit)
    else:
        blocks.append(_block(edit("")))
    return _structured({**result, _CONTENT: blocks}, inside)


def _structured(result: Result, change: Callable[[JsonObject], Json]) -> Result:
    if not isinstance(result.get(_STRUCTURED), dict):
        return result
    return {**result, _STRUCTURED: change(result[_STRUCTURED]) or {}}


def _each(value: JsonObject, change: Callable[[Json], Json]) -> JsonObject:
    """Change the members but keep them all: clients validate the structured content against a schema."""
    changed = dict(value)
    for key, item in value.items():
        if isinstance(item, str | list | dict):
            changed[key] = change(item)
    return changed


def _block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _with_text(block: Json, change: Callable[[Json], Json]) -> Json:
    holder = _holder(block)
    if holder is None:
        return block
    other = {**holder, "text": change(holder["text"])}
    if holder is block:
        return other
    return {**block, "resource": other}


def _holder(block: Json) -> JsonObject | None:
    """Return the object that holds the text of a block: the block or its resource; None for an image, for example."""
    if not isinstance(block, dict):
        return None
    for holder in (block, block.get("resource")):
        if isinstance(holder, dict) and isinstance(holder.get("text"), str):
            return holder
    return None
