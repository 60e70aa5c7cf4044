"""Claude Code sessions: `~/.claude/projects/PROJECT/SESSION.jsonl`, one JSON object a line.

    {"type": "user", "uuid", "parentUuid", "sessionId", "timestamp", "message": {"role": "user", "content": …}}
    {"type": "assistant", …, "message": {"id", "model", "content": [one block], "usage", "stop_reason"}}
    {"type": "user", …, "message": {"content": [{"type": "tool_result", "tool_use_id", …}]}, "toolUseResult": …}

and lines of many other types, of which some say what was sent (`api-request`), what it cost or what it is called. An
answer is as many lines as it has blocks, each with the usage of all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from replaykit.errors import InvalidFile
from replaykit.formats.claude_code.agents import SubagentFile, agents_in, by_call, lines_beside
from replaykit.formats.claude_code.branches import MAX_REWOUND, Branch, branches
from replaykit.formats.claude_code.conversation import SessionOutcome, first_question, first_request, tell
from replaykit.formats.claude_code.lines import SessionLine
from replaykit.formats.claude_code.sessions import ClaudeSession, SessionReading, is_line
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun

FORMAT = "claude_code"
AGENT = "claude-code"
INTERRUPTED = ErrorInfo(type="Interrupted", message="the user interrupted it")
QUIT = ErrorInfo(type="Interrupted", message="the user quit before the answer")
_NOT_ONE = "expected lines of a Claude Code session: objects with `type` and `sessionId`"


class ClaudeCodeImporter:
    """Reads Claude Code's session files, with the sub-agents beside them."""

    name = FORMAT
    title = "Claude Code sessions: `~/.claude/projects/*/*.jsonl`, sub-agents and rewinds included"

    def recognises(self, source: Source) -> bool:
        return any(is_line(value) and "session_id" not in value for value in source.first)

    def read(self, source: Source) -> Iterator[Found]:
        reading = SessionReading()
        yield from reading.read(source)
        sessions = list(dict.fromkeys(reading.sessions.values()))
        if not sessions:
            raise InvalidFile(_NOT_ONE, file=source.file)
        if reading.unknown:
            yield f"lines that are none of a session: {reading.unknown}"
        if reading.silent:
            yield f"messages that say nothing, or in no known way: {reading.silent}"
        for session in sessions:
            yield from _runs(source, session)
            session.lines.clear()  # a file may hold many


IMPORTERS.register(FORMAT)(ClaudeCodeImporter())


def _runs(source: Source, session: ClaudeSession) -> Iterator[Found]:
    own = [line for line in session.lines if not line.is_side]
    if own:
        beside = list(lines_beside(source, session.lines))
    else:
        beside = []
    yield from (found for found in beside if isinstance(found, InvalidFile))
    side = [line for line in (*session.lines, *beside) if isinstance(line, SessionLine) and line.is_side]
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
    """The newest branch, and those that were left where the model answered in them."""
    left = 0
    for number, branch in enumerate(branches(lines)):
        left += number > 0
        if number == 0:
            yield _run(session, branch.leaf.session or session.id, branch.lines, calls)
        elif branch.has_calls and number <= MAX_REWOUND:
            yield _rewound(session, branch, calls)
    if left:
        yield f"session {session.id} was rewound, branches left: {left}; those with calls are runs of their own"


def _rewound(session: ClaudeSession, branch: Branch, calls: Mapping[str, SubagentFile]) -> TraceRun:
    id = f"{branch.leaf.session or session.id}-rewound-{branch.leaf.uuid[:8]}"
    return _run(session, id, branch.lines, calls, tags=("rewound",))


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
