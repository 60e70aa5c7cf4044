"""ATIF, the Agent Trajectory Interchange Format of Harbor, v1.0 to v1.8.

    {"schema_version": "ATIF-v1.7", "session_id", "trajectory_id", "agent": {"name", "version", "model_name"},
     "steps": [{"step_id", "timestamp", "source": "system" | "user" | "agent", "message", "reasoning_content",
                "tool_calls": [{"tool_call_id", "function_name", "arguments"}],
                "observation": {"results": [{"source_call_id", "content", "subagent_trajectory_ref"}]},
                "metrics": {"prompt_tokens", "completion_tokens", "cost_usd"}}],
     "final_metrics", "subagent_trajectories", "extra"}

A step holds its calls and their results. Only `extra` may tell that a tool failed, or which reward was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from replaykit.formats.core.fields import Fields, error_of
from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.registry import Found, of_each, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNFINISHED, UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, canonical
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    joined_texts,
    object_in,
    objects_in,
    text_in,
    text_or_parts,
    value_in,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse, usage_of

FORMAT = "atif"
_SCHEMA = "ATIF-"
_REWARDS = ("reward", "rewards", "verifier_result")  # members of `extra` that may hold a verifier's rewards
_METADATA = ("session_id", "final_metrics", "notes", "continued_trajectory_ref")


register_format(
    FORMAT,
    "ATIF trajectories (Harbor), v1.0 to v1.8",
    lambda source: any(map(_is_trajectory, source.first[:1])),
    lambda source: of_each(source, _read_document),
)


def _is_trajectory(value: Json) -> bool:
    return isinstance(value, dict) and text_in(value, "schema_version").startswith(_SCHEMA)


def _read_document(source: Source) -> Iterator[Found]:
    trajectory = Fields(source, source.value, (), "a trajectory: an object with `schema_version` and `steps`")
    if not _is_trajectory(trajectory.value):
        raise source.error(f"expected a `schema_version` that begins with {_SCHEMA}", ("schema_version",))
    if not trajectory.items("steps"):
        raise source.error("a trajectory has steps, and this one has none", ("steps",))
    subagents = _subagents(trajectory)
    yield _read_run(trajectory, subagents)
    # Trajectories that no step refers to would otherwise be lost.
    while subagents:
        run = _read_run(subagents.pop(next(iter(subagents))), subagents)
        yield run
        yield f"no step refers to trajectory {run.id} of a sub-agent: it is a run of its own"


def _subagents(trajectory: Fields) -> Subagents:
    """Return all nested trajectories by id, however deep."""
    subagents: Subagents = {}
    rest = [trajectory]
    while rest:
        for inner in rest.pop().each("subagent_trajectories", "a trajectory"):
            id = inner.text("trajectory_id") or inner.text("session_id") or ""
            # Sub-agents of one session share its id.
            if not id or id in subagents:
                id = f"{id} {len(subagents)}"
            subagents[id] = inner
            rest.append(inner)
    return subagents


def _read_run(trajectory: Fields, subagents: Subagents) -> TraceRun:
    agent = trajectory.inner("agent")
    talk = Talk(tools=agent.items("tool_definitions"))
    conversation = AtifConversation(talk, agent.text("model_name") or "", subagents)
    conversation.tell(trajectory)
    status, error = conversation.ending
    extra = trajectory.object("extra")
    id = trajectory.text("trajectory_id") or trajectory.text("session_id")
    metadata = {name: trajectory.take(name) for name in _METADATA}
    run = talk.run(
        id=id or content_id(FORMAT, canonical(trajectory.value)),
        format=FORMAT,
        agent=agent.text("name") or "",
        agent_version=agent.text("version") or "",
        output=conversation.answer,
        status=status,
        error=error,
        started_at=min(conversation.times, default=0.0),
        ended_at=max(conversation.times, default=None),
        metadata=metadata | {"extra": extra, "agent_extra": agent.take("extra")},
    )
    return labelled(run, list(_labels(extra)))


def _labels(extra: JsonObject) -> Iterator[Label]:
    """Yield a label for each reward: a number, or several in an object."""
    # Verifiers report one number, an object of numbers, or an object around either.
    for name in _REWARDS:
        value = extra.get(name)
        rewards = object_in(value, "rewards") or as_object(value) or {name: value}
        for key, reward in rewards.items():
            if isinstance(reward, int | float):
                # Booleans count as numbers here: false is a failed check.
                yield Label(name=key, value=reward, failed=reward <= 0)


Subagents: TypeAlias = dict[str, Fields]
"""The trajectories of sub-agents by id, without those that were read already."""
_SOURCES = ("system", "user", "agent")
# The line that Harbor's converter adds to the result of a failed tool.
_FAILED_MARK = "[error] tool reported failure"
_MAX_DEPTH = 20


class AtifConversation:
    """Adds one trajectory to a talk."""

    def __init__(self, talk: Talk, model: str, subagents: Subagents, depth: int = 0) -> None:
        self._talk = talk
        self._model = model
        self._subagents = subagents
        self._depth = depth
        self._copied: list[Json] = []
        self._last = ""
        self._waiting: list[str] = []  # the open calls of the current step
        self.times: list[float] = []
        self.answer: Json = UNSET
        """The agent's last answer."""

    @property
    def ending(self) -> tuple[RunStatus, ErrorInfo | None]:
        """Return how the trajectory ended: well if its last step is the agent's and no call is open. Quality is in the
        labels."""
        if self._last == "agent" and not self._waiting:
            return RunStatus.SUCCESS, None
        return RunStatus.ERROR, UNFINISHED

    def tell(self, trajectory: Fields) -> None:
        for step in trajectory.each("steps", "a step"):
            self._step(step)

    def _step(self, step: Fields) -> None:
        by, name, at = step.required_text("source"), step.label("step_id"), step.time("timestamp") or 0.0
        self.times += [at] if at else []
        if by not in _SOURCES:
            raise step.error(f"expected one of {', '.join(_SOURCES)}, got {by!r}", "source")
        calls = [_use(Fields(step.source, call, step.path, "a call")) for call in step.items("tool_calls")]
        results = as_objects(value_in(step.take("observation"), "results"))
        if step.flag("is_copied_context"):
            self._copy(by, text_or_parts(step.take("message")), calls, results)
            return
        self._last, self._waiting = by, [use.id for use in calls]
        if by == "agent":
            self._act(step, calls, name, at)
        else:
            self._talk.says(by, text_or_parts(step.take("message")))
        for result in results:
            self._return(result, at)

    def _act(self, step: Fields, calls: list[ToolUse], name: str | None, at: float) -> None:
        message = text_or_parts(step.take("message"))
        if step.take("llm_call_count") == 0:  # the agent did this without asking a model
            for use in calls:
                self._talk.calls(use, at=at, step=name)
            if message:
                self._talk.notes("agent", message, at=at, step=name)
            return
        content = joined_texts(message)
        self._talk.answers(
            ModelAnswer(
                content=content or None,
                tool_calls=tuple(calls),
                thinking=step.text("reasoning_content") or None,
                parts=tuple(part for part in as_objects(message) if part.get("type") != "text"),
            ),
            model=step.text("model_name") or self._model,
            usage=_usage(step.object("metrics")),
            finish_reason=text_in(step.object("extra"), "stop_reason") or None,
            parameters=without_nulls({"reasoning_effort": step.take("reasoning_effort")}),
            at=at,
            step=name,
        )
        self.answer = content or UNSET

    def _return(self, result: JsonObject, at: float) -> None:
        content, failed = text_or_parts(result.get("content")), object_in(result, "extra").get("tool_result_is_error")
        call_id = text_in(result, "source_call_id")
        # An observation that names no call is that of the first open one, or of the environment.
        if not call_id and not self._waiting:
            self._talk.says("user", content)  # an observation of the environment, not of a call
            return
        call_id = call_id or self._waiting[0]
        self._waiting = [id for id in self._waiting if id != call_id]
        # The steps of a sub-agent belong inside the call that started it.
        for ref in objects_in(result, "subagent_trajectory_ref"):
            self._inside(ref, call_id)
        text, error = joined_texts(content), None
        if failed is True or text.endswith(_FAILED_MARK):
            error = error_of(text.removesuffix(_FAILED_MARK).rstrip(), "ToolError")
        self._talk.returns(content, call_id=call_id, failed=False if failed is False else None, error=error, at=at)

    def _inside(self, ref: JsonObject, call_id: str) -> None:
        """Add the sub-agent's own steps if the document has them; else a note with the reference."""
        turn = self._talk.turn_of(call_id)
        for id in (text_in(ref, "trajectory_id"), text_in(ref, "session_id")):
            if id in self._subagents and turn is not None and self._depth < _MAX_DEPTH:
                inner = self._subagents.pop(id)
                agent = inner.take("agent")
                talk = self._talk.inside(turn, tools=value_in(agent, "tool_definitions"))
                AtifConversation(talk, text_in(agent, "model_name"), self._subagents, self._depth + 1).tell(inner)
                return
        self._talk.notes("subagent_trajectory_ref", ref)

    def _copy(self, by: str, message: Json, calls: list[ToolUse], results: list[JsonObject]) -> None:
        """Add a step copied from another trajectory to the history, without events: it counts there."""
        if by == "agent":
            self._copied.append(ModelAnswer(content=joined_texts(message) or None, tool_calls=tuple(calls)).message)
        else:
            self._copied.append({"role": by, "content": message})
        for index, result in enumerate(results):
            id = text_in(result, "source_call_id")
            if not id and index < len(calls):
                id = calls[index].id
            self._copied.append({"role": "tool", "content": text_or_parts(result.get("content")), "tool_call_id": id})
        self._talk.catches_up(self._copied)


def _use(call: Fields) -> ToolUse:
    arguments = read_arguments(call.take("arguments"))
    return ToolUse(id=call.text("tool_call_id") or "", name=call.text("function_name") or "", arguments=arguments)


def _usage(metrics: JsonObject) -> Usage | None:
    """Return the usage; prompt tokens include cached ones."""
    counts = {**metrics, "cost": metrics.get("cost_usd")}
    return usage_of(counts, inputs=("prompt_tokens",), outputs=("completion_tokens",))
