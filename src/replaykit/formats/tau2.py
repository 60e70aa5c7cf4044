"""tau2-bench results: simulations of an agent, a user and an environment, each with its reward.

    {info: {agent_info: {llm}, environment_info: {domain_name, policy}}, tasks: [{id, evaluation_criteria}],
     simulations: [{id, task_id, trial, start_time, end_time, termination_reason, agent_cost, user_cost,
       reward_info: {reward, reward_basis, reward_breakdown, db_check, action_checks, communicate_checks, …},
       messages: [{role, content, tool_calls: [{id, name, arguments, requestor}], usage, cost, timestamp, raw_data}]}]}

A user may call tools, too (`requestor: user`). Those calls are not the agent's and become notes (`user_tool_call`). If
a model wrote its call as text (a block of `tool_code`), it is in `tool_calls` as well, and the text is the model's
answer. The greeting comes from the simulation, not from a model: it has no `usage` and `raw_data`.

The label states what the reward depends on: the task's actions if they are checked (`ACTION`), the changing ones among
them if the database is (`DB`), and the facts to communicate (`COMMUNICATE`); the rest is up to a judge. A tool that
some task expects counts as changing unless its name begins with a verb of reading, or a simulation skipped it and still
left the database as expected (`db_match`).
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.core.fields import ERROR, Fields, TraceItem
from replaykit.formats.core.labels import ExpectedCall, Label, labelled, only_reads
from replaykit.formats.core.registry import Found, read_each, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_objects,
    as_text,
    by_text,
    count_in,
    filled_in,
    has_list,
    object_in,
    objects_in,
    text_in,
    texts_in,
    value_in,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "tau2"
_DONE = ("user_stop", "agent_stop")
_USER = "user"
_CHECKS = (
    ("env_assertions", "env_assertion"),
    ("nl_assertions", "nl_assertion"),
    ("communicate_checks", "info"),
)


def _recognises(source: Source) -> bool:
    if len(source.first) != 1:
        return False
    return isinstance(value_in(source.first[0], "simulations"), list) and "tasks" in source.first[0]


def _read_file(source: Source) -> Iterator[Found]:
    whole = Fields(source, source.value, (), "the results of tau2-bench")
    if not has_list(whole.value, "simulations"):
        raise whole.error("expected the simulations of tau2-bench", "simulations")
    setting = _Setting(whole)
    if not whole.items("simulations"):
        yield "no simulation was run"
    yield from read_each(whole.members("simulations"), lambda member: _read(member, setting))


register_format(FORMAT, "tau2-bench: results with `simulations`", _recognises, _read_file)


class _Setting:
    """The settings that all simulations of a file share."""

    def __init__(self, whole: Fields) -> None:
        info = whole.object("info")
        agent, world = object_in(info, "agent_info"), object_in(info, "environment_info")
        self.model = text_in(agent, "llm")
        self.parameters = object_in(agent, "llm_args")
        self.agent = text_in(agent, "implementation")
        self.version = text_in(info, "git_commit")
        self.domain = text_in(world, "domain_name")
        self.policy = text_in(world, "policy")
        self.tools: Json = world.get("tool_defs")
        self.criteria: dict[str, JsonObject] = {}
        used: set[str] = set()
        for task in objects_in(whole.value, "tasks"):
            criteria = self.criteria[str(task.get("id"))] = object_in(task, "evaluation_criteria")
            used |= _expected_names(criteria)
        for simulation in objects_in(whole.value, "simulations"):
            used -= self._harmless(simulation)
        self.changing = tuple(sorted(name for name in used if name and not only_reads(name)))

    def _harmless(self, simulation: JsonObject) -> set[str]:
        """Return expected tools that a simulation did not call, though it left the database as expected."""
        if not _is_database_right(object_in(simulation, "reward_info")):
            return set()
        harmless = _expected_names(self.criteria.get(str(simulation.get("task_id")), {}))
        for message in objects_in(simulation, "messages"):
            for call in objects_in(message, "tool_calls"):
                harmless.discard(text_in(call, "name"))
        return harmless


def _is_database_right(reward: JsonObject) -> bool:
    return object_in(reward, "db_check").get("db_match") is True


def _agent_actions(criteria: JsonObject) -> list[JsonObject]:
    """Return the calls that the agent is expected to make."""
    return [action for action in objects_in(criteria, "actions") if action.get("requestor") != _USER]


def _expected_names(criteria: JsonObject) -> set[str]:
    return {text_in(action, "name") for action in _agent_actions(criteria)}


def _read(member: TraceItem, setting: _Setting) -> TraceRun:
    simulation = member.fields("a simulation")
    talk, answer = _read_talk(simulation, setting)
    task, reason = simulation.label("task_id"), simulation.text("termination_reason") or ""
    status, error = RunStatus.SUCCESS, None
    if reason and reason not in _DONE:
        status, error = RunStatus.ERROR, ErrorInfo(type="Terminated", message=reason)
    run = talk.run(
        id=simulation.required_text("id"),
        format=FORMAT,
        name=f"{setting.domain} {task}".strip(),
        agent=setting.agent,
        agent_version=setting.version,
        output=answer,
        status=status,
        error=error,
        started_at=simulation.time("start_time") or 0.0,
        ended_at=simulation.time("end_time"),
        metadata={
            "task_id": task,
            "trial": simulation.label("trial"),
            "seed": simulation.label("seed"),
            "termination_reason": reason,
            "agent_cost": simulation.number("agent_cost"),
            "user_cost": simulation.number("user_cost"),
        },
    )
    reward = simulation.inner("reward_info")
    if not reward.value:
        return run
    return labelled(run, [_label(reward, setting.criteria.get(task or "", {}), setting.changing)])


def _read_talk(simulation: Fields, setting: _Setting) -> tuple[Talk, Json]:
    """Return the conversation and the agent's last answer; the user has the last word."""
    talk = Talk(system=setting.policy or None, tools=setting.tools)
    requested: dict[str, JsonObject] = {}
    answer: Json = UNSET
    for message in simulation.each("messages", "a message"):
        role, content, at = message.text("role"), message.take("content"), message.time("timestamp") or 0.0
        if role == "assistant":
            _add_answer(talk, message, content, at, setting)
            answer = content or answer
        elif role == "tool" and message.text("requestor") == _USER:
            _add_user_call(talk, message, requested, at)
        elif role == "tool":
            _add_result(talk, message, at)
        else:
            requested |= by_text(as_objects(message.take("tool_calls")), "id")
            if content is not None:
                talk.says(role or "user", content)
    return talk, answer


def _add_answer(talk: Talk, message: Fields, content: Json, at: float, setting: _Setting) -> None:
    if filled_in(message.value, "usage", "raw_data", "tool_calls") is None:
        talk.says("assistant", content)
        return
    uses: list[ToolUse] = []
    for value in message.items("tool_calls"):
        call = Fields(message.source, value, message.path)
        arguments = call.take("arguments") or {}
        uses.append(ToolUse(id=call.label("id") or "", name=call.required_text("name"), arguments=arguments))
    response = Fields(message.source, message.object("raw_data"), message.path)
    text, written = as_text(content), text_in(response.object("message"), "content")
    if uses:
        text = text or written
    talk.answers(
        ModelAnswer(content=text or None, tool_calls=tuple(uses)),
        model=setting.model,
        usage=_usage(message),
        finish_reason=response.text("finish_reason"),
        parameters=setting.parameters,
        at=at,
    )


def _usage(message: Fields) -> Usage | None:
    counts, cost = message.object("usage"), message.number("cost")
    if not counts:
        return None
    return Usage(
        input_tokens=count_in(counts, "prompt_tokens"),
        output_tokens=count_in(counts, "completion_tokens"),
        cost_usd=cost or None,
    )


def _add_result(talk: Talk, message: Fields, at: float) -> None:
    content, failed, error = message.take("content"), message.flag("error"), None
    if failed:
        error = ErrorInfo(type="ToolError", message=as_text(content).removeprefix(ERROR))
    talk.returns(content, call_id=message.label("id") or "", failed=failed, error=error, at=at)


def _add_user_call(talk: Talk, message: Fields, requested: dict[str, JsonObject], at: float) -> None:
    call = requested.get(message.label("id") or "", {})
    note = {"name": call.get("name"), "arguments": call.get("arguments"), "result": message.take("content")}
    if message.flag("error"):
        note["failed"] = True
    talk.notes("user_tool_call", note, at=at)


def _label(reward: Fields, criteria: JsonObject, changing: tuple[str, ...]) -> Label:
    score = reward.number("reward") or 0.0
    basis = reward.items("reward_basis")
    checks_database, checks_actions = "DB" in basis, "ACTION" in basis
    expected_calls = None
    if checks_database or checks_actions:
        actions = _agent_actions(criteria)
        expected_calls = tuple(_expected(a) for a in actions if checks_actions or a.get("name") in changing)
    if not checks_database or _is_database_right(reward.value):
        changing = ()
    expected_output: tuple[str, ...] = ()
    if "COMMUNICATE" in basis:
        expected_output = texts_in(criteria.get("communicate_info"))
    return Label(
        name="reward",
        value=score,
        failed=score < 1,
        why="; ".join(_reasons(reward.value, basis)),
        expected_calls=expected_calls,
        changing_tools=changing,
        expected_output=expected_output,
        said_anywhere=True,
        criteria=texts_in(criteria.get("nl_assertions")),
    )


def _expected(action: JsonObject) -> ExpectedCall:
    """Return the expected call, with the arguments that are compared."""
    arguments, compared = object_in(action, "arguments"), action.get("compare_args")
    if isinstance(compared, list):
        arguments = {name: value for name, value in arguments.items() if name in compared}
    return ExpectedCall(name=text_in(action, "name"), arguments=arguments)


def _reasons(reward: JsonObject, basis: list[Json]) -> Iterator[str]:
    """Yield the failed checks in the benchmark's words."""
    if "DB" in basis and object_in(reward, "db_check").get("db_match") is False:
        yield "the database is not as expected"
    if "ACTION" in basis:
        for check in objects_in(reward, "action_checks"):
            if check.get("action_match") is False:
                yield f"{text_in(check.get('action'), 'name')} was not called as expected"
    for group, name in _CHECKS:
        for check in objects_in(reward, group):
            if check.get("met") is False:
                what = text_in(check, name) or text_in(check.get(name), "message", "func_name")
                yield ": ".join(filter(None, (what, text_in(check, "justification"))))
