"""Turn the lines of one conversation into a `Talk`; sub-agents go inside the call that started them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from replaykit.formats.claude_code.lines import SessionLine
from replaykit.formats.core.fields import error_of
from replaykit.formats.core.talk import UNSET, Talk, Turn
from replaykit.model.events import ErrorInfo
from replaykit.model.matching import ToolErrors
from replaykit.model.values import Json, JsonObject
from replaykit.wire.anthropic import DIALECT
from replaykit.wire.json_fields import as_text, joined_texts, pick, text_in, text_or_parts, value_in

_SYNTHETIC = "<synthetic>"  # the model name of answers that came from no model
_INTERRUPTED = "[Request interrupted by user"
_LOCAL = re.compile(r"\s*<(?:command-(?:name|message|args)|local-command-\w+|bash-(?:input|stdout|stderr))>")
_QUIT = re.compile(r"<command-name>/(?:exit|quit|bye)</command-name>")
_TOOL_ERROR = re.compile(r"\A\s*<tool_use_error>(.*?)(?:</tool_use_error>)?\s*\Z", re.DOTALL)
_STATUS = re.compile(r"\AAPI Error:?\s*(\d{3})?")
_MAX_DEPTH = 20
_SHORT = 2000


class ClaudeRequest(Struct, frozen=True, kw_only=True):
    """The members of a request besides its messages."""

    at: float = 0.0
    system: Json = None
    tools: Json = None
    parameters: JsonObject = field(default_factory=dict)


class SessionOutcome(Struct, kw_only=True):
    """The state in which the conversation ends."""

    model: str = ""
    failure: ErrorInfo | None = None
    """The API error that the conversation ended with, so far."""
    is_interrupted: bool = False
    has_quit: bool = False
    """True if the user left with `/exit`."""


def tell(
    talk: Talk,
    lines: Sequence[SessionLine],
    agents: dict[str, Sequence[SessionLine]],
    requests: Mapping[str, ClaudeRequest],
    depth: int = 0,
) -> SessionOutcome:
    """Add the lines in order. `agents` has those of sub-agents by the id of the starting call; used ones are
    removed."""
    builder = _ConversationBuilder(talk, lines, agents, requests, depth)
    for line in lines:
        builder.line(line)
    builder.unreturned()
    return builder.outcome


class _ConversationBuilder:
    def __init__(
        self,
        talk: Talk,
        lines: Sequence[SessionLine],
        agents: dict[str, Sequence[SessionLine]],
        requests: Mapping[str, ClaudeRequest],
        depth: int,
    ) -> None:
        self.outcome = SessionOutcome()
        self._talk = talk
        self._agents, self._requests, self._depth = agents, requests, depth
        self._at = 0.0
        self._answers: dict[str, list[SessionLine]] = {}
        self._uses: list[str] = []
        for line in lines:
            if line.kind == "assistant":
                self._answers.setdefault(line.answer_id, []).append(line)

    def line(self, line: SessionLine) -> None:
        if line.kind == "assistant":
            answer = self._answers.pop(line.answer_id, None)  # all lines of an answer are added with its first
            if answer is not None:
                self._answer(answer)
        elif line.kind == "user":
            self._hear(line)
        elif line.kind == "system":
            self._system(line)
        elif line.kind == "attachment" and line.content:
            self._talk.says(line.role, line.content)
        self._at = line.at or self._at

    def unreturned(self) -> None:
        """Add the sub-agents of calls that never returned."""
        for call_id in self._uses:
            self._inside(call_id)

    def _answer(self, lines: list[SessionLine]) -> None:
        first, last = lines[0], lines[-1]
        response = DIALECT.read_response({**first.message, **last.message, "content": _blocks(lines), **_ends(lines)})
        answer = response.answers[0]
        if first.is_api_error:
            self.outcome.failure = _api_error(first, answer.content or "")
            self._talk.answers(None, model=self.outcome.model, error=self.outcome.failure, at=first.at)
            return
        self.outcome.failure, self.outcome.is_interrupted = None, False
        if response.model == _SYNTHETIC:
            self._talk.notes("synthetic", answer.content, at=first.at)
            return
        self.outcome.model = response.model or self.outcome.model
        request = self._requests.get(first.request, ClaudeRequest())
        if request.tools:
            self._talk.offers(request.tools)
        started = min(request.at or self._at or first.at, first.at)
        self._talk.answers(
            answer,
            model=self.outcome.model,
            usage=response.usage,
            finish_reason=response.finish_reason,
            parameters=request.parameters,
            at=started,
            duration_s=max(0.0, last.at - started),
        )
        self._uses += [use.id for use in answer.tool_calls if use.id]

    def _hear(self, line: SessionLine) -> None:
        results = line.results
        for block in results:
            self._return(block, line, alone=len(results) == 1)
        blocks = [block for block in line.blocks if block not in results]
        if not blocks:
            return
        text = joined_texts(blocks)
        if is_local(text):
            self._talk.mentions("user", text_or_parts(blocks))
            self.outcome.has_quit = self.outcome.has_quit or _QUIT.search(text) is not None
            return
        self._talk.says("user", text_or_parts(blocks))
        self.outcome.is_interrupted, self.outcome.has_quit = text.startswith(_INTERRUPTED), False

    def _return(self, block: JsonObject, line: SessionLine, *, alone: bool) -> None:
        call_id, content = text_in(block, "tool_use_id"), text_or_parts(block.get("content"))
        self._inside(call_id)
        result = content
        if block.get("is_error") is True:
            error, ending = _tool_error(content), None
        else:
            if alone and isinstance(line.result, dict | list):
                result = line.result
            error, ending = None, ToolErrors.RAISED  # an interrupted tool returned nothing
            if value_in(result, "interrupted") is True:
                error = ErrorInfo(type="Interrupted", message="the user interrupted it")
        self._talk.returns(
            result, call_id=call_id, failed=False, error=error, ending=ending, at=line.at, told_model=content
        )

    def _inside(self, call_id: str) -> None:
        turn: Turn | None = self._talk.turn_of(call_id) if call_id in self._agents else None
        if turn is not None and self._depth < _MAX_DEPTH:
            lines = self._agents.pop(call_id)
            request = first_request(lines, self._requests)
            inner = self._talk.inside(turn, system=request.system, tools=request.tools)
            tell(inner, lines, self._agents, self._requests, self._depth + 1)

    def _system(self, line: SessionLine) -> None:
        if line.subtype == "compact_boundary":
            self._talk.catches_up([])  # the model keeps only the summary that follows
        if line.subtype == "api_error":
            self._talk.fails(error_of(line.content, "ApiError"), at=line.at)
        else:
            self._talk.notes(line.subtype or "system", _short(line.content), at=line.at)


def first_request(lines: Sequence[SessionLine], requests: Mapping[str, ClaudeRequest]) -> ClaudeRequest:
    """Return the first known request of an answer, or else the system prompt in a line."""
    for line in lines:
        if line.request in requests:
            return requests[line.request]
    for line in lines:
        if line.system:
            return ClaudeRequest(system=line.system)
    return ClaudeRequest()


def is_local(text: str) -> bool:
    """Return whether a slash or shell command of the user left this text, which no model is asked about."""
    return _LOCAL.match(text) is not None


def first_question(lines: Sequence[SessionLine]) -> Json:
    """Return the user's first question."""
    first: Json = UNSET
    for line in lines:
        if line.kind == "user" and line.blocks and not line.results:
            if not line.is_meta and not is_local(joined_texts(line.blocks)):
                return text_or_parts(line.blocks)
            if first is UNSET:
                first = text_or_parts(line.blocks)
    return first


def _blocks(lines: list[SessionLine]) -> list[Json]:
    """Return the blocks of one answer; its lines may repeat them."""
    found: list[Json] = []
    ids: set[str] = set()
    for line in lines:
        for block in line.blocks:
            call_id = as_text(value_in(block, "id"))
            if call_id not in ids or not call_id:
                found.append(block)
            ids.add(call_id)
    return found


def _ends(lines: list[SessionLine]) -> JsonObject:
    """Return the members that only the last line of an answer has: usage and stop reason."""
    ends: JsonObject = {"usage": None, "stop_reason": None}
    for line in lines:
        ends |= pick(line.message, ends)
    return ends


def _api_error(line: SessionLine, text: str) -> ErrorInfo:
    status = _STATUS.match(text)
    kind = "RateLimitError" if status and status[1] == "429" else "ApiError"
    return ErrorInfo(type=kind, message=text or as_text(line.content) or "the API failed")


def _tool_error(content: Json) -> ErrorInfo:
    text = joined_texts(content)
    match = _TOOL_ERROR.match(text)
    if match:
        text = match[1]
    else:
        text = text.removeprefix("Error: ")
    return error_of(text, "ToolError")


def _short(content: Json) -> Json:
    if isinstance(content, str):
        return content[:_SHORT]
    return content
