"""SWE-agent trajectories (`.traj`): a model's thoughts and actions in a shell, step by step.

    {environment, replay_config,
     trajectory: [{response, thought, action, observation, state, execution_time}, …],
     history: [{role, content, thought, action, agent, is_demo, tool_calls, tool_call_ids, message_type}, …],
     info: {exit_status, submission, model_stats: {instance_cost, tokens_sent, tokens_received, api_calls}}}

`trajectory` has every step. `history` has the messages that the model saw, but may lack the last ones; a demonstration
has nothing else. An action that the model wrote as text is a call of `bash`; function calls keep their names. Tokens
and cost are known for the whole run only, and stay in its metadata. The submission is the output.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replaykit.formats.core.fields import Fields
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.registry import of_each, register_format
from replaykit.formats.core.replayability import with_total
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, canonical
from replaykit.wire.json_fields import (
    as_object,
    as_text,
    count_in,
    has_list,
    has_object,
    joined_texts,
    objects_in,
    text_in,
    value_in,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "swe_agent"
SHELL = "bash"
"""The tool of actions that are plain text."""
_SUBMIT, _SUBMITTED = "submit", "submitted"
_TIMED_OUT = "EXECUTION TIMED OUT"
_EXITS = {"exit_cost": "the cost limit was reached", "exit_context": "the context window is full"}


register_format(
    FORMAT,
    "SWE-agent: trajectories (`.traj`)",
    lambda source: bool(source.first) and _is_trajectory(source.first[0]),
    lambda source: of_each(source, lambda document: [_read(document)]),
)


class _AgentStep(Struct, frozen=True, kw_only=True):
    """One turn of the model and its result."""

    text: str
    action: str
    uses: tuple[ToolUse, ...]
    observation: Json = UNSET
    shown: Json = UNSET
    """The observation as the model saw it, if the history has it."""
    duration_s: float = 0.0
    state: Json = None


def _is_trajectory(value: Json) -> bool:
    if not has_list(value, "history"):
        return False
    if has_list(value, "trajectory") and has_object(value, "info"):
        return True
    names = [message.keys() for message in objects_in(value, "history")]
    return all("agent" in keys for keys in names) and any("action" in keys for keys in names)


def _read(source: Source) -> TraceRun:
    whole = Fields(source, source.value, (), "a trajectory of SWE-agent")
    if not _is_trajectory(whole.value):
        raise whole.error("expected the trajectory and history of SWE-agent", "trajectory", "history")
    steps = list(whole.each("trajectory", "a step"))
    history = list(whole.each("history", "a message"))
    system = [_text(message) for message in history if message.text("role") == "system"]
    talk = Talk(system="\n\n".join(filter(None, system)) or None)
    question: Json = UNSET
    for message in history[: _first_answer(history)]:
        role, content = message.text("role"), message.take("content")
        if role != "system":
            talk.says(role or "user", content)
            if not message.value.get("is_demo"):
                question = content
    model = _model(whole)
    turns = _turns(history)
    steps_read = list(_from_trajectory(steps, turns) if steps else _from_history(turns))
    for step in steps_read:
        _add_step(talk, step, model)
    return _run(whole, talk, question, steps_read)


def _run(whole: Fields, talk: Talk, question: Json, steps: list[_AgentStep]) -> TraceRun:
    info = whole.inner("info")
    status, submission = info.text("exit_status"), info.take("submission")
    if status is None and submission is None and steps and steps[-1].action.split()[:1] == [_SUBMIT]:
        submission = steps[-1].observation
        if submission is UNSET:
            submission = None
    run_status, error = None, None
    if status == _SUBMITTED or (status is None and submission is not None):
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
    for holder in (info.value, whole.value):
        resolved = holder.get("resolved")
        if type(resolved) is bool:
            return labelled(run, [Label(name="resolved", value=resolved, failed=not resolved)])
    return run


def _usage(stats: JsonObject) -> Usage | None:
    """Return the tokens and cost of the whole run; None if no API was called."""
    sent, cost = count_in(stats, "tokens_sent"), stats.get("instance_cost")
    if not sent:
        return None
    if not isinstance(cost, float) or cost <= 0:
        cost = None
    return Usage(input_tokens=sent, output_tokens=count_in(stats, "tokens_received"), cost_usd=cost)


def _exit(status: str) -> str:
    for name, meaning in _EXITS.items():
        if name in status:
            return f"{status}: {meaning}"
    return status


def _add_step(talk: Talk, step: _AgentStep, model: str) -> None:
    talk.answers(ModelAnswer(content=step.text or None, tool_calls=step.uses), model=model)
    shown = step.observation if step.shown is UNSET else step.shown
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
    elif shown is not UNSET:
        talk.says("user", shown)
    if step.state:
        talk.notes("state", step.state)


def _from_trajectory(steps: list[Fields], turns: list[_HistoryTurn]) -> Iterator[_AgentStep]:
    """Yield the steps, each with its message from the history if there is one."""
    calls_functions = any(message.value.get("tool_calls") for message, _answer in turns)
    waiting, state = iter(turns), None
    turn = next(waiting, None)
    for step in steps:
        action = step.text("action") or ""
        shown: Json = UNSET
        calls: Json = step.take("tool_calls")
        if turn is not None and text_in(turn[0].value, "action").strip() == action.strip():
            message, answer = turn
            calls = calls or message.value.get("tool_calls")
            if answer is not None:
                shown = answer.value.get("content")
            turn = next(waiting, None)
        before, state = state, load_json(step.take("state"))
        yield _AgentStep(
            text=step.text("response", "thought") or "",
            action=action,
            uses=_uses(calls, action, named=calls_functions),
            observation=step.take("observation"),
            shown=shown,
            duration_s=step.number("execution_time") or 0.0,
            state=None if state == before else state,
        )


def _from_history(turns: list[_HistoryTurn]) -> Iterator[_AgentStep]:
    for message, answer in turns:
        content: Json = UNSET
        if answer is not None:
            content = answer.take("content")
        calls, action = message.take("tool_calls"), message.text("action") or ""
        uses = _uses(calls, action, named=bool(calls))
        yield _AgentStep(text=_text(message), action=action, uses=uses, observation=content, shown=content)


_HistoryTurn = tuple[Fields, Fields | None]  # an answer of the model, and the observation after it


def _turns(history: list[Fields]) -> list[_HistoryTurn]:
    """Return the answers of the model, each with the observation after it."""
    found: list[_HistoryTurn] = []
    for message in history[_first_answer(history) :]:
        if message.text("role") == "assistant":
            found.append((message, None))
        elif found and found[-1][1] is None:
            found[-1] = (found[-1][0], message)
    return found


def _first_answer(history: list[Fields]) -> int:
    for index, message in enumerate(history):
        if message.text("role") == "assistant" and not message.value.get("is_demo"):
            return index
    return len(history)


def _uses(calls: Json, action: str, *, named: bool) -> tuple[ToolUse, ...]:
    if calls:
        messages = messages_of([{"role": "assistant", "content": None, "tool_calls": calls}]) or [{}]
        return tuple(ToolUse(**call) for call in as_object(messages[0]).get("tool_calls", ()))
    if not action.strip():
        return ()
    if named and action.strip().isidentifier():  # `submit`, which is not in the history any more
        return (ToolUse(name=action.strip()),)
    return (ToolUse(name=SHELL, arguments={"command": action}),)


def _text(message: Fields) -> str:
    return joined_texts(message.value.get("content"))


def _model(whole: Fields) -> str:
    settings = load_json(whole.take("replay_config"))
    return text_in(value_in(value_in(settings, "agent"), "model"), "name")
