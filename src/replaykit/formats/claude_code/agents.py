"""Sub-agents: what each said and heard, by the call that started it.

    inline          lines with `isSidechain`, each conversation from a root of its own
    beside it       SESSION/subagents/agent-ID.jsonl, or agent-ID.jsonl in the directory of the session

The result of the call names the agent; where it does not, the agent was asked what the call says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.claude_code.lines import SessionLine, texts_in
from replaykit.formats.claude_code.sessions import SessionReading
from replaykit.formats.core.source import STDIN, Source, read_source
from replaykit.wire.json_fields import as_object, as_text

_PACKED = ("", ".zst", ".gz")
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,100}")
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9_-]{1,100})\.jsonl(?:\.zst|\.gz)?")
MAX_FILES = 1000


class SubagentFile(Struct, frozen=True, kw_only=True):
    """One sub-agent's conversation."""

    id: str
    lines: tuple[SessionLine, ...]

    @property
    def prompt(self) -> str:
        """What it was asked."""
        return next((texts_in(line.blocks) for line in self.lines if line.kind == "user"), "").strip()


def agents_in(lines: Sequence[SessionLine]) -> list[SubagentFile]:
    """The conversations among the lines of sub-agents: by the agent's id, else by the root that each comes from."""
    found: dict[str, list[SessionLine]] = {}
    roots: dict[str, str] = {}
    for line in lines:
        root = line.agent or roots.get(line.parent) or line.uuid or str(line.index)
        roots.setdefault(line.uuid, root)
        found.setdefault(root, []).append(line)
    return [SubagentFile(id=root, lines=tuple(group)) for root, group in found.items()]


def by_call(lines: Sequence[SessionLine], agents: Sequence[SubagentFile]) -> dict[str, SubagentFile]:
    """Each agent by the id of the call that started it."""
    ids = {agent.id: agent for agent in agents}
    found = {call_id: ids.pop(agent_id) for call_id, agent_id in _named(lines) if agent_id in ids}
    for line in lines:
        for use in line.uses:
            call_id, prompt = as_text(use.get("id")), as_text(as_object(use.get("input")).get("prompt")).strip()
            fits = next((agent for agent in ids.values() if prompt and agent.prompt == prompt), None)
            if fits is not None and call_id not in found and line.agent != fits.id:
                found[call_id] = ids.pop(fits.id)
    return found


def lines_beside(source: Source, lines: Sequence[SessionLine]) -> Iterator[SessionLine | InvalidFile]:
    """The lines in the files of sub-agents that lie beside a session's."""
    for file in _files(Path(source.file), {agent for _call, agent in _named(lines)}):
        reading = SessionReading()
        try:
            yield from reading.read(read_source(file))
        except InvalidFile as problem:
            yield problem
        for session in reading.sessions.values():
            yield from (line for line in session.lines if line.is_side)


def _named(lines: Sequence[SessionLine]) -> Iterator[tuple[str, str]]:
    """(call, agent) where a result says which agent gave it."""
    for line in lines:
        agent = as_text(as_object(line.result).get("agentId"))
        for block in line.results if agent else ():
            yield as_text(block.get("tool_use_id")), agent


def _files(session: Path, named: set[str]) -> list[Path]:
    """Those of the session's own directory, and in its neighbourhood only those that it names."""
    if str(session) == STDIN or _AGENT_FILE.fullmatch(session.name):
        return []
    room = session.parent / session.name.split(".jsonl")[0] / "subagents"
    try:
        own = sorted(room / name for name in os.listdir(room) if _AGENT_FILE.fullmatch(name))
    except (OSError, ValueError):
        own = []
    safe = sorted(agent for agent in named if _SAFE.fullmatch(agent))
    near = [session.parent / f"agent-{agent}.jsonl{packed}" for agent in safe for packed in _PACKED]
    return [file for file in (*own, *near) if file.is_file()][:MAX_FILES]
