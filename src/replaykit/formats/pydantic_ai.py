"""Pydantic AI's messages from `result.all_messages_json()`: requests and responses in turn.

    {kind: request, parts: [system-prompt | user-prompt | tool-return | retry-prompt], instructions, timestamp, run_id}
    {kind: response, parts: [text | thinking | tool-call | builtin-tool-call | builtin-tool-return | file], usage,
     model_name, finish_reason, timestamp, run_id}

A history may span several runs of an agent. Each `run_id` becomes a run, with all messages before it as history. A file
holds a list of messages, or a message or such a list on each line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from replaykit.formats.core.fields import Fields, TraceItem, error_of
from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.registry import (
    Found,
    collect,
    first_items,
    items_of,
    mostly,
    nothing_of,
    read_each,
    register_format,
)
from replaykit.formats.core.replayability import stated_usage
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, Turn, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import as_objects, count_in, has_list, joined, text_in, value_in
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "pydantic_ai"
_KINDS = ("request", "response")
# Error types by the outcome of a call; outcomes that are not listed are errors, too, except success.
_FAILED = {"retried": "ModelRetry", "failed": "ToolError", "denied": "ToolDenied"}
_OUTPUT_TOOL = "final_result"
_DONE = "Final result processed."
_EXPECTED = "expected messages of Pydantic AI: objects with `kind` (request or response) and `parts`"


def _read_file(source: Source) -> Iterator[Found]:
    if not any(map(_is_message, _flat(first_items(source)))):
        raise nothing_of(source, _EXPECTED)
    messages: list[TraceItem] = []
    for item in items_of(source):
        if isinstance(item, TraceItem) and isinstance(item.value, list):
            inner: list[TraceItem] = []
            yield from collect(item.members(), _checked, inner)
            yield from _runs(inner)
        else:
            yield from collect([item], _checked, messages)
    yield from _runs(messages)


register_format(
    FORMAT,
    "Pydantic AI: `all_messages_json()`",
    lambda source: mostly(_is_message, _flat(first_items(source))),
    _read_file,
)


def _checked(item: TraceItem) -> TraceItem:
    if not _is_message(item.value):
        raise item.error(_EXPECTED)
    return item


def _flat(values: list[Json]) -> list[Json]:
    found: list[Json] = []
    for value in values:
        if isinstance(value, list):
            found += value or [None]
        else:
            found.append(value)
    return found


def _is_message(value: Json) -> bool:
    if value_in(value, "kind") not in _KINDS or not has_list(value, "parts"):
        return False
    return all("part_kind" in part for part in as_objects(value["parts"]))


class _Share(Struct):
    """The messages of one run, and all before them."""

    run_id: str
    before: Sequence[TraceItem]
    messages: list[TraceItem]


def _runs(items: Sequence[TraceItem]) -> Iterator[Found]:
    shares: dict[str, _Share] = {}
    ids = [text_in(item.value, "run_id") for item in items]
    run_id = next(filter(None, ids), "")
    for place, item in enumerate(items):
        run_id = ids[place] or run_id  # a message without an id belongs to the run of the one before
        shares.setdefault(run_id, _Share(run_id, items[:place], [])).messages.append(item)
    yield from read_each(shares.values(), _run)


def _run(share: _Share) -> TraceRun:
    values = [item.value for item in share.messages]
    builder = _HistoryBuilder()
    builder.remember(share.before)
    for item in share.messages:
        builder.add(item)
    return builder.talk.run(
        id=share.run_id or content_id(FORMAT, encode(values)),
        format=FORMAT,
        input=builder.prompt,
        output=builder.result,
        metadata=builder.metadata,
    )


class _HistoryBuilder:
    """Builds a conversation message by message."""

    def __init__(self) -> None:
        self.talk = Talk()
        self.prompt: Json = UNSET
        self.result: Json = UNSET
        """The agent's output, if it was given through a call."""
        self.metadata: JsonObject = {}
        self._since = 0.0
        self._arguments: JsonObject = {}

    def remember(self, items: Sequence[TraceItem]) -> None:
        """Add messages of earlier runs: part of the conversation, but not calls of this run."""
        messages: list[JsonObject] = []
        for item in items:
            fields = item.fields(_EXPECTED)
            parts = parts_of(fields)
            if fields.value["kind"] == "response":
                answer = answer_of(parts)
                messages.append(answer.message)
                self._arguments |= {use.id: use.arguments for use in answer.tool_calls}
            else:
                self.talk.instructs(fields.text("instructions"))
                messages.extend(map(plain, parts))
        self.talk.catches_up(messages)

    def add(self, item: TraceItem) -> None:
        """Add one message."""
        fields = item.fields(_EXPECTED)
        if fields.required_text("kind") == "request":
            self._add_request(fields)
        else:
            self._add_response(fields)
        for name in ("conversation_id", "metadata", "provider_name"):
            if fields.value.get(name) is not None:
                self.metadata[name] = fields.take(name)

    def _add_request(self, fields: Fields) -> None:
        self.result = UNSET
        self.talk.instructs(fields.text("instructions"))
        at = fields.time("timestamp")
        for part in parts_of(fields):
            self._since = part.time("timestamp") or self._since
            self._add_request_part(part)
        self._since = at or self._since

    def _add_request_part(self, part: Fields) -> None:
        kind, content = part.required_text("part_kind"), part.take("content")
        if kind == "tool-return":
            self._add_result(part, content, part.text("outcome"))
        elif kind == "retry-prompt" and part.text("tool_name"):
            # With a tool's name, the prompt reports its failure; without one, it asks the model for another answer.
            self._add_result(part, content, "retried")
        elif kind == "system-prompt":
            self.talk.says("system", content)
        elif kind in ("user-prompt", "retry-prompt"):
            if self.prompt is UNSET and kind == "user-prompt":
                self.prompt = content
            self.talk.says("user", content)
        else:
            self.talk.notes(kind, part.take_all(), at=self._since)

    def _add_result(self, part: Fields, content: Json, outcome: str | None) -> None:
        call_id, name = part.text("tool_call_id") or "", part.text("tool_name") or ""
        if name.startswith(_OUTPUT_TOOL) and content == _DONE:
            self.result = self._arguments.get(call_id, UNSET)
        if call_id in self._arguments and self.talk.turn_of(call_id) is None:  # requested in an earlier run
            self.talk.calls(ToolUse(id=call_id, name=name, arguments=self._arguments[call_id]), at=self._since)
        error, failed = None, None
        if outcome is not None:
            failed = outcome != "success"
        if outcome is not None and failed:
            error = error_in(content, _FAILED.get(outcome, "ToolError"))
        self.talk.returns(content, call_id=call_id, name=name, failed=failed, error=error, at=self._since)
        if part.value.get("metadata") is not None:
            result = {"tool_call_id": call_id, "name": name, "metadata": part.take("metadata")}
            self.talk.notes("metadata", result, at=self._since)

    def _add_response(self, fields: Fields) -> None:
        parts = parts_of(fields)
        answer = answer_of(parts)
        self._arguments |= {use.id: use.arguments for use in answer.tool_calls}
        reason = text_in(fields.object("provider_details"), "finish_reason")
        ended = fields.time("timestamp") or self._since
        since = min(self._since or ended, ended)
        turn = self.talk.answers(
            answer,
            model=fields.text("model_name") or "",
            usage=usage_in(fields.object("usage")),
            finish_reason=fields.text("finish_reason") or reason or None,
            at=since,
            duration_s=ended - since,
            complete=fields.text("state") in (None, "complete"),  # earlier versions write no state
        )
        self._since = ended
        self._add_provider_calls(turn, parts)
        if fields.value.get("failed_attempts"):
            self.talk.notes("failed_attempts", fields.take("failed_attempts"), at=ended)

    def _add_provider_calls(self, turn: Turn, parts: list[Fields]) -> None:
        """Add the calls of tools that the provider ran while the model answered."""
        returned = {part.text("tool_call_id"): part for part in of_kind(parts, *PROVIDER_RESULTS)}
        for part in of_kind(parts, *PROVIDER_CALLS):
            use, found = use_of(part), returned.get(part.text("tool_call_id"))
            if found is None:
                self.talk.uses(turn, use)
            else:
                failed = found.text("outcome") not in (None, "success")
                self.talk.uses(turn, use, found.take("content"), failed=failed)


PROVIDER_CALLS = ("builtin-tool-call", "native-tool-call")
PROVIDER_RESULTS = ("builtin-tool-return", "native-tool-return")
"""Parts about tools that the provider runs."""
_KNOWN_PARTS = ("text", "thinking", "tool-call", *PROVIDER_CALLS, *PROVIDER_RESULTS)
_INPUTS, _OUTPUTS = ("input_tokens", "request_tokens"), ("output_tokens", "response_tokens")


def parts_of(fields: Fields) -> list[Fields]:
    return list(fields.each("parts", "a part of a message"))


def of_kind(parts: list[Fields], *kinds: str) -> Iterator[Fields]:
    """Yield the parts of these kinds."""
    return (part for part in parts if part.value.get("part_kind") in kinds)


def answer_of(parts: list[Fields]) -> ModelAnswer:
    """Return the answer in a response."""
    return ModelAnswer(
        content=joined(part.text("content") or "" for part in of_kind(parts, "text")),
        tool_calls=tuple(map(use_of, of_kind(parts, "tool-call"))),
        thinking=joined(part.text("content") or "" for part in of_kind(parts, "thinking")),
        parts=tuple(part.value for part in parts if part.required_text("part_kind") not in _KNOWN_PARTS),
    )


def use_of(part: Fields) -> ToolUse:
    """Return a requested call."""
    arguments = read_arguments(part.take("args"))
    return ToolUse(id=part.text("tool_call_id") or "", name=part.text("tool_name") or "", arguments=arguments)


def plain(part: Fields) -> JsonObject:
    """Return a part of an earlier request as a message."""
    kind, content = part.required_text("part_kind"), part.take("content")
    if kind == "tool-return" or (kind == "retry-prompt" and part.text("tool_name")):
        return {"role": "tool", "content": content, "tool_call_id": part.text("tool_call_id") or ""}
    return {"role": "system" if kind == "system-prompt" else "user", "content": content}


def error_in(content: Json, kind: str) -> ErrorInfo:
    """Return the error in a text, or in a list of validation errors."""
    problems = [
        f"{text_in(problem, 'msg')} at {encode(problem.get('loc')).decode()}" for problem in as_objects(content)
    ]
    return error_of("; ".join(problems) or content, kind)


def usage_in(counts: JsonObject) -> Usage | None:
    """Return tokens and cost; input tokens include cached ones."""
    return stated_usage(count_in(counts, *_INPUTS), count_in(counts, *_OUTPUTS), _cost(counts.get("cost")))


def _cost(value: Json) -> float | None:
    """Return dollars from a number, or a decimal as text."""
    if type(value) not in (str, int, float):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    if math.isfinite(amount) and amount >= 0:
        return amount
    return None
