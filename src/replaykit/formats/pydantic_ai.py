"""Pydantic AI's messages, as `result.all_messages_json()` writes them: requests and responses in turn.

    {kind: request, parts: [system-prompt | user-prompt | tool-return | retry-prompt], instructions, timestamp, run_id}
    {kind: response, parts: [text | thinking | tool-call | builtin-tool-call | builtin-tool-return | file], usage,
     model_name, finish_reason, timestamp, run_id}

A history that goes on over several runs of an agent has all of them; each `run_id` is a run, with what was said before
it as its history. A file holds a list of messages, or a message or such a list on each line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.items import TraceItem, first_items, items_of, mostly, nothing_of
from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.members import count_in, objects_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, Turn, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_object, as_objects, as_text, joined
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "pydantic_ai"
_KINDS = ("request", "response")
_FAILED = {"retried": "ModelRetry", "failed": "ToolError", "denied": "ToolDenied"}
"""What became of a call, with the type of its error; anything else than these and success is an error as well."""
_OUTPUT_TOOL = "final_result"
_DONE = "Final result processed."
_EXPECTED = "expected messages of Pydantic AI: objects with `kind` (request or response) and `parts`"


class PydanticAiImporter:
    """Reads the messages of Pydantic AI."""

    name = FORMAT
    title = "Pydantic AI: `all_messages_json()`"

    def recognises(self, source: Source) -> bool:
        return mostly(_is_message, _flat(first_items(source)))

    def read(self, source: Source) -> Iterator[Found]:
        if not any(map(_is_message, _flat(first_items(source)))):
            raise nothing_of(source, _EXPECTED)
        messages: list[TraceItem] = []
        for item in items_of(source):
            if isinstance(item, TraceItem) and isinstance(item.value, list):
                inner: list[TraceItem] = []
                members = (TraceItem(item.source, member, (*item.path, at)) for at, member in enumerate(item.value))
                yield from _sorted_out(members, inner)
                yield from _runs(inner)
            else:
                yield from _sorted_out([item], messages)
        yield from _runs(messages)


IMPORTERS.register(FORMAT)(PydanticAiImporter())


def _sorted_out(items: Iterable[TraceItem | InvalidFile], messages: list[TraceItem]) -> Iterator[Found]:
    """Adds those that are messages, and says what is wrong with the others."""
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif _is_message(item.value):
            messages.append(item)
        else:
            yield item.error(_EXPECTED)


def _flat(values: list[Json]) -> list[Json]:
    return [member for value in values for member in (value or [None] if isinstance(value, list) else [value])]


def _is_message(value: Json) -> bool:
    message = as_object(value)
    parts = objects_in(message, "parts")
    return (
        message.get("kind") in _KINDS
        and isinstance(message.get("parts"), list)
        and all("part_kind" in p for p in parts)
    )


class _Share(Struct):
    """The messages of one run, and those before it."""

    run_id: str
    before: Sequence[TraceItem]
    messages: list[TraceItem]


def _runs(items: Sequence[TraceItem]) -> Iterator[Found]:
    shares: dict[str, _Share] = {}
    run_id = next((found for item in items if (found := as_text(value_in(item.value, "run_id")))), "")
    for place, item in enumerate(items):
        run_id = as_text(value_in(item.value, "run_id")) or run_id  # what has none goes with the one before it
        shares.setdefault(run_id, _Share(run_id, items[:place], [])).messages.append(item)
    for share in shares.values():
        try:
            yield _run(share)
        except InvalidFile as problem:
            yield problem


def _run(share: _Share) -> TraceRun:
    values = [item.value for item in share.messages]
    teller = _HistoryBuilder()
    teller.remember(share.before)
    for item in share.messages:
        teller.tell(item)
    return teller.talk.run(
        id=share.run_id or content_id(FORMAT, encode(values)),
        format=FORMAT,
        input=teller.prompt,
        output=teller.result,
        metadata=teller.metadata,
    )


class _HistoryBuilder:
    """Tells a conversation message by message."""

    def __init__(self) -> None:
        self.talk = Talk()
        self.prompt: Json = UNSET
        self.result: Json = UNSET
        """What the agent gave, where it gave it through a call."""
        self.metadata: dict[str, Json] = {}
        self._since = 0.0
        self._arguments: dict[str, Json] = {}

    def remember(self, items: Sequence[TraceItem]) -> None:
        """The messages of earlier runs: part of what is said, but no calls of this one."""
        messages: list[dict[str, Json]] = []
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

    def tell(self, item: TraceItem) -> None:
        """One message."""
        fields = item.fields(_EXPECTED)
        if fields.required_text("kind") == "request":
            self._tell_request(fields)
        else:
            self._tell_response(fields)
        for name in ("conversation_id", "metadata", "provider_name"):
            if fields.value.get(name) is not None:
                self.metadata[name] = fields.take(name)

    def _tell_request(self, fields: Fields) -> None:
        self.result = UNSET
        self.talk.instructs(fields.text("instructions"))
        at = fields.time("timestamp")
        for part in parts_of(fields):
            self._since = part.time("timestamp") or self._since
            self._tell_asked(part)
        self._since = at or self._since

    def _tell_asked(self, part: Fields) -> None:
        kind, content = part.required_text("part_kind"), part.take("content")
        if kind == "tool-return":
            self._tell_return(part, content)
        elif kind == "retry-prompt" and part.text("tool_name"):
            self._tell_return(part, content, outcome="retried")
        elif kind == "system-prompt":
            self.talk.says("system", content)
        elif kind in ("user-prompt", "retry-prompt"):
            if self.prompt is UNSET and kind == "user-prompt":
                self.prompt = content
            else:
                self.prompt = self.prompt
            self.talk.says("user", content)
        else:
            self.talk.notes(kind, part.take_all(), at=self._since)

    def _tell_return(self, part: Fields, content: Json, outcome: str | None = None) -> None:
        call_id, name = part.text("tool_call_id") or "", part.text("tool_name") or ""
        outcome = outcome or part.text("outcome")
        if name.startswith(_OUTPUT_TOOL) and content == _DONE:
            self.result = self._arguments.get(call_id, UNSET)
        if call_id in self._arguments and self.talk.turn_of(call_id) is None:  # asked for in an earlier run
            self.talk.calls(ToolUse(id=call_id, name=name, arguments=self._arguments[call_id]), at=self._since)
        if outcome in (None, "success"):
            error = None
        else:
            error = error_in(content, _FAILED.get(outcome, "ToolError"))
        if outcome is None:
            failed = None
        else:
            failed = error is not None
        self.talk.returns(content, call_id=call_id, name=name, failed=failed, error=error, at=self._since)
        if part.value.get("metadata") is not None:
            result = {"tool_call_id": call_id, "name": name, "metadata": part.take("metadata")}
            self.talk.notes("metadata", result, at=self._since)

    def _tell_response(self, fields: Fields) -> None:
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
            complete=fields.text("state") in (None, "complete"),
        )
        self._since = ended
        self._tell_own(turn, parts)
        if fields.value.get("failed_attempts"):
            self.talk.notes("failed_attempts", fields.take("failed_attempts"), at=ended)

    def _tell_own(self, turn: Turn, parts: list[Fields]) -> None:
        """The calls of tools that the provider ran while the model answered."""
        returned = {part.text("tool_call_id"): part for part in of_kind(parts, *OWN_RETURNS)}
        for part in of_kind(parts, *OWN_CALLS):
            use, found = use_of(part), returned.get(part.text("tool_call_id"))
            if found is None:
                outcome = None
            else:
                outcome = found.text("outcome")
            failed = outcome not in (None, "success")
            self.talk.uses(turn, use, UNSET if found is None else found.take("content"), failed=failed)


OWN_CALLS = ("builtin-tool-call", "native-tool-call")
OWN_RETURNS = ("builtin-tool-return", "native-tool-return")
"""Of tools that the provider runs."""
_KNOWN_PARTS = ("text", "thinking", "tool-call", *OWN_CALLS, *OWN_RETURNS)
_INPUTS, _OUTPUTS = ("input_tokens", "request_tokens"), ("output_tokens", "response_tokens")


def parts_of(fields: Fields) -> list[Fields]:
    """The parts of a message."""
    values = enumerate(fields.items("parts"))
    return [
        Fields(fields.source, value, (*fields.path, "parts", index), "a part of a message") for index, value in values
    ]


def of_kind(parts: list[Fields], *kinds: str) -> Iterator[Fields]:
    """Those of these kinds."""
    return (part for part in parts if part.value.get("part_kind") in kinds)


def answer_of(parts: list[Fields]) -> ModelAnswer:
    """What a response says."""
    return ModelAnswer(
        content=joined(part.text("content") or "" for part in of_kind(parts, "text")),
        tool_calls=tuple(map(use_of, of_kind(parts, "tool-call"))),
        thinking=joined(part.text("content") or "" for part in of_kind(parts, "thinking")),
        parts=tuple(part.value for part in parts if part.required_text("part_kind") not in _KNOWN_PARTS),
    )


def use_of(part: Fields) -> ToolUse:
    """A call that is asked for."""
    arguments = read_arguments(part.take("args"))
    return ToolUse(id=part.text("tool_call_id") or "", name=part.text("tool_name") or "", arguments=arguments)


def plain(part: Fields) -> dict[str, Json]:
    """A part of an earlier request, as a message."""
    kind, content = part.required_text("part_kind"), part.take("content")
    if kind == "tool-return" or (kind == "retry-prompt" and part.text("tool_name")):
        return {"role": "tool", "content": content, "tool_call_id": part.text("tool_call_id") or ""}
    return {"role": "system" if kind == "system-prompt" else "user", "content": content}


def error_in(content: Json, kind: str) -> ErrorInfo:
    """What went wrong: a text, or what Pydantic's validation says of each value."""
    problems = [
        f"{text_in(problem, 'msg')} at {encode(problem.get('loc')).decode()}" for problem in as_objects(content)
    ]
    return error_of("; ".join(problems) or content, kind)


def usage_in(counts: dict[str, Json]) -> Usage | None:
    """Tokens and money: input tokens count cached ones in."""
    usage = Usage(
        input_tokens=next((found for name in _INPUTS if (found := count_in(counts, name)) is not None), None),
        output_tokens=next((found for name in _OUTPUTS if (found := count_in(counts, name)) is not None), None),
        cost_usd=_cost(counts.get("cost")),
    )
    if usage == Usage():
        return None
    return usage


def _cost(value: Json) -> float | None:
    """Dollars: a number, or a decimal as text."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            amount = float(value)
        else:
            amount = math.nan
    except (ValueError, OverflowError):
        return None
    if math.isfinite(amount) and amount >= 0:
        return amount
    return None
