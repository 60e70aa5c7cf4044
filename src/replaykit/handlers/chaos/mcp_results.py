"""Results of MCP tools, in the protocol's own form: as failures, and spoiled.

    {"content": [{"type": "text", "text": …}, …], "structuredContent": {…}, "isError": true}

What a model reads are the texts of the blocks, what a program reads is the structured content: both are spoiled.
"""

from __future__ import annotations

from collections.abc import Callable

from replaykit.handlers.chaos import answers
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, JsonObject, canonical, decode, raw
from replaykit.seam.scope import CallAnswer, Outcome

TIMED_OUT, CLOSED = -32001, -32000
"""The codes by which clients tell that nobody answered in time, and that the connection was closed."""

Result = JsonObject
_CONTENT, _STRUCTURED, _IS_ERROR = "content", "structuredContent", "isError"


def refused(code: int, text: str) -> Outcome:
    """A JSON-RPC error in the place of a result."""
    return Outcome(error=ErrorInfo(type="McpError", message=text, attributes_json=raw({"code": code})))


def failed(text: str, payload: Json) -> Outcome:
    """The result of a tool that failed; a payload is what it has to say."""
    result = as_result(text if payload is None else payload)
    return Outcome(result_json=raw({**result, _IS_ERROR: True}))


def as_result(value: Json) -> Result:
    """The value as a result: as it is where it is one."""
    if isinstance(value, str):
        return {_CONTENT: [_block(value)]}
    if isinstance(value, dict) and isinstance(value.get(_CONTENT), list):
        return value
    result: Result = {_CONTENT: [_block(canonical(value).decode())]}
    if isinstance(value, dict):
        result[_STRUCTURED] = value
    return result


def changed(answer: CallAnswer, change: Callable[[Result], Result]) -> Outcome | None:
    """The answer with its result changed; None where the tool failed by itself."""
    if answer.error is not None or not answer.result_json:
        return None
    result = as_result(decode(answer.result_json))
    if result.get(_IS_ERROR):
        return None
    return Outcome(result_json=raw(change(result)), wire=answer.wire)


def malformed(result: Result) -> Result:
    """Every text broken off, and no structure any more."""
    shown = {key: value for key, value in result.items() if key != _STRUCTURED}
    blocks = [_with_text(block, answers.malformed) for block in result[_CONTENT]]
    return {**shown, _CONTENT: blocks or [_block(str(answers.malformed("")))]}


def partial(result: Result) -> Result:
    """The first half: of the blocks where there are several, or else of the text."""
    blocks = result[_CONTENT]
    if len(blocks) > 1:
        blocks_left = blocks[: len(blocks) // 2]
    else:
        blocks_left = [_with_text(block, answers.partial) for block in blocks]
    return _structured({**result, _CONTENT: blocks_left}, lambda value: _each(value, answers.partial))


def empty(result: Result) -> Result:
    """No block, and nothing in the members of the structure."""
    return _structured({**result, _CONTENT: []}, lambda value: _each(value, answers.empty))


def saying(result: Result, payload: str) -> Result:
    """The longest text replaced by the payload."""
    return _with_longest(result, lambda _: payload, lambda value: answers.saying(value, payload))


def with_hidden(result: Result, payload: str) -> Result:
    """The payload behind the longest text."""
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
    """Return the members changed, and none left out: clients hold the structure against a schema."""
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
    """Return what holds the text of a block: the block, or the resource in it; None where it holds an image, say."""
    if not isinstance(block, dict):
        return None
    for holder in (block, block.get("resource")):
        if isinstance(holder, dict) and isinstance(holder.get("text"), str):
            return holder
    return None
