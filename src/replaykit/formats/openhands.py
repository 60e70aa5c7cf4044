"""OpenHands trajectories: lists of events, and the `output.jsonl` of evaluations and of the resolver.

    [event, …]    {history: [event, …]}    one such object on each line, with what was judged of it:
    {instance_id, instruction, history, git_patch, metrics: {accumulated_cost}, error,
     test_result: {report: {resolved}}, report: {resolved}, resolved, success, result_explanation}

    event  {id, timestamp, source, message, action, args, tool_call_metadata: {function_name, tool_call_id,
            model_response}}   or   {id, cause, observation, content, extras}

An action is what the agent does, an observation what came of it: that of its `cause`, or else of the action before. In
older files the arguments stand in the event itself, and pairs of both may be lists. `model_response` is a chat
completion; actions that share one are one answer with several calls. An action without it is an answer too, of a model
whose name nobody wrote down. `finish` is no call of a tool but the agent's answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.members import object_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import JsonPath, Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.openai_chat import DIALECT

FORMAT = "openhands"
_METADATA = ("issue", "issue_type", "base_commit", "git_patch", "metadata", "metrics", "test_result", "report")
_SHORT = 2_000


class OpenHandsImporter:
    """Reads trajectories of OpenHands."""

    name = FORMAT
    title = "OpenHands: event lists, and `output.jsonl` with `history`"

    def recognises(self, source: Source) -> bool:
        if not source.first:
            return False
        value = source.first[0]
        if isinstance(value, list):
            return _are_events(value) and not source.is_lines
        return isinstance(value, dict) and (_are_events(value.get("history")) or _is_event_line(value, source))

    def read(self, source: Source) -> Iterator[Found]:
        if source.is_lines and source.first and _is_event_line(source.first[0], source):
            yield from _event_lines(source)
            return
        for document in source.documents():
            try:
                yield _read(document, document.value)
            except InvalidFile as problem:
                yield problem


IMPORTERS.register(FORMAT)(OpenHandsImporter())


def _are_events(value: Json) -> bool:
    if not isinstance(value, list) or not value:
        return False
    events = [event for item in value[:5] for event in (item if isinstance(item, list) else [item])]
    return bool(events) and all(_is_event(event) for event in events)


def _is_event(value: Json) -> bool:
    """An event says what was done or seen, in one word; one of OpenHands has an id, a source or an observation."""
    if not isinstance(value, dict):
        return False
    word = value.get("action", value.get("observation"))
    return isinstance(word, str) and ("args" in value or "content" in value or "thought" in value or "extras" in value)


def _is_event_line(value: Json, source: Source) -> bool:
    return source.is_lines and _is_event(value) and "source" in as_object(value)


def _event_lines(source: Source) -> Iterator[Found]:
    """One event on each line: all of them are one run."""
    events: list[Json] = []
    for line in source.documents():
        try:
            events.append(line.value)
        except InvalidFile as problem:
            yield problem
    yield _read(Source(b"", source.file, value=events), events)


def _read(source: Source, value: Json) -> TraceRun:
    is_list = isinstance(value, list)
    whole = Fields(source, {"history": value} if is_list else value, (), "events of OpenHands")
    history = whole.items("history")
    if not _are_events(history[:1]):
        raise whole.error("expected the events of OpenHands", "history")
    story = read_history(source, history, () if is_list else ("history",))
    talk, failure = story.talk, whole.take("error")
    if failure:
        story.error = error_of(failure, "AgentError")
    if story.answer is UNSET:
        answer = talk.output
    else:
        answer = story.answer
    instruction = whole.text("instruction")
    run = talk.run(
        id=content_id(FORMAT, canonical(value)),
        format=FORMAT,
        name=whole.label("instance_id") or _issue(whole),
        agent="OpenHands",
        input=UNSET if instruction is None else instruction,
        output=answer,
        error=story.error,
        status=None if story.error is None else RunStatus.ERROR,
        metadata={name: _short(whole.take(name)) for name in _METADATA},
    )
    return labelled(run, list(_labels(whole)))


def _issue(whole: Fields) -> str:
    issue = object_in(whole.value, "issue")
    return "/".join(str(issue[name]) for name in ("owner", "repo", "number") if issue.get(name) is not None)


def _labels(whole: Fields) -> Iterator[Label]:
    tested = object_in(whole.value, "test_result")
    reports = (tested.get("report"), tested, whole.value.get("report"), whole.value)
    resolved = (value_in(report, "resolved") for report in reports)
    found = next((flag for flag in resolved if type(flag) is bool), None)
    if found is not None:
        yield Label(name="resolved", value=found, failed=not found)
    success = whole.take("success")
    if type(success) is bool:
        yield Label(name="success", value=success, failed=not success, why=_why(whole.take("result_explanation")))


def _why(value: Json) -> str:
    return as_text(value) or "; ".join(map(as_text, value) if isinstance(value, list) else ())


def _short(value: Json) -> Json:
    """A value for the metadata; what is too long to be read there is cut."""
    if isinstance(value, str) and len(value) > _SHORT:
        return f"{value[:_SHORT]}…"
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in as_objects(value)] or value
    return value


_NOT_ARGUMENTS = ("thought", "is_confirmed", "confirmation_state", "action_risk", "security_risk", "keep_prompt")
"""Arguments of an action that say how it came to be, not what is to be done."""
_FRAME = ("id", "timestamp", "source", "message", "action", "args", "cause", "timeout", "content", "extras", "success")
_FRAME_OF_CALLS = ("tool_call_metadata", "llm_metrics", "observation")
"""What stands around the arguments, in files that have them in the event itself."""
_NO_CALLS = ("change_agent_state", "null", "recall", "condensation", "condensation_request", "agent_state_changed")
_FAILED_STATES = ("error", "rate_limited")


class Story:
    """What the events tell."""

    def __init__(self, source: Source) -> None:
        self.talk = Talk()
        self.answer: Json = UNSET
        self.error: ErrorInfo | None = None
        self._source = source
        self._answered: set[str] = set()
        self._calls: dict[str, str] = {}
        self._last = ""

    def tell(self, value: Json, path: JsonPath) -> None:
        """One event."""
        event = Fields(self._source, value, path, "an event")
        action, observation = event.text("action"), event.text("observation")
        at = event.time("timestamp") or 0.0
        if action is not None:
            self._acts(event, action, at)
        elif observation is not None:
            self._sees(event, observation, at)
        else:
            self.talk.notes("event", event.value, at=at)

    def _acts(self, event: Fields, action: str, at: float) -> None:
        args = _arguments(event)
        message = text_in(args, "content") or text_in(event.value, "message")
        if action == "system":
            self.talk.says("system", message)
            self.talk.offers(args.get("tools"))
        elif action == "message" and event.text("source") in ("agent", "assistant"):
            self.answer = message
            self._answers(event, ModelAnswer(content=message or None), at)
        elif action == "message":
            self.answer = UNSET
            self.talk.says("user", message)
        elif action == "finish":
            words = ("final_thought", "thought")
            outputs = text_in(object_in(args, "outputs"), "content")
            self.answer = next((text for name in words if (text := text_in(args, name))), outputs) or message or UNSET
            self._answers(event, ModelAnswer(content=as_text(self.answer) or None), at)
        elif action in _NO_CALLS:
            self.talk.notes(action, args, at=at)
        else:
            self._calls_tool(event, action, args, at)

    def _calls_tool(self, event: Fields, action: str, args: dict[str, Json], at: float) -> None:
        call_metadata = event.object("tool_call_metadata")
        call_id = text_in(call_metadata, "tool_call_id") or f"event-{event.label('id') or len(self._calls)}"
        self._calls[event.label("id") or call_id] = call_id
        self._last = call_id
        arguments = {name: item for name, item in args.items() if name not in _NOT_ARGUMENTS}
        use = ToolUse(id=call_id, name=text_in(call_metadata, "function_name") or action, arguments=arguments)
        self._answers(event, ModelAnswer(content=text_in(args, "thought") or None, tool_calls=(use,)), at)

    def _answers(self, event: Fields, answer: ModelAnswer, at: float) -> None:
        """What the model said: its response, where the event has it, once; else what the event says."""
        body = object_in(object_in(event.value, "tool_call_metadata"), "model_response")
        if body:
            response = DIALECT.read_response(body)
        else:
            response = None
        if response is None or not response.answers:
            self.talk.answers(answer, at=at)
            return
        if response.id and response.id in self._answered:
            return
        self._answered.add(response.id)
        spoken = response.answers[0]
        calls = tuple(call for call in spoken.tool_calls if call.name != "finish")
        whole = ModelAnswer(content=spoken.content or answer.content, tool_calls=calls, thinking=spoken.thinking)
        usage = response.usage or Usage()
        self.talk.answers(whole, model=response.model, usage=usage, finish_reason=response.finish_reason, at=at)

    def _sees(self, event: Fields, observation: str, at: float) -> None:
        content, extras = event.take("content"), event.object("extras")
        state = text_in(extras, "agent_state") or text_in(event.value, "agent_state")
        if observation == "agent_state_changed" or observation in _NO_CALLS:
            if state in _FAILED_STATES:
                reason = text_in(extras, "reason") or as_text(content) or f"the agent's state is {state}"
                self.error = error_of(reason, "AgentError")
            self.talk.notes(observation, extras or content, at=at)
            return
        call_id = self._cause(event)
        if not call_id:
            self.talk.notes(observation, content, at=at)
            return
        if observation == "error":
            error = error_of(content, "ToolError")
        else:
            error = None
        self.talk.returns(content, call_id=call_id, error=error, ending=ToolErrors.RETURNED, at=at)

    def _cause(self, event: Fields) -> str:
        """The call that an observation is of, if it still waits for one."""
        cause = event.label("cause")
        call_id = text_in(event.object("tool_call_metadata"), "tool_call_id")
        found = call_id or (self._calls.get(cause, "") if cause is not None else self._last)
        if self.talk.turn_of(found) is not None:
            return found
        return ""


def read_history(source: Source, history: list[Json], path: JsonPath) -> Story:
    """The events, and pairs of them, in order."""
    story = Story(source)
    for index, item in enumerate(history):
        if isinstance(item, list):
            for place, event in enumerate(item):
                story.tell(event, (*path, index, place))
        else:
            story.tell(item, (*path, index))
    return story


def _arguments(event: Fields) -> dict[str, Json]:
    """The action's arguments; in older files they stand in the event itself."""
    if event.key("args"):
        return event.object("args")
    own = {name: value for name, value in event.value.items() if name not in (*_FRAME, *_FRAME_OF_CALLS)}
    return own | ({"content": event.value["content"]} if "content" in event.value else {})
