"""Event pages: everything that is known of one event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson
from msgspec.structs import replace

from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, LlmCall, Message, Note, State
from replaykit.model.values import Json, JsonObject, Raw, encode
from replaykit.viewer.messages import RequestSplitter, answer_of
from replaykit.viewer.page_types import ErrorPart, EventPage
from replaykit.viewer.rows import row_of
from replaykit.wire.json_fields import as_list, as_object, as_text

_MAX_ERRORS = 50
"""The exceptions of a chain that are shown: data may nest them as deep as it likes."""
_RELATIONS = {"__cause__": "cause", "__context__": "context"}


class EventPages:
    """Builds the pages of a run's events, which must come in order."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._splitter = RequestSplitter()

    def page(self, event: AnyEvent) -> EventPage:
        """Return the page of the next event."""
        if isinstance(event, LlmCall):
            return self._model_call(event)
        row = row_of(event, started_at=self._started_at)
        if isinstance(event, Call):
            return _call_page(event, EventPage(row=row, path=event.path, arguments=event.arguments_json))
        if isinstance(event, ErrorEvent):
            return EventPage(row=row, path=event.path, errors=error_parts(event.error))
        if isinstance(event, State):
            return EventPage(row=row, path=event.path, facts=tuple(_state_facts(event)))
        assert isinstance(event, Message | Decision | Note)
        return EventPage(row=row, path=event.path, content=event.content_json)

    def _model_call(self, call: LlmCall) -> EventPage:
        request = self._splitter.split(call)
        row = row_of(call, started_at=self._started_at, message_count=request.count)
        if not request.messages:
            return _call_page(call, EventPage(row=row, path=call.path, arguments=call.arguments_json))
        answer = (answer_of(call),) if call.result_json else ()
        page = EventPage(
            row=row,
            path=call.path,
            conversation=(*request.messages, *answer),
            options=request.options,
            tools=request.tools,
        )
        page = _call_page(call, page)
        if request.elsewhere:
            return replace(page, facts=(("earlier messages", request.elsewhere), *page.facts))
        return page


def _call_page(call: Call, page: EventPage) -> EventPage:
    return replace(
        page,
        result=call.result_json,
        items=call.items_json or (),
        pauses_ms=call.pauses_ms or (call.wire.pauses_ms if call.wire is not None else ()),
        errors=() if call.error is None else error_parts(call.error),
        facts=tuple(_call_facts(call)),
    )


def _call_facts(call: Call) -> Iterator[tuple[str, str]]:
    if call.wire is not None:
        yield "request", f"{call.wire.method} {call.wire.url}"
        if call.wire.status:
            yield "HTTP status", f"{call.wire.status} {call.wire.reason}".rstrip()
    if isinstance(call, LlmCall):
        if call.finish_reason:
            yield "finish reason", call.finish_reason
        if call.usage is not None and call.usage.input_tokens is not None:
            yield "input tokens", f"{call.usage.input_tokens:,}"
        if call.usage is not None and call.usage.output_tokens is not None:
            yield "output tokens", f"{call.usage.output_tokens:,}"
    if call.faults:
        yield "injected faults", ", ".join(call.faults)
    if call.mutated:
        yield "changed arguments", ", ".join(call.mutated)
    if call.asked_json:
        yield "the agent's own arguments", bytes(call.asked_json).decode()
    if call.sent_json:
        yield "sent into the stream", bytes(call.sent_json).decode()
    if not call.complete:
        yield "stream", "left before its end"
    if call.source is not None:
        yield "served from", f"recorded call {call.source}"


def _state_facts(state: State) -> Iterator[tuple[str, str]]:
    if state.change is not None:
        changes: tuple[tuple[str, Iterable[str]], ...] = (
            ("set", state.change.put),
            ("appended to", state.change.add),
            ("edited", state.change.cut),
            ("removed", state.change.drop),
        )
        for what, keys in changes:
            if keys:
                yield what, ", ".join(keys)
    if state.about_json:
        yield "framework", bytes(state.about_json).decode()


def error_parts(error: ErrorInfo) -> tuple[ErrorPart, ...]:
    """Return an exception, and behind it those that caused it or that it is a group of."""
    first = ErrorPart(type=_qualified(error.module, error.type), message=error.message, traceback=error.traceback or "")
    parts = [first]
    waiting = list(_related(_loaded(error.attributes_json), _loaded(error.args_json)))
    while waiting and len(parts) < _MAX_ERRORS:
        relation, content = waiting.pop(0)
        name = _qualified(as_text(content.get("module")), as_text(content.get("type")))
        parts.append(ErrorPart(type=name, message=_message(content), relation=relation))
        waiting[:0] = _related(content.get("attributes"), content.get("args"))
    return tuple(parts)


def _related(attributes: Json, arguments: Json) -> Iterator[tuple[str, JsonObject]]:
    """Yield the exceptions that belong to one, with what they are to it."""
    for name, relation in _RELATIONS.items():
        content = as_object(as_object(as_object(attributes).get(name)).get("$error"))
        if content:
            yield relation, content
    items = as_list(as_object(arguments).get("$tuple"))
    for member in as_list(items[1]) if len(items) == 2 else ():
        content = as_object(as_object(member).get("$error"))
        if content:
            yield "member", content


def _message(content: JsonObject) -> str:
    """Return the message of an exception inside another one, or else its arguments."""
    message = content.get("message")
    if isinstance(message, str):
        return message
    items = as_list(as_object(content.get("args")).get("$tuple"))
    return ", ".join(item if isinstance(item, str) else encode(item).decode() for item in items)


def _qualified(module: str, name: str) -> str:
    if module in ("", "builtins"):
        return name
    return f"{module}.{name}"


def _loaded(text: Raw) -> Json:
    if text:
        return orjson.loads(bytes(text))
    return None
