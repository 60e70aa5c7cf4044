"""A line of a session, or a message of a stream: what of it tells something."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct, field

from replaykit.formats.core.fields import time_in
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text, joined

SPOKEN = ("user", "assistant")
TYPES = (*SPOKEN, "system", "attachment")
"""The types of lines that a conversation consists of."""
METADATA = {"cwd": "cwd", "gitBranch": "git_branch", "entrypoint": "entrypoint", "permissionMode": "permission_mode"}


class SessionLine(Struct, frozen=True, kw_only=True):
    """One line. `parent` is the line that it follows, which need not be the one before it."""

    kind: str
    index: int = 0
    uuid: str = ""
    parent: str = ""
    session: str = ""
    agent: str = ""
    """The sub-agent that it is of."""
    is_side: bool = False
    """True for what a sub-agent says and hears."""
    at: float = 0.0
    message: dict[str, Json] = field(default_factory=dict)
    result: Json = msgspec.UNSET
    """What a tool returned, where that is more than what the model was told."""
    request: str = ""
    """The id of the request that it answers."""
    is_api_error: bool = False
    is_meta: bool = False
    """True for what Claude Code itself says in the user's name."""
    subtype: str = ""
    content: Json = None
    """Of a line that is no message: what it tells."""
    role: str = "user"
    system: str = ""
    """The system prompt, where the line holds one."""

    @property
    def answer_id(self) -> str:
        """The same for all lines of one answer."""
        return as_text(self.message.get("id")) or self.uuid or str(self.index)

    @property
    def blocks(self) -> list[Json]:
        """What the message consists of; a text is a block."""
        content = self.message.get("content")
        if isinstance(content, str):
            if content:
                return [{"type": "text", "text": content}]
            return []
        if isinstance(content, list):
            return [_block(item) for item in content]
        return []

    @property
    def uses(self) -> list[dict[str, Json]]:
        """The calls of tools that it asks for."""
        return [block for block in as_objects(self.blocks) if block.get("type") == "tool_use"]

    @property
    def results(self) -> list[dict[str, Json]]:
        """The results of tools that it holds."""
        return [block for block in as_objects(self.blocks) if block.get("type") == "tool_result"]


def line_in(value: dict[str, Json], index: int) -> SessionLine:
    """A line of a session. Bulky ones that nobody is told of shrink to their place in the conversation."""
    kind = as_text(value.get("type"))
    place = SessionLine(
        kind=kind,
        index=index,
        uuid=as_text(value.get("uuid")),
        parent=as_text(value.get("parentUuid")) or as_text(value.get("logicalParentUuid")),
        session=as_text(value.get("sessionId")),
        agent=as_text(value.get("agentId")),
        is_side=value.get("isSidechain") is True,
        at=time_in(value.get("timestamp")),
    )
    more = {}
    if kind in SPOKEN:
        more = _of_message(value)
    elif kind == "system":
        subtype = as_text(value.get("subtype"))
        more = {"subtype": subtype, "content": value.get("error") if subtype == "api_error" else _content(value)}
    elif kind == "attachment":
        more = _of_attachment(value)
    return msgspec.structs.replace(place, **more)


def texts_in(blocks: Json) -> str:
    """What blocks say, as one text."""
    if isinstance(blocks, str):
        return blocks
    return joined((as_text(block.get("text")) for block in as_objects(blocks)), "\n") or ""


def plain(blocks: Json) -> Json:
    """Blocks as a text, where they are nothing else."""
    if isinstance(blocks, list) and all(isinstance(b, dict) and b.get("type") == "text" for b in blocks):
        return texts_in(blocks)
    return blocks


def _of_message(value: dict[str, Json]) -> dict[str, Json]:
    return {
        "message": as_object(value.get("message")),
        "result": value.get("toolUseResult", msgspec.UNSET),
        "request": as_text(value.get("requestRef")),
        "is_api_error": value.get("isApiErrorMessage") is True,
        "is_meta": value.get("isMeta") is True or value.get("isCompactSummary") is True,
    }


def _of_attachment(value: dict[str, Json]) -> dict[str, Json]:
    attachment = as_object(value.get("attachment"))
    if value.get("renderedRole") == "system":
        role = "system"
    else:
        role = "user"
    texts = (as_text(part.get("content")) for part in as_objects(value.get("rendered")))
    prompt = attachment.get("systemPrompt")
    if isinstance(prompt, list):
        system = joined(filter(None, map(as_text, prompt)), "\n\n")
    else:
        system = None
    return {"content": joined(texts, "\n"), "role": role, "system": system or ""}


def _content(value: dict[str, Json]) -> Json:
    content = value.get("content")
    if content is not None:
        return content
    return dict(_beside(value))


def _beside(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """What a line holds that is short and not the same on every line."""
    common = ("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "version")
    more = ("isSidechain", "userType", "isMeta", "slug", *METADATA)
    return ((key, item) for key, item in value.items() if key not in (*common, *more))


def _block(item: Json) -> Json:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    return item
