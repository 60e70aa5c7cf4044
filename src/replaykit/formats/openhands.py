"""OpenHands trajectories: lists of events, and the `output.jsonl` of evaluations and of the resolver.

    [event, …]    {history: [event, …]}    one such object on each line, with the evaluation:
    {instance_id, instruction, history, git_patch, metrics: {accumulated_cost}, error,
     test_result: {report: {resolved}}, report: {resolved}, resolved, success, result_explanation}

    event  {id, timestamp, source, message, action, args, tool_call_metadata: {function_name, tool_call_id,
            model_response}}   or   {id, cause, observation, content, extras}

An action is what the agent does; an observation is its result, linked by `cause`, or else to the action before. In
older files the arguments are in the event itself, and both may be paired in lists. `model_response` is a chat
completion; actions that share one are one answer with several calls. An action without it is an answer of an unnamed
model. `finish` is not a tool call but the agent's answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.core.fields import Fields, TraceItem, error_of
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.registry import Found, collect, read_each, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.json_positions import DocumentPath
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, canonical
from replaykit.wire.json_fields import as_list, as_object, as_objects, as_text, object_in, text_in, value_in, without
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.openai_chat import DIALECT

FORMAT = "openhands"
_METADATA = words_of("issue issue_type base_commit git_patch metadata metrics test_result report")
_SHORT = 2_000


def _recognises(source: Source) -> bool:
    if not source.first:
        return False
    value = source.first[0]
    if isinstance(value, list):
        return _are_events(value) and not source.is_lines
    return _are_events(value_in(value, "history")) or _is_event_line(value, source)


def _read_file(source: Source) -> Iterator[Found]:
    if source.is_lines and source.first and _is_event_line(source.first[0], source):
        # One event on each line: together they are one run.
        events: list[Json] = []
        yield from collect(source.documents(), lambda line: line.value, events)
        yield _read(Source(b"", source.file, value=events))
        return
    yield from read_each(source.documents(), _read)


register_format(FORMAT, "OpenHands: event lists, and `output.jsonl` with `history`", _recognises, _read_file)


def _are_events(value: Json) -> bool:
    events: list[Json] = []
    for item in as_list(value)[:5]:
        if isinstance(item, list):
            events += item
        else:
            events.append(item)
    return bool(events) and all(map(_is_event, events))


def _is_event(value: Json) -> bool:
    """Recognise an event: one word for the action or observation, and a member of OpenHands' own."""
    if not isinstance(value, dict) or not isinstance(value.get("action", value.get("observation")), str):
        return False
    return not value.keys().isdisjoint(("args", "content", "thought", "extras"))


def _is_event_line(value: Json, source: Source) -> bool:
    return source.is_lines and _is_event(value) and "source" in as_object(value)


def _read(source: Source) -> TraceRun:
    value = source.value
    path: DocumentPath = ("history",)
    if isinstance(value, list):
        value, path = {"history": value}, ()
    whole = Fields(source, value, (), "events of OpenHands")
    history = whole.items("history")
    if not _are_events(history[:1]):
        raise whole.error("expected the events of OpenHands", "history")
    conversation = read_history(source, history, path)
    failure, status = whole.take("error"), None
    if failure:
        conversation.error = error_of(failure, "AgentError")
    if conversation.error is not None:
        status = RunStatus.ERROR
    instruction = whole.text("instruction")
    run = conversation.talk.run(
        id=content_id(FORMAT, canonical(source.value)),
        format=FORMAT,
        name=whole.label("instance_id") or _issue(whole),
        agent="OpenHands",
        input=UNSET if instruction is None else instruction,
        output=conversation.talk.output if conversation.answer is UNSET else conversation.answer,
        error=conversation.error,
        status=status,
        metadata={name: _short(whole.take(name)) for name in _METADATA},
    )
    return labelled(run, list(_labels(whole)))


def _issue(whole: Fields) -> str:
    issue = object_in(whole.value, "issue")
    return "/".join(str(issue[name]) for name in ("owner", "repo", "number") if issue.get(name) is not None)


def _labels(whole: Fields) -> Iterator[Label]:
    tested = whole.value.get("test_result")
    for report in (value_in(tested, "report"), tested, whole.value.get("report"), whole.value):
        resolved = value_in(report, "resolved")
        if type(resolved) is bool:
            yield Label(name="resolved", value=resolved, failed=not resolved)
            break
    success = whole.take("success")
    if type(success) is bool:
        reasons = whole.take("result_explanation")
        why = as_text(reasons) or "; ".join(map(as_text, as_list(reasons)))
        yield Label(name="success", value=success, failed=not success, why=why)


def _short(value: Json) -> Json:
    """Return a value for the metadata, with long texts cut."""
    if isinstance(value, str) and len(value) > _SHORT:
        return f"{value[:_SHORT]}…"
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_short, as_objects(value))) or value
    return value


# Arguments of an action about how it came about, not what to do.
_NOT_ARGUMENTS = ("thought", "is_confirmed", "confirmation_state", "action_risk", "security_risk", "keep_prompt")
_FRAME = words_of("id timestamp source message action args cause timeout content extras success")
# The members around the arguments, in files that have them in the event itself.
_FRAME_OF_CALLS = ("tool_call_metadata", "llm_metrics", "observation")
_NO_CALLS = ("change_agent_state", "null", "recall", "condensation", "condensation_request", "agent_state_changed")
_FAILED_STATES = ("error", "rate_limited")


class OpenHandsConversation:
    """The conversation in a list of events."""

    def __init__(self, source: Source) -> None:
        self.talk = Talk()
        self.answer: Json = UNSET
        self.error: ErrorInfo | None = None
        self._source = source
        self._answered: set[str] = set()
        self._calls: dict[str, str] = {}
        self._last = ""

    def tell(self, value: Json, path: DocumentPath) -> None:
        """Add one event."""
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
            answer = text_in(args, "final_thought", "thought") or text_in(args.get("outputs"), "content") or message
            self.answer = answer or UNSET
            self._answers(event, ModelAnswer(content=answer or None), at)
        elif action in _NO_CALLS:
            self.talk.notes(action, args, at=at)
        else:
            self._calls_tool(event, action, args, at)

    def _calls_tool(self, event: Fields, action: str, args: JsonObject, at: float) -> None:
        call_metadata = event.object("tool_call_metadata")
        call_id = text_in(call_metadata, "tool_call_id") or f"event-{event.label('id') or len(self._calls)}"
        self._calls[event.label("id") or call_id] = call_id
        self._last = call_id
        arguments = without(args, *_NOT_ARGUMENTS)
        use = ToolUse(id=call_id, name=text_in(call_metadata, "function_name") or action, arguments=arguments)
        self._answers(event, ModelAnswer(content=text_in(args, "thought") or None, tool_calls=(use,)), at)

    def _answers(self, event: Fields, answer: ModelAnswer, at: float) -> None:
        """Add the model's answer: its response, once, if the event has it; else the text of the event."""
        body = object_in(event.value.get("tool_call_metadata"), "model_response")
        response = DIALECT.read_response(body)
        if not body or not response.answers:
            self.talk.answers(answer, at=at)
            return
        if response.id and response.id in self._answered:
            return
        self._answered.add(response.id)
        spoken = response.answers[0]
        # `finish` is not a tool call, but how the agent gives its answer.
        calls = tuple(call for call in spoken.tool_calls if call.name != "finish")
        whole = ModelAnswer(content=spoken.content or answer.content, tool_calls=calls, thinking=spoken.thinking)
        usage = response.usage or Usage()
        self.talk.answers(whole, model=response.model, usage=usage, finish_reason=response.finish_reason, at=at)

    def _sees(self, event: Fields, observation: str, at: float) -> None:
        content, extras = event.take("content"), event.object("extras")
        state = text_in(extras, "agent_state") or text_in(event.value, "agent_state")
        if observation in _NO_CALLS:
            if state in _FAILED_STATES:
                reason = text_in(extras, "reason") or as_text(content) or f"the agent's state is {state}"
                self.error = error_of(reason, "AgentError")
            self.talk.notes(observation, extras or content, at=at)
            return
        call_id, error = self._cause(event), None
        if not call_id:
            self.talk.notes(observation, content, at=at)
            return
        if observation == "error":
            error = error_of(content, "ToolError")
        self.talk.returns(content, call_id=call_id, error=error, ending=ToolErrors.RETURNED, at=at)

    def _cause(self, event: Fields) -> str:
        """Return the open call that an observation belongs to."""
        cause = event.label("cause")
        found = text_in(event.object("tool_call_metadata"), "tool_call_id")
        if not found and cause is None:
            found = self._last
        elif not found:
            found = self._calls.get(cause or "", "")
        if self.talk.turn_of(found) is None:
            return ""
        return found


def read_history(source: Source, history: list[Json], path: DocumentPath) -> OpenHandsConversation:
    """Read the events, and pairs of events, in order."""
    conversation = OpenHandsConversation(source)
    for item in TraceItem(source, history, path).members():
        for event in item.members():
            conversation.tell(event.value, event.path)
    return conversation


def _arguments(event: Fields) -> JsonObject:
    """Return the action's arguments; older files have them in the event itself."""
    if event.key("args"):
        return event.object("args")
    own = without(event.value, *_FRAME, *_FRAME_OF_CALLS)
    if "content" in event.value:
        own["content"] = event.value["content"]
    return own
