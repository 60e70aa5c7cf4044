"""Sessions: the lines of a file by the session they belong to, and what is said of each beside its conversation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.claude_code.conversation import ClaudeRequest
from replaykit.formats.claude_code.lines import METADATA, SPOKEN, TYPES, SessionLine, line_in
from replaykit.formats.core.fields import time_in
from replaykit.formats.core.source import Source
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text, without

_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_MAX_TITLE = 100
_NAMED = {"summary": "leafUuid", "file-history-snapshot": "messageId"}
"""What names the place of a line that does not name its session."""


class ClaudeSession:
    """What a file holds of one session. One that went on under another id is the same."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.lines: list[SessionLine] = []
        self.metadata: dict[str, Json] = {}
        self.version = ""
        self.titles: dict[str, str] = {}
        self.requests: dict[str, ClaudeRequest] = {}
        self._shapes: dict[str, dict[str, Json]] = {}

    @property
    def title(self) -> str:
        """What the user, Claude Code or a summary calls it."""
        title = next((self.titles[kind] for kind in reversed(_TITLES) if kind in self.titles), "")
        return textwrap.shorten(title, _MAX_TITLE, placeholder="…")

    def note(self, value: dict[str, Json]) -> None:
        """What a line says that is no part of the conversation."""
        kind = as_text(value.get("type"))
        self.version = as_text(value.get("version")) or self.version
        self.metadata |= {name: value[key] for key, name in METADATA.items() if isinstance(value.get(key), str)}
        if kind in _TITLES:
            self.titles[kind] = as_text(value.get(_TITLES[kind]))
        elif kind == "api-request-shape":
            self._shapes[as_text(value.get("shapeHash"))] = as_object(value.get("shape"))
        elif kind == "api-request":
            self.requests[as_text(value.get("id"))] = self._request(value)
        elif kind == "cost-state":
            self.metadata |= {"cost_usd": value.get("totalCostUSD"), "model_usage": value.get("modelUsage")}

    def _request(self, value: dict[str, Json]) -> ClaudeRequest:
        shape = self._shapes.get(as_text(value.get("shapeHash")), {})
        return ClaudeRequest(
            at=time_in(value.get("timestamp")),
            system=shape.get("system"),
            tools=shape.get("tools"),
            parameters=without(as_object(value.get("params")), "model", "betas"),
        )


class SessionReading:
    """Reads a file line by line into its sessions."""

    def __init__(self) -> None:
        self.sessions: dict[str, ClaudeSession] = {}
        self.unknown = 0
        """How many lines are none of a session."""
        self.silent = 0
        """How many messages say nothing."""
        self._session_of: dict[str, ClaudeSession] = {}
        """By the id of each line."""
        self._latest: ClaudeSession | None = None
        """The session that was spoken of last: logs that somebody has shortened name it only once."""
        self._count = 0

    def read(self, source: Source) -> Iterator[InvalidFile]:
        """The lines of a file; yields what is wrong with those that cannot be read."""
        for document in source.documents():
            try:
                value = document.value
            except InvalidFile as problem:
                yield problem
                continue
            self._count += 1
            if is_line(value) or (self._latest is not None and _is_message(value)):
                self._add(value)
            else:
                self.unknown += 1

    def _add(self, value: dict[str, Json]) -> None:
        line = line_in(value, self._count)
        session = self._session(line, as_text(value.get("leafUuid")))
        if session is None:  # a summary, such as of another file's session, is worth no word
            self.unknown += line.kind in TYPES
            return
        self._latest = session
        session.note(value)
        self.silent += line.kind in SPOKEN and not line.blocks
        if line.uuid or line.message:
            session.lines.append(line)
            self._session_of.setdefault(line.uuid, session)

    def _session(self, line: SessionLine, leaf: str) -> ClaudeSession | None:
        """The session of the line it follows, so that one that was resumed is whole; else the one that it names."""
        if line.is_side:
            found = None
        else:
            found = self._session_of.get(line.parent)
        found = found or self.sessions.get(line.session) or self._session_of.get(leaf)
        if found is None and line.session:
            found = ClaudeSession(line.session)
        if found is None and line.message:
            found = self._latest
        if found is not None and line.session:
            self.sessions.setdefault(line.session, found)
        return found


def is_line(value: Json) -> bool:
    """True for a line that Claude Code writes, of whatever type."""
    kind = as_text(as_object(value).get("type"))
    return bool(kind) and any(as_text(value.get(name)) for name in ("sessionId", _NAMED.get(kind, "sessionId")))


def _is_message(value: Json) -> bool:
    """True for a line of a conversation, though it names no session."""
    fields = as_object(value)
    return as_text(fields.get("type")) in SPOKEN and isinstance(fields.get("message"), dict)
