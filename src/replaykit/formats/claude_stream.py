"""Messages that Claude Code and its SDK print while they run: `claude -p --output-format stream-json --verbose`.

    {"type": "system", "subtype": "init", "session_id", "model", "tools": [names], "cwd", "claude_code_version"}
    {"type": "assistant", "message": {"id", "content": [one block], "usage"}, "parent_tool_use_id", "session_id"}
    {"type": "user", "message": {"content": [{"type": "tool_result", …}]}, "tool_use_result", …}
    {"type": "result", "subtype": "success" | "error_max_turns" | …, "is_error", "result", "total_cost_usd", …}

One on each line, or all in a list (`--output-format json --verbose`). The user's question is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from replaykit.errors import InvalidFile
from replaykit.formats.claude_code.conversation import first_question, tell
from replaykit.formats.claude_code.lines import SPOKEN, SessionLine
from replaykit.formats.core.fields import time_in
from replaykit.formats.core.registry import Found, documents_in, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_text, has_text, joined, object_in, pick, text_in, value_in, without

FORMAT = "claude_stream"
AGENT = "claude-code"
ADVICE = (
    "A stream of Claude Code leaves out what the user asked. Import its session file instead "
    "(~/.claude/projects/*/SESSION.jsonl), or add --replay-user-messages with --input-format stream-json."
)
_TYPES = ("system", "assistant", "user", "result")
_NOT_ONE = "expected messages of a Claude Code stream: objects with `type` and `session_id`"
_INIT = ("cwd", "mcp_servers", "permissionMode", "output_style")
_RESULT = ("num_turns", "duration_api_ms", "usage", "modelUsage", "permission_denials", "terminal_reason")


def _recognises(source: Source) -> bool:
    # A whole session may be one line, so look at the beginning of its list only.
    first = source.first[0][:8] if source.first and isinstance(source.first[0], list) else source.first
    return any(map(_is_message, first))


def _read_file(source: Source) -> Iterator[Found]:
    sessions: dict[str, _StreamSession] = {}
    unknown = 0
    for item in documents_in(source):
        if isinstance(item, InvalidFile):
            yield item
            continue
        for member in item.members():
            message = member.value
            id = text_in(message, "session_id")
            if id and as_text(value_in(message, "type")):
                sessions.setdefault(id, _StreamSession(id)).add(message)
            else:
                unknown += 1
    if not sessions:
        raise InvalidFile(_NOT_ONE, file=source.file)
    if unknown:
        yield f"lines that do not belong to a stream: {unknown}"
    for session in sessions.values():
        yield session.run()


register_format(
    FORMAT, "Claude Code and Claude Agent SDK messages: `--output-format stream-json`", _recognises, _read_file
)


class _StreamSession:
    """The messages of one session."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._lines: dict[str, list[SessionLine]] = {"": []}  # lines by the call that they are inside of
        self._init: JsonObject = {}
        self._result: JsonObject = {}
        self._count = 0

    def add(self, value: JsonObject) -> None:
        self._count += 1
        kind, subtype = text_in(value, "type"), text_in(value, "subtype")
        if kind == "result":
            # A session may print several results; the last one counts.
            self._result = value
        elif kind == "system" and subtype == "init":
            # The later `init` messages of a session repeat the first one.
            self._init = self._init or value
        elif kind in SPOKEN or kind == "system":
            self._lines.setdefault(text_in(value, "parent_tool_use_id"), []).append(_line(value, self._count))

    def run(self) -> TraceRun:
        lines = self._lines.pop("")
        talk = Talk(tools=self._init.get("tools"))
        outcome = tell(talk, lines, dict(self._lines), {})
        status, error = _ending(self._result, outcome.failure)
        output = self._result.get("result")
        return talk.run(
            id=self._id,
            format=FORMAT,
            agent=AGENT,
            agent_version=text_in(self._init, "claude_code_version"),
            input=first_question(lines),
            output=output if isinstance(output, str) and output and error is None else UNSET,
            status=status,
            error=error,
            metadata=self._metadata(),
            advice=[ADVICE],
        )

    def _metadata(self) -> JsonObject:
        metadata = pick(self._init, _INIT) | pick(self._result, _RESULT)
        return metadata | {"cost_usd": self._result.get("total_cost_usd")}


def _is_message(value: Json) -> bool:
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        return False
    is_complete = "message" in value if value["type"] in SPOKEN else has_text(value, "subtype")
    return is_complete and bool(text_in(value, "session_id"))


def _line(value: JsonObject, index: int) -> SessionLine:
    details = without(value, "type", "subtype", "session_id", "uuid")
    return SessionLine(
        kind=text_in(value, "type"),
        index=index,
        uuid=text_in(value, "uuid"),
        session=text_in(value, "session_id"),
        # Only some versions print times.
        at=time_in(value.get("timestamp")),
        message=_message(object_in(value, "message")),
        result=value.get("tool_use_result", msgspec.UNSET),
        is_api_error=has_text(value, "error"),
        is_meta=value.get("isSynthetic") is True,
        subtype=text_in(value, "subtype"),
        content=details if value.get("type") == "system" else value.get("error"),
    )


def _message(message: JsonObject) -> JsonObject:
    # The SDK prints a message per block, each with the tokens counted so far.
    """Return the message without the output tokens of an unfinished answer: only the final result counts them."""
    usage = message.get("usage")
    if message.get("stop_reason") is not None or not isinstance(usage, dict):
        return message
    return {**message, "usage": without(usage, "output_tokens")}


def _ending(result: JsonObject, failure: ErrorInfo | None) -> tuple[RunStatus | None, ErrorInfo | None]:
    """Return the status and error of a run; `success` may still be an error of the API."""
    subtype = text_in(result, "subtype")
    if not subtype:
        return None, failure
    if subtype == "success" and result.get("is_error") is not True:
        return RunStatus.SUCCESS, None
    errors = result.get("errors")
    error_text = joined(filter(None, map(as_text, errors)), "; ") if isinstance(errors, list) else None
    if subtype == "success":
        return RunStatus.ERROR, failure or ErrorInfo(type="ApiError", message=text_in(result, "result"))
    message = (
        error_text or text_in(result, "result") or f"it ended with {subtype} after {result.get('num_turns')} turns"
    )
    return RunStatus.ERROR, ErrorInfo(type=subtype, message=message)
