"""Read a line of a session, or a message of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.formats.core.fields import time_in
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_list,
    joined_texts,
    object_in,
    of_type,
    text_in,
    texts_in,
    value_in,
    without,
)

SPOKEN = ("user", "assistant")
TYPES = (*SPOKEN, "system", "attachment")
"""Line types that make up a conversation."""
METADATA = {"cwd": "cwd", "gitBranch": "git_branch", "entrypoint": "entrypoint", "permissionMode": "permission_mode"}
_ON_EVERY_LINE = (
    *words_of("type subtype uuid parentUuid logicalParentUuid sessionId timestamp version"),
    *("isSidechain", "userType", "isMeta", "slug", *METADATA),
)


class SessionLine(Struct, frozen=True, kw_only=True):
    """One line. `parent` is the line before it in the conversation, not necessarily in the file."""

    kind: str
    index: int = 0
    uuid: str = ""
    parent: str = ""
    session: str = ""
    agent: str = ""
    """The id of the sub-agent, if the line belongs to one."""
    is_side: bool = False
    """True for messages of a sub-agent."""
    at: float = 0.0
    message: JsonObject = field(default_factory=dict)
    result: Json = msgspec.UNSET
    """The tool's result, if it holds more than the model saw."""
    request: str = ""
    """The id of the request that the line answers."""
    is_api_error: bool = False
    is_meta: bool = False
    """True for messages that Claude Code writes in the user's name."""
    subtype: str = ""
    content: Json = None
    """The content of a line that is not a message."""
    role: str = "user"
    system: str = ""
    """The system prompt, if the line has one."""

    @property
    def answer_id(self) -> str:
        """The id that all lines of one answer share."""
        return text_in(self.message, "id") or self.uuid or str(self.index)

    @property
    def blocks(self) -> list[Json]:
        """The blocks of the message; plain text becomes a block."""
        content = self.message.get("content")
        if content and isinstance(content, str):
            return [_block(content)]
        return list(map(_block, as_list(content)))

    @property
    def uses(self) -> list[JsonObject]:
        """The tool calls in the message."""
        return of_type(self.blocks, "tool_use")

    @property
    def results(self) -> list[JsonObject]:
        """The tool results in the message."""
        return of_type(self.blocks, "tool_result")


def line_in(value: JsonObject, index: int) -> SessionLine:
    """Read a line of a session. Bulky lines that are not shown to the model keep only their position."""
    kind = text_in(value, "type")
    place = SessionLine(
        kind=kind,
        index=index,
        uuid=text_in(value, "uuid"),
        parent=text_in(value, "parentUuid", "logicalParentUuid"),
        session=text_in(value, "sessionId"),
        agent=text_in(value, "agentId"),
        is_side=value.get("isSidechain") is True,
        at=time_in(value.get("timestamp")),
    )
    more = {}
    if kind in SPOKEN:
        more = _of_message(value)
    elif kind == "system":
        subtype = text_in(value, "subtype")
        more = {"subtype": subtype, "content": value.get("error") if subtype == "api_error" else _content(value)}
    elif kind == "attachment":
        more = _of_attachment(value)
    return replace(place, **more)


def _of_message(value: JsonObject) -> JsonObject:
    return {
        "message": object_in(value, "message"),
        "result": value.get("toolUseResult", msgspec.UNSET),
        "request": text_in(value, "requestRef"),
        "is_api_error": value.get("isApiErrorMessage") is True,
        "is_meta": value.get("isMeta") is True or value.get("isCompactSummary") is True,
    }


def _of_attachment(value: JsonObject) -> JsonObject:
    role = "user"
    if value.get("renderedRole") == "system":
        role = "system"
    system = "\n\n".join(texts_in(value_in(value.get("attachment"), "systemPrompt")))
    content = joined_texts(value.get("rendered"), name="content") or None
    return {"content": content, "role": role, "system": system}


def _content(value: JsonObject) -> Json:
    """Return the content of a line, or else its members that are specific to it."""
    content = value.get("content")
    if content is not None:
        return content
    return without(value, *_ON_EVERY_LINE)


def _block(item: Json) -> Json:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    return item


MAX_REWOUND = 100
"""The most abandoned branches that become runs."""


class Branch(Struct, frozen=True, kw_only=True):
    """One path through a session."""

    lines: tuple[SessionLine, ...]
    leaf: SessionLine
    has_calls: bool = False
    """True if the model answered in lines that no newer branch has."""


def branches(lines: Iterable[SessionLine]) -> Iterator[Branch]:
    """Yield the newest branch, then abandoned ones, newer first. Branches without messages are skipped."""
    graph = _Graph(_linked(list(lines)))
    seen: set[int] = set()
    for leaf in graph.leaves():
        if leaf.index in seen:
            continue
        found = graph.branch(leaf)
        own = tuple(line for line in found if line.index not in seen)
        kinds = {line.kind for line in own}
        seen.update(line.index for line in own)
        if not kinds.isdisjoint(SPOKEN):
            spoken = tuple(line for line in found if line.kind in TYPES)
            yield Branch(lines=spoken, leaf=leaf, has_calls="assistant" in kinds)


class _Graph:
    def __init__(self, lines: list[SessionLine]) -> None:
        self._lines = lines
        self._by_uuid: dict[str, SessionLine] = {}
        self._answers: dict[str, list[SessionLine]] = {}
        self._results: dict[str, list[SessionLine]] = {}
        for line in lines:
            self._by_uuid.setdefault(line.uuid, line)
            if line.kind == "assistant":
                self._answers.setdefault(line.answer_id, []).append(line)
            for block in line.results:
                self._results.setdefault(text_in(block, "tool_use_id"), []).append(line)

    def leaves(self) -> list[SessionLine]:
        """Return the last lines of all branches, newest first."""
        followed = {line.parent for line in self._lines}
        found = [line for line in self._lines if line.uuid not in followed]
        return sorted(found, key=lambda line: (line.at, line.index), reverse=True)

    def branch(self, leaf: SessionLine) -> list[SessionLine]:
        """Return the lines of a branch in file order, which is also the order of time."""
        found: dict[int, SessionLine] = {}
        line: SessionLine | None = leaf
        while line is not None and line.index not in found:
            found[line.index] = line
            line = self._by_uuid.get(line.parent)
        for member in list(found.values()):
            for part in self._answers.get(member.answer_id, ()):
                found[part.index] = part
                for use in part.uses:
                    for result in self._results.get(text_in(use, "id"), ()):
                        found[result.index] = result
        return [found[index] for index in sorted(found)]


def _linked(lines: list[SessionLine]) -> list[SessionLine]:
    """Give each line a unique id, and a parent that is in the file.

    A line whose parent is missing follows the line before it. So do all lines without a parent if the file has no
    parents at all: an answer never starts a conversation.
    """
    named: list[SessionLine] = []
    keeps_parents = True
    for line in _once(lines):
        named.append(line if line.uuid else replace(line, uuid=f"line {line.index}"))
        keeps_parents = keeps_parents and (line.kind != "assistant" or bool(line.parent))
    ids = {line.uuid for line in named}
    found: list[SessionLine] = []
    before = ""
    for line in named:
        is_lost = line.parent not in ids if line.parent else not keeps_parents
        if is_lost or line.parent == line.uuid:
            found.append(replace(line, parent=before))
        else:
            found.append(line)
        before = line.uuid
    return found


def _once(lines: list[SessionLine]) -> Iterator[SessionLine]:
    """Drop repeated lines: compacted and resumed sessions repeat some."""
    seen: dict[str, SessionLine] = {}
    for line in lines:
        first = seen.setdefault(line.uuid, line)
        if line is first or not line.uuid:
            yield line
        elif (first.kind, first.message) != (line.kind, line.message):
            yield replace(line, uuid=f"{line.uuid} {line.index}")
