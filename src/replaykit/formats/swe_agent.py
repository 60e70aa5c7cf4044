"""SWE-agent trajectories (`.traj`): what the model thought and did in a shell, step by step.

    {environment, replay_config,
     trajectory: [{response, thought, action, observation, state, execution_time}, …],
     history: [{role, content, thought, action, agent, is_demo, tool_calls, tool_call_ids, message_type}, …],
     info: {exit_status, submission, model_stats: {instance_cost, tokens_sent, tokens_received, api_calls}}}

`trajectory` has every step; `history` has what the model was told, but may lack the last ones, and is all there is in
a demonstration. An action that the model wrote as text is a call of `bash`; where it called functions, they have their
names. Tokens and cost are known of the whole run only, and stay in its metadata. What was submitted is the output.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replaykit.formats.core.fields import Fields
from replaykit.formats.core.items import of_each
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.members import count_in, object_in, text_in
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.formats.core.totals import with_total
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "swe_agent"
SHELL = "bash"
"""The tool of an action that is text."""
_SUBMIT, _SUBMITTED = "submit", "submitted"
_TIMED_OUT = "EXECUTION TIMED OUT"
_EXITS = {"exit_cost": "the cost limit was reached", "exit_context": "the context window is full"}


class SweAgentImporter:
    """Reads trajectories of SWE-agent."""

    name = FORMAT
    title = "SWE-agent: trajectories (`.traj`)"

    def recognises(self, source: Source) -> bool:
        return bool(source.first) and _is_trajectory(source.first[0])

    def read(self, source: Source) -> Iterator[Found]:
        yield from of_each(source, lambda document: [_read(document)])


IMPORTERS.register(FORMAT)(SweAgentImporter())


class _AgentStep(Struct, frozen=True, kw_only=True):
    """One turn of the model and what came of it."""

    text: str
    action: str
    uses: tuple[ToolUse, ...]
    observation: Json = UNSET
    shown: Json = UNSET
    """The observation as the model saw it, where the history has it."""
    duration_s: float = 0.0
    state: Json = None


def _is_trajectory(value: Json) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        return False
    if isinstance(value.get("trajectory"), list) and isinstance(value.get("info"), dict):
        return True
    history = as_objects(value["history"])
    return (
        bool(history)
        and all("agent" in message for message in history)
        and any("action" in message for message in history)
    )


def _read(source: Source) -> TraceRun:
    whole = Fields(source, source.value, (), "a trajectory of SWE-agent")
    if not _is_trajectory(whole.value):
        raise whole.error("expected the trajectory and history of SWE-agent", "trajectory", "history")
    steps = [Fields(source, item, ("trajectory", i), "a step") for i, item in enumerate(whole.items("trajectory"))]
    history = [Fields(source, item, ("history", i), "a message") for i, item in enumerate(whole.items("history"))]
    info = Fields(source, whole.object("info"), ("info",))
    opening = [message for message in history[: _first_answer(history)] if message.text("role") != "system"]
    talk = Talk(system="\n\n".join(filter(None, map(_text, _of_role(history, "system")))) or None)
    for message in opening:
        talk.says(message.text("role") or "user", message.take("content"))
    turns = _turns(history)
    model = _model(whole)
    steps_read = list(_from_trajectory(steps, turns) if steps else _from_history(turns))
    for step in steps_read:
        _tell(talk, step, model)
    question = next((item.take("content") for item in reversed(opening) if not item.value.get("is_demo")), UNSET)
    return _run(whole, info, talk, question, steps_read[-1] if steps_read else None)


def _run(whole: Fields, info: Fields, talk: Talk, question: Json, last: _AgentStep | None) -> TraceRun:
    status, submission = info.text("exit_status"), info.take("submission")
    if status is None and submission is None and last is not None and last.action.split()[:1] == [_SUBMIT]:
        if last.observation is UNSET:
            submission = None
        else:
            submission = last.observation
    if status is not None:
        submitted = status == _SUBMITTED
    else:
        submitted = submission is not None
    run_status, error = None, None
    if submitted:
        run_status = RunStatus.SUCCESS
    elif status is not None:
        run_status, error = RunStatus.ERROR, ErrorInfo(type="Exit", message=_exit(status))
    run = talk.run(
        id=content_id(FORMAT, canonical(whole.value)),
        format=FORMAT,
        name=whole.text("environment") or "",
        agent="SWE-agent",
        input=question,
        output=talk.output if submission is None else submission,
        status=run_status,
        error=error,
        metadata={"exit_status": status, "model_stats": info.take("model_stats")},
    )
    run = with_total(run, _usage(info.object("model_stats")))
    resolved = next(
        (holder["resolved"] for holder in (info.value, whole.value) if type(holder.get("resolved")) is bool), None
    )
    if resolved is None:
        return run
    return labelled(run, [Label(name="resolved", value=resolved, failed=not resolved)])


def _usage(stats: dict[str, Json]) -> Usage | None:
    """Tokens and money of the whole run; nothing where no API was called."""
    if not count_in(stats, "tokens_sent"):
        return None
    cost = stats.get("instance_cost")
    return Usage(
        input_tokens=count_in(stats, "tokens_sent"),
        output_tokens=count_in(stats, "tokens_received"),
        cost_usd=cost if isinstance(cost, float) and cost > 0 else None,
    )


def _exit(status: str) -> str:
    meant = next((words for name, words in _EXITS.items() if name in status), "")
    if meant:
        return f"{status}: {meant}"
    return status


def _tell(talk: Talk, step: _AgentStep, model: str) -> None:
    talk.answers(ModelAnswer(content=step.text or None, tool_calls=step.uses), model=model)
    if step.uses and step.observation is not UNSET:
        error = None
        if as_text(step.observation).strip() == _TIMED_OUT:
            error = ErrorInfo(type="TimeoutError", message=_TIMED_OUT)
        talk.returns(
            step.observation,
            call_id=step.uses[0].id,
            error=error,
            ending=ToolErrors.RETURNED,
            duration_s=step.duration_s,
            told_model=step.shown,
        )
    elif (observation := step.observation if step.shown is UNSET else step.shown) is not UNSET:
        talk.says("user", observation)
    if step.state:
        talk.notes("state", step.state)


def _from_trajectory(steps: list[Fields], turns: list[tuple[Fields, Fields | None]]) -> Iterator[_AgentStep]:
    """The steps, each with its message in the history where that has it."""
    calls_functions = any(message.value.get("tool_calls") for message, _answer in turns)
    waiting, state = iter(turns), None
    turn = next(waiting, None)
    for step in steps:
        action = step.text("action") or ""
        shown: Json = UNSET
        calls: Json = step.take("tool_calls")
        if turn is not None and text_in(turn[0].value, "action").strip() == action.strip():
            calls = calls or turn[0].value.get("tool_calls")
            if turn[1] is None:
                shown = UNSET
            else:
                shown = turn[1].value.get("content")
            turn = next(waiting, None)
        now = load_json(step.take("state"))
        yield _AgentStep(
            text=step.text("response", "thought") or "",
            action=action,
            uses=_uses(calls, action, named=calls_functions),
            observation=step.take("observation"),
            shown=shown,
            duration_s=step.number("execution_time") or 0.0,
            state=None if now == state else now,
        )
        state = now


def _from_history(turns: list[tuple[Fields, Fields | None]]) -> Iterator[_AgentStep]:
    for message, answer in turns:
        if answer is None:
            content = UNSET
        else:
            content = answer.take("content")
        calls, action = message.take("tool_calls"), message.text("action") or ""
        uses = _uses(calls, action, named=bool(calls))
        yield _AgentStep(text=_text(message), action=action, uses=uses, observation=content, shown=content)


def _turns(history: list[Fields]) -> list[tuple[Fields, Fields | None]]:
    """Return the answers of the model, each with the observation that followed."""
    turns = history[_first_answer(history) :]
    answers = [*turns[1:], None]
    return [
        (message, None if answer is None or answer.text("role") == "assistant" else answer)
        for message, answer in zip(turns, answers, strict=False)
        if message.text("role") == "assistant"
    ]


def _first_answer(history: list[Fields]) -> int:
    own = (i for i, turn in enumerate(history) if turn.text("role") == "assistant" and not turn.value.get("is_demo"))
    return next(own, len(history))


def _of_role(history: list[Fields], role: str) -> list[Fields]:
    return [message for message in history if message.text("role") == role]


def _uses(calls: Json, action: str, *, named: bool) -> tuple[ToolUse, ...]:
    if calls:
        messages = messages_of([{"role": "assistant", "content": None, "tool_calls": calls}]) or [{}]
        return tuple(ToolUse(**call) for call in as_object(messages[0]).get("tool_calls", ()))
    if not action.strip():
        return ()
    if named and action.strip().isidentifier():  # `submit`, which the history no longer tells of
        return (ToolUse(name=action.strip()),)
    return (ToolUse(name=SHELL, arguments={"command": action}),)


def _text(message: Fields) -> str:
    content = message.value.get("content")
    parts = (text_in(part, "text") for part in as_objects(content))
    return as_text(content) or "\n".join(filter(None, parts))


def _model(whole: Fields) -> str:
    settings = as_object(load_json(whole.take("replay_config")))
    return text_in(object_in(object_in(settings, "agent"), "model"), "name")
