"""Results of MCP tools, in the protocol's own form: as failures, and spoiled.

    {"content": [{"type": "text", "text": …}, …], "structuredContent": {…}, "isError": true}

What a model reads are the texts of the blocks, what a program reads is the structured content: both are spoiled.
"""

from __future__ import annotations

from collections.abc import Callable

from replaykit.handlers.chaos import answers
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, canonical, decode, raw
from replaykit.seam.scope import CallAnswer, Outcome

TIMED_OUT, CLOSED = -32001, -32000
"""The codes by which clients tell that nobody answered in time, and that the connection was closed."""

Result = dict[str, Json]
_CONTENT, _STRUCTURED, _IS_ERROR = "content", "structuredContent", "isError"


def refused(code: int, text: str) -> Outcome:
    """A JSON-RPC error in the place of a result."""
    return Outcome(error=ErrorInfo(type="McpError", message=text, attributes_json=raw({"code": code})))


def failed(text: str, payload: Json) -> Outcome:
    """The result of a tool that failed; a payload is what it has to say."""
    result = {_CONTENT: [_block(text)]} if payload is None else as_result(payload)
    return Outcome(result_json=raw({**result, _IS_ERROR: True}))


def as_result(value: Json) -> Result:
    """The value as a result: as it is where it is one."""
    if isinstance(value, dict):
        if isinstance(value.get(_CONTENT), list):
            return value
        return {_CONTENT: [_block(_text(value))], _STRUCTURED: value}
    return {_CONTENT: [_block(_text(value))]}


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
        lambda text: f"{text}\n\n{payload}" if text else payload,
        lambda value: answers.with_hidden(value, payload),
    )


def _with_longest(result: Result, edit: Callable[[str], str], inside: Callable[[Json], Json]) -> Result:
    blocks = list(result[_CONTENT])
    lengths = [-1 if (text := _text_of(block)) is None else len(text) for block in blocks]
    longest = max(lengths, default=-1)
    if longest < 0:
        blocks.append(_block(edit("")))
    else:
        index = lengths.index(longest)
        blocks[index] = _with_text(blocks[index], lambda text: edit(str(text)))
    return _structured({**result, _CONTENT: blocks}, inside)


def _structured(result: Result, change: Callable[[dict[str, Json]], Json]) -> Result:
    if not isinstance(result.get(_STRUCTURED), dict):
        return result
    return {**result, _STRUCTURED: change(result[_STRUCTURED]) or {}}


def _each(value: dict[str, Json], change: Callable[[Json], Json]) -> dict[str, Json]:
    """The members changed, and none left out: clients hold the structure against a schema."""
    return {key: change(item) if isinstance(item, str | list | dict) else item for key, item in value.items()}


def _block(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return canonical(value).decode()


def _text_of(block: Json) -> str | None:
    """The text of a block, or of the resource in it; None where it holds an image, say."""
    holder = _holder(block)
    if holder is None:
        return None
    return str(holder["text"])


def _with_text(block: Json, change: Callable[[Json], Json]) -> Json:
    holder = _holder(block)
    if holder is None:
        return block
    other = {**holder, "text": change(holder["text"])}
    if holder is block:
        return other
    return {**block, "resource": other}


def _holder(block: Json) -> dict[str, Json] | None:
    places = (block, block.get("resource")) if isinstance(block, dict) else ()
    return next((place for place in places if isinstance(place, dict) and isinstance(place.get("text"), str)), None)
