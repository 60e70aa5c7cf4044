"""The events of an OpenHands trajectory, told as a conversation."""

from __future__ import annotations

from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.source import JsonPath, Source
from replaykit.formats.core.talk import UNSET, Talk
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.matching import ToolErrors
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.openai_chat import DIALECT

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
        message = as_text(args.get("content")) or as_text(event.value.get("message"))
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
            outputs = as_text(as_object(args.get("outputs")).get("content"))
            self.answer = (
                next((text for name in words if (text := as_text(args.get(name)))), outputs) or message or UNSET
            )
            self._answers(event, ModelAnswer(content=as_text(self.answer) or None), at)
        elif action in _NO_CALLS:
            self.talk.notes(action, args, at=at)
        else:
            self._calls_tool(event, action, args, at)

    def _calls_tool(self, event: Fields, action: str, args: dict[str, Json], at: float) -> None:
        call_metadata = event.object("tool_call_metadata")
        call_id = as_text(call_metadata.get("tool_call_id")) or f"event-{event.label('id') or len(self._calls)}"
        self._calls[event.label("id") or call_id] = call_id
        self._last = call_id
        arguments = {name: item for name, item in args.items() if name not in _NOT_ARGUMENTS}
        use = ToolUse(id=call_id, name=as_text(call_metadata.get("function_name")) or action, arguments=arguments)
        self._answers(event, ModelAnswer(content=as_text(args.get("thought")) or None, tool_calls=(use,)), at)

    def _answers(self, event: Fields, answer: ModelAnswer, at: float) -> None:
        """What the model said: its response, where the event has it, once; else what the event says."""
        body = as_object(as_object(event.value.get("tool_call_metadata")).get("model_response"))
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
        state = as_text(extras.get("agent_state")) or as_text(event.value.get("agent_state"))
        if observation == "agent_state_changed" or observation in _NO_CALLS:
            if state in _FAILED_STATES:
                reason = as_text(extras.get("reason")) or as_text(content) or f"the agent's state is {state}"
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
        call_id = as_text(event.object("tool_call_metadata").get("tool_call_id"))
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
