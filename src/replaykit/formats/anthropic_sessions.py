"""Sessions of Anthropic's managed agents: the events that `sessions.events` streams or lists.

    {type: session, id, agent: {name, model: {id}, system, tools}}          if the session was logged, too
    {type: user.message | agent.message, id, processed_at, content}         {type: span.model_request_start, …}
    {type: agent.tool_use | agent.mcp_tool_use | agent.custom_tool_use, id, name, input}
    {type: agent.tool_result | agent.mcp_tool_result | user.custom_tool_result, tool_use_id, content, is_error}
    {type: span.model_request_end, model_usage, is_error}                   {type: session.error, error}

One on each line, in a list, in `{data: […]}`, or each after the name of the call that returned it. Everything that the
agent does in one model request is one answer. Events that were sent come back in the stream, and are read there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.exchanges import text_or_parts
from replaykit.formats.core.fields import Fields, error_of
from replaykit.formats.core.registry import Found, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import Talk, Turn, content_id
from replaykit.model.events import ErrorInfo
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, encode
from replaykit.wire.anthropic import DIALECT
from replaykit.wire.json_fields import as_object, as_text, has_list, joined, object_in, objects_in, text_in
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "anthropic_sessions"

_EVENT = re.compile(r"(?:user|agent|session|span)\.[a-z_.]+")
_CALLED = "client.beta.sessions."
_PAIR = 2
_ADVICE = ("Log the session that `sessions.create` returns too: it has the agent's model, instructions and tools.",)


def _read_file(source: Source) -> Iterator[Found]:
    session = _ManagedSession()
    for document in source.documents():
        try:
            items = list(_unwrapped(document.value))
        except InvalidFile as problem:
            yield problem
            continue
        for item in items:
            if not _is_ours(item):
                yield document.error("expected an event of a session: an object with `type`")
                continue
            if item["type"] == "session" and session.begun:
                yield session.run()
                session = _ManagedSession()
            try:
                session.take(Fields(document, item))
            except InvalidFile as problem:
                yield problem
    if session.begun:
        yield session.run()


register_format(
    FORMAT,
    "Anthropic managed agents: the events of a session",
    lambda source: any(_is_ours(item) for value in source.first for item in _unwrapped(value)),
    _read_file,
)


def _unwrapped(value: Json) -> Iterator[Json]:
    """Yield the events of a document; skip those that were sent, since the stream repeats them."""
    if isinstance(value, list) and len(value) == _PAIR and as_text(value[0]).startswith(_CALLED):
        if isinstance(value[1], dict):
            yield value[1]
    elif isinstance(value, list):
        yield from value
    elif has_list(value, "data"):
        yield from value["data"]
    else:
        yield value


def _is_ours(item: Json) -> bool:
    body = as_object(item)
    kind = text_in(body, "type")
    if kind == "session":
        return "agent" in body
    return bool(_EVENT.fullmatch(kind)) and "id" in body


class _ManagedSession:
    """A session that is being read."""

    def __init__(self) -> None:
        self.begun = False
        self._talk = Talk()
        self._id = self._agent = self._model = ""
        self._texts: list[str] = []
        self._uses: list[ToolUse] = []
        self._since = 0.0
        self._last: Turn | None = None
        self._error: ErrorInfo | None = None
        self._events: list[Json] = []

    def take(self, event: Fields) -> None:
        """Add the next event; unknown kinds are ignored."""
        self.begun = True
        kind, at = event.required_text("type"), event.time("processed_at") or 0.0
        self._events.append(event.value)
        if kind == "session":
            self._begin(event)
        elif kind == "span.model_request_start":
            self._since = at
        elif kind == "span.model_request_end":
            self._answer(event, at)
        elif kind == "agent.message":
            self._texts.append(joined((text_in(part, "text") for part in event.items("content")), "\n") or "")
        elif kind.endswith("tool_use"):
            use = ToolUse(id=event.text("id") or "", name=event.text("name") or "", arguments=event.object("input"))
            self._uses.append(use)
        elif kind.endswith("tool_result"):
            self._add_answer(at)
            call_id = event.text("tool_use_id", "mcp_tool_use_id", "custom_tool_use_id") or ""
            content = text_or_parts(event.take("content"))
            self._talk.returns(content, call_id=call_id, failed=event.flag("is_error"), at=at)
        elif kind == "user.message":
            self._add_answer(at)
            self._talk.says("user", text_or_parts(event.take("content")))
            self._error = None
        elif kind == "session.error":
            self._error = error_of(event.take("error"), "SessionError")
            self._talk.fails(self._error, at=at)
        elif kind in ("user.tool_confirmation", "user.interrupt"):
            self._talk.notes(kind, event.value, at=at)

    def run(self) -> TraceRun:
        """Return the session as a run."""
        self._add_answer(self._since)
        return self._talk.run(
            id=self._id or content_id(FORMAT, encode(self._events)),
            format=FORMAT,
            agent=self._agent,
            error=self._error,
            advice=_ADVICE,
        )

    def _begin(self, event: Fields) -> None:
        agent = event.object("agent")
        self._id, self._agent = event.text("id") or "", text_in(agent, "name")
        self._model = text_in(object_in(agent, "model"), "id") or text_in(agent, "model")
        self._talk.instructs(agent.get("system"))
        self._talk.offers(objects_in(agent, "tools"))

    def _answer(self, event: Fields, at: float) -> None:
        """End a model request: its usage belongs to the answer added now or before."""
        turn = self._add_answer(at, failed=event.flag("is_error")) or self._last
        response = DIALECT.read_response({"content": [], "usage": event.object("model_usage")})
        if turn is not None:
            turn.fields["usage"] = response.usage

    def _add_answer(self, at: float, *, failed: bool = False) -> Turn | None:
        """Add the answer gathered so far, if any."""
        if not (self._texts or self._uses or failed):
            return None
        self._last = self._talk.answers(
            None if failed else ModelAnswer(content=joined(self._texts, "\n"), tool_calls=tuple(self._uses)),
            model=self._model,
            error=ErrorInfo(type="ModelError", message="the request of the model failed") if failed else None,
            at=self._since or at,
            duration_s=max(0.0, at - self._since) if self._since else 0.0,
        )
        self._texts, self._uses = [], []
        return self._last
