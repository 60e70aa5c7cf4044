"""The steps of a trajectory, told to a `Talk`; those of a sub-agent inside of the call whose result refers to it."""

from __future__ import annotations

from typing import TypeAlias

from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.talk import UNFINISHED, UNSET, Talk
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text, joined
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.usage import usage_of

Subagents: TypeAlias = dict[str, Fields]
"""The trajectories of sub-agents, by their ids; told ones leave."""
_SOURCES = ("system", "user", "agent")
_FAILED_MARK = "[error] tool reported failure"
"""What Harbor's converter writes below the result of a tool that failed."""
_MAX_DEPTH = 20


class AtifConversation:
    """Tells one trajectory."""

    def __init__(self, talk: Talk, model: str, subagents: Subagents, depth: int = 0) -> None:
        self._talk = talk
        self._model = model
        self._subagents = subagents
        self._depth = depth
        self._copied: list[Json] = []
        self._last = ""
        self._waiting: list[str] = []
        """The calls of the step that have not returned."""
        self.times: list[float] = []
        self.answer: Json = UNSET
        """What the agent said last."""

    @property
    def ending(self) -> tuple[RunStatus, ErrorInfo | None]:
        """A trajectory ends with a step of the agent, whose calls have returned; how good it was is told elsewhere."""
        if self._last == "agent" and not self._waiting:
            return RunStatus.SUCCESS, None
        return RunStatus.ERROR, UNFINISHED

    def tell(self, trajectory: Fields) -> None:
        for index, value in enumerate(trajectory.items("steps")):
            self._step(Fields(trajectory.source, value, (*trajectory.path, "steps", index), "a step"))

    def _step(self, step: Fields) -> None:
        by, name, at = step.required_text("source"), step.label("step_id"), step.time("timestamp") or 0.0
        self.times += [at] if at else []
        if by not in _SOURCES:
            raise step.error(f"expected one of {', '.join(_SOURCES)}, got {by!r}", "source")
        calls = [_use(Fields(step.source, call, step.path, "a call")) for call in step.items("tool_calls")]
        results = as_objects(as_object(step.take("observation")).get("results"))
        if step.flag("is_copied_context"):
            self._copy(by, _plain(step.take("message")), calls, results)
            return
        self._last, self._waiting = by, [use.id for use in calls]
        if by == "agent":
            self._act(step, calls, name, at)
        else:
            self._talk.says(by, _plain(step.take("message")))
        for result in results:
            self._return(result, at)

    def _act(self, step: Fields, calls: list[ToolUse], name: str | None, at: float) -> None:
        message = _plain(step.take("message"))
        if step.take("llm_call_count") == 0:  # the agent did this without asking a model
            for use in calls:
                self._talk.calls(use, at=at, step=name)
            if message:
                self._talk.notes("agent", message, at=at, step=name)
            return
        parts = as_objects(message)
        answer = ModelAnswer(
            content=_text(message) or None,
            tool_calls=tuple(calls),
            thinking=step.text("reasoning_content") or None,
            parts=tuple(part for part in parts if part.get("type") != "text"),
        )
        effort = step.take("reasoning_effort")
        self._talk.answers(
            answer,
            model=step.text("model_name") or self._model,
            usage=_usage(step.object("metrics")),
            finish_reason=as_text(step.object("extra").get("stop_reason")) or None,
            parameters={} if effort is None else {"reasoning_effort": effort},
            at=at,
            step=name,
        )
        if answer.content is None:
            self.answer = UNSET
        else:
            self.answer = answer.content

    def _return(self, result: dict[str, Json], at: float) -> None:
        content, extra = _plain(result.get("content")), as_object(result.get("extra"))
        call_id = as_text(result.get("source_call_id"))
        if not call_id and not self._waiting:
            self._talk.says("user", content)  # what the agent saw around it, of no call
            return
        call_id = call_id or self._waiting[0]
        self._waiting = [id for id in self._waiting if id != call_id]
        for ref in as_objects(result.get("subagent_trajectory_ref")):
            self._inside(ref, call_id)
        failed = extra.get("tool_result_is_error")
        error_text = _text(content).removesuffix(_FAILED_MARK)
        if failed is True or error_text != _text(content):
            error = error_of(error_text.rstrip(), "ToolError")
        else:
            error = None
        self._talk.returns(content, call_id=call_id, failed=False if failed is False else None, error=error, at=at)

    def _inside(self, ref: dict[str, Json], call_id: str) -> None:
        """The sub-agent's own steps, where the document has them; else what is said of them."""
        ids = (as_text(ref.get(name)) for name in ("trajectory_id", "session_id"))
        id = next((id for id in ids if id in self._subagents), None)
        turn = self._talk.turn_of(call_id)
        if id is None or turn is None or self._depth >= _MAX_DEPTH:
            self._talk.notes("subagent_trajectory_ref", ref)
            return
        inner = self._subagents.pop(id)
        who = as_object(inner.take("agent"))
        talk = self._talk.inside(turn, tools=who.get("tool_definitions"))
        AtifConversation(talk, as_text(who.get("model_name")), self._subagents, self._depth + 1).tell(inner)

    def _copy(self, by: str, message: Json, calls: list[ToolUse], results: list[dict[str, Json]]) -> None:
        """A step of another trajectory, which is counted there: it is heard, and nothing happens."""
        if by == "agent":
            self._copied.append(ModelAnswer(content=_text(message) or None, tool_calls=tuple(calls)).message)
        else:
            self._copied.append({"role": by, "content": message})
        for result, use in zip(results, [*calls, *[None] * len(results)], strict=False):
            id = as_text(result.get("source_call_id")) or (use.id if use else "")
            self._copied.append({"role": "tool", "content": _plain(result.get("content")), "tool_call_id": id})
        self._talk.catches_up(self._copied)


def _use(call: Fields) -> ToolUse:
    arguments = read_arguments(call.take("arguments"))
    return ToolUse(id=call.text("tool_call_id") or "", name=call.text("function_name") or "", arguments=arguments)


def _usage(metrics: dict[str, Json]) -> Usage | None:
    """Tokens of the prompt include those that were cached."""
    counts = {**metrics, "cost": metrics.get("cost_usd")}
    return usage_of(counts, inputs=("prompt_tokens",), outputs=("completion_tokens",))


def _plain(content: Json) -> Json:
    """A text, where the parts are nothing else."""
    if isinstance(content, list) and all(as_object(part).get("type") == "text" for part in content):
        return _text(content)
    return content


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    return joined((as_text(part.get("text")) for part in as_objects(content)), "\n") or ""
