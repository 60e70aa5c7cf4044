"""Claude Code sessions: `~/.claude/projects/PROJECT/SESSION.jsonl`, one JSON object on each line.

    {"type": "user", "uuid", "parentUuid", "sessionId", "timestamp", "message": {"role": "user", "content": …}}
    {"type": "assistant", …, "message": {"id", "model", "content": [one block], "usage", "stop_reason"}}
    {"type": "user", …, "message": {"content": [{"type": "tool_result", "tool_use_id", …}]}, "toolUseResult": …}

Lines of many other types add the request's parameters (`api-request`), cost, or a title. An answer takes one line for
each block, each with the usage of the whole answer.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.claude_code.conversation import (
    ClaudeRequest,
    SessionOutcome,
    first_question,
    first_request,
    tell,
)
from replaykit.formats.claude_code.lines import MAX_REWOUND, METADATA, SPOKEN, TYPES, SessionLine, branches, line_in
from replaykit.formats.core.fields import time_in
from replaykit.formats.core.registry import Found, register_format
from replaykit.formats.core.source import STDIN, Source, read_source
from replaykit.formats.core.talk import UNSET, Talk
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_text,
    filled_in,
    has_object,
    has_text,
    joined_texts,
    object_in,
    text_in,
    value_in,
    without,
)

FORMAT = "claude_code"
AGENT = "claude-code"
INTERRUPTED = ErrorInfo(type="Interrupted", message="the user interrupted it")
QUIT = ErrorInfo(type="Interrupted", message="the user quit before the answer")
_NOT_ONE = "expected lines of a Claude Code session: objects with `type` and `sessionId`"


def _read_file(source: Source) -> Iterator[Found]:
    reading = SessionReading()
    yield from reading.read(source)
    sessions = list(dict.fromkeys(reading.sessions.values()))
    if not sessions:
        raise InvalidFile(_NOT_ONE, file=source.file)
    if reading.unknown:
        yield f"lines that do not belong to a session: {reading.unknown}"
    if reading.silent:
        yield f"messages that are empty, or of an unknown form: {reading.silent}"
    for session in sessions:
        yield from _runs(source, session)
        session.lines.clear()  # free the memory: a file may hold many sessions


register_format(
    FORMAT,
    "Claude Code sessions: `~/.claude/projects/*/*.jsonl`, sub-agents and rewinds included",
    lambda source: any(is_line(value) and "session_id" not in value for value in source.first),
    _read_file,
)


def _runs(source: Source, session: ClaudeSession) -> Iterator[Found]:
    own: list[SessionLine] = []
    side: list[SessionLine] = []
    for line in session.lines:
        (side if line.is_side else own).append(line)
    if own:
        for item in lines_beside(source, session.lines):
            if isinstance(item, InvalidFile):
                yield item
            else:
                side.append(item)
    agents = agents_in(side)
    calls = by_call([*own, *side], agents)
    yield from _conversations(session, own, calls)
    started = {agent.id for agent in calls.values()}
    for agent in agents:
        if agent.id not in started:
            yield _run(session, f"{session.id}-agent-{agent.id}", agent.lines, calls, tags=("sub-agent",))


def _conversations(
    session: ClaudeSession, lines: Sequence[SessionLine], calls: Mapping[str, SubagentFile]
) -> Iterator[Found]:
    """Yield the newest branch, and abandoned ones in which the model answered."""
    remaining = -1
    for remaining, branch in enumerate(branches(lines)):
        id = branch.leaf.session or session.id
        if remaining == 0:
            yield _run(session, id, branch.lines, calls)
        elif branch.has_calls and remaining <= MAX_REWOUND:
            yield _run(session, f"{id}-rewound-{branch.leaf.uuid[:8]}", branch.lines, calls, tags=("rewound",))
    if remaining > 0:
        yield f"session {session.id} was rewound, branches left: {remaining}; those with calls are runs of their own"


def _run(
    session: ClaudeSession,
    id: str,
    lines: Sequence[SessionLine],
    calls: Mapping[str, SubagentFile],
    tags: tuple[str, ...] = (),
) -> TraceRun:
    request = first_request(lines, session.requests)
    talk = Talk(system=request.system, tools=request.tools)
    outcome = tell(talk, lines, {call_id: agent.lines for call_id, agent in calls.items()}, session.requests)
    times = [line.at for line in lines if line.at]
    status, error = _ending(outcome, has_answer=talk.output is not UNSET)
    return talk.run(
        id=id,
        format=FORMAT,
        name=session.title,
        agent=AGENT,
        agent_version=session.version,
        input=first_question(lines),
        status=status,
        error=error,
        started_at=min(times, default=0.0),
        ended_at=max(times, default=None),
        tags=tags,
        metadata=session.metadata,
    )


def _ending(outcome: SessionOutcome, *, has_answer: bool) -> tuple[RunStatus | None, ErrorInfo | None]:
    if outcome.is_interrupted:
        return RunStatus.CANCELLED, INTERRUPTED
    if outcome.has_quit and not has_answer and outcome.failure is None:
        return RunStatus.CANCELLED, QUIT
    return None, outcome.failure


_PACKED = ("", ".zst", ".gz")
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,100}")
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9_-]{1,100})\.jsonl(?:\.zst|\.gz)?")
MAX_FILES = 1000


class SubagentFile(Struct, frozen=True, kw_only=True):
    """The conversation of one sub-agent."""

    id: str
    lines: tuple[SessionLine, ...]

    @property
    def prompt(self) -> str:
        for line in self.lines:
            if line.kind == "user":
                return joined_texts(line.blocks).strip()
        return ""


def agents_in(lines: Sequence[SessionLine]) -> list[SubagentFile]:
    """Group lines into conversations of sub-agents, by the agent's id or else by the root line."""
    lines_by_agent: dict[str, list[SessionLine]] = {}
    roots: dict[str, str] = {}
    for line in lines:
        root = line.agent or roots.get(line.parent) or line.uuid or str(line.index)
        roots.setdefault(line.uuid, root)
        lines_by_agent.setdefault(root, []).append(line)
    return [SubagentFile(id=root, lines=tuple(group)) for root, group in lines_by_agent.items()]


def by_call(lines: Sequence[SessionLine], agents: Sequence[SubagentFile]) -> dict[str, SubagentFile]:
    """Return each sub-agent by the id of the call that started it."""
    unclaimed = {agent.id: agent for agent in agents}
    started_agents: dict[str, SubagentFile] = {}
    for call_id, agent_id in _agent_calls(lines):
        if agent_id in unclaimed:
            started_agents[call_id] = unclaimed.pop(agent_id)
    for line in lines:
        for use in line.uses:
            call_id, prompt = text_in(use, "id"), text_in(use.get("input"), "prompt").strip()
            for agent in list(unclaimed.values()):
                if prompt and agent.prompt == prompt:
                    if call_id not in started_agents and line.agent != agent.id:
                        started_agents[call_id] = unclaimed.pop(agent.id)
                    break
    return started_agents


def lines_beside(source: Source, lines: Sequence[SessionLine]) -> Iterator[SessionLine | InvalidFile]:
    """Yield the lines of sub-agents in the files beside a session."""
    for file in _files(Path(source.file), {agent for _call, agent in _agent_calls(lines)}):
        reading = SessionReading()
        try:
            yield from reading.read(read_source(file))
        except InvalidFile as problem:
            yield problem
        for session in reading.sessions.values():
            for line in session.lines:
                if line.is_side:
                    yield line


def _agent_calls(lines: Sequence[SessionLine]) -> Iterator[tuple[str, str]]:
    """Yield (call, agent) pairs from results that name their agent."""
    for line in lines:
        agent = as_text(value_in(line.result, "agentId"))
        for block in line.results if agent else ():
            yield text_in(block, "tool_use_id"), agent


def _files(session: Path, known_names: set[str]) -> list[Path]:
    """List the files in the session's own directory; of those next to the session, only the ones that it names."""
    if str(session) == STDIN or _AGENT_FILE.fullmatch(session.name):
        return []
    room = session.parent / session.name.split(".jsonl")[0] / "subagents"
    files: list[Path] = []
    with suppress(OSError, ValueError):
        files += [room / name for name in sorted(os.listdir(room)) if _AGENT_FILE.fullmatch(name)]
    for agent in filter(_SAFE.fullmatch, sorted(known_names)):
        files += [session.parent / f"agent-{agent}.jsonl{packed}" for packed in _PACKED]
    return list(filter(Path.is_file, files))[:MAX_FILES]


_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_MAX_TITLE = 100
# The member that links a line without `sessionId` to its session.
_LINK_MEMBERS = {"summary": "leafUuid", "file-history-snapshot": "messageId"}


class ClaudeSession:
    """The lines of one session in a file. A session that continued under another id is the same."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.lines: list[SessionLine] = []
        self.metadata: JsonObject = {}
        self.version = ""
        self.titles: dict[str, str] = {}
        self.requests: dict[str, ClaudeRequest] = {}
        self._shapes: dict[str, JsonObject] = {}

    @property
    def title(self) -> str:
        """The title that the user, Claude Code or a summary gave the session."""
        title = filled_in(self.titles, *reversed(_TITLES)) or ""
        return textwrap.shorten(title, _MAX_TITLE, placeholder="…")

    def note(self, value: JsonObject) -> None:
        """Note the members of a line outside the conversation."""
        kind = text_in(value, "type")
        self.version = text_in(value, "version") or self.version
        self.metadata |= {name: value[key] for key, name in METADATA.items() if has_text(value, key)}
        if kind in _TITLES:
            self.titles[kind] = text_in(value, _TITLES[kind])
        elif kind == "api-request-shape":
            self._shapes[text_in(value, "shapeHash")] = object_in(value, "shape")
        elif kind == "api-request":
            self.requests[text_in(value, "id")] = self._request(value)
        elif kind == "cost-state":
            self.metadata |= {"cost_usd": value.get("totalCostUSD"), "model_usage": value.get("modelUsage")}

    def _request(self, value: JsonObject) -> ClaudeRequest:
        shape = self._shapes.get(text_in(value, "shapeHash"), {})
        return ClaudeRequest(
            at=time_in(value.get("timestamp")),
            system=shape.get("system"),
            tools=shape.get("tools"),
            parameters=without(object_in(value, "params"), "model", "betas"),
        )


class SessionReading:
    """Reads a file line by line into its sessions."""

    def __init__(self) -> None:
        self.sessions: dict[str, ClaudeSession] = {}
        self.unknown = 0
        """The number of lines that belong to no session."""
        self.silent = 0
        """The number of messages without content."""
        self._session_of: dict[str, ClaudeSession] = {}  # sessions by the id of each line
        self._latest: ClaudeSession | None = None  # the session named last: shortened logs name it only once
        self._count = 0

    def read(self, source: Source) -> Iterator[InvalidFile]:
        """Read the lines of a file; yield an error for each line that cannot be read."""
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

    def _add(self, value: JsonObject) -> None:
        line = line_in(value, self._count)
        session = self._session(line, text_in(value, "leafUuid"))
        if session is None:  # for example, the summary of another file's session
            self.unknown += line.kind in TYPES
            return
        self._latest = session
        session.note(value)
        self.silent += line.kind in SPOKEN and not line.blocks
        if line.uuid or line.message:
            session.lines.append(line)
            self._session_of.setdefault(line.uuid, session)

    def _session(self, line: SessionLine, leaf: str) -> ClaudeSession | None:
        """Return the session of the parent line, so that a resumed session stays whole, or else the named one."""
        session = None
        if not line.is_side:
            session = self._session_of.get(line.parent)
        session = session or self.sessions.get(line.session) or self._session_of.get(leaf)
        if session is None and line.session:
            session = ClaudeSession(line.session)
        if session is None and line.message:
            session = self._latest
        if session is not None and line.session:
            self.sessions.setdefault(line.session, session)
        return session


def is_line(value: Json) -> bool:
    """Return whether Claude Code wrote the line, of whatever type."""
    kind = text_in(value, "type")
    return bool(kind and text_in(value, "sessionId", _LINK_MEMBERS.get(kind, "sessionId")))


def _is_message(value: Json) -> bool:
    """Return whether the line is a message, even without a session."""
    return text_in(value, "type") in SPOKEN and has_object(value, "message")
