"""tau2-bench results: simulations of an agent, a user and an environment, each with what it was rewarded for.

    {info: {agent_info: {llm}, environment_info: {domain_name, policy}}, tasks: [{id, evaluation_criteria}],
     simulations: [{id, task_id, trial, start_time, end_time, termination_reason, agent_cost, user_cost,
       reward_info: {reward, reward_basis, reward_breakdown, db_check, action_checks, communicate_checks, …},
       messages: [{role, content, tool_calls: [{id, name, arguments, requestor}], usage, cost, timestamp, raw_data}]}]}

A user may call tools too (`requestor: user`): those calls are not the agent's, and become notes (`user_tool_call`).
Where a model wrote its call as text (a block of `tool_code`), `tool_calls` has it all the same, and the call's text is
what the model answered. The greeting is the simulation's and no answer of a model, as its `usage` and `raw_data` tell.

The label expects what the reward is made of: the task's actions where they are checked (`ACTION`), those that change
something where the database is (`DB`), what is to be communicated (`COMMUNICATE`); the rest is for judgement. Of the
tools that some task expects calls of, those change something whose names begin with no verb of reading, unless a
simulation did without one and the database still ended as it should (`db_match`).
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.errors import ERROR
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.labels import ExpectedCall, Label, labelled, only_reads
from replaykit.formats.core.members import count_in, object_in, objects_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import JsonPath, Source
from replaykit.formats.core.talk import UNSET, Talk
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_objects, as_text
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "tau2"
_DONE = ("user_stop", "agent_stop")
_USER = "user"
_CHECKS = (
    ("env_assertions", "env_assertion"),
    ("nl_assertions", "nl_assertion"),
    ("communicate_checks", "info"),
)


class Tau2Importer:
    """Reads results of tau2-bench."""

    name = FORMAT
    title = "tau2-bench: results with `simulations`"

    def recognises(self, source: Source) -> bool:
        if len(source.first) == 1:
            value = source.first[0]
        else:
            value = None
        return isinstance(value, dict) and isinstance(value.get("simulations"), list) and "tasks" in value

    def read(self, source: Source) -> Iterator[Found]:
        whole = Fields(source, source.value, (), "the results of tau2-bench")
        if not isinstance(whole.value.get("simulations"), list):
            raise whole.error("expected the simulations of tau2-bench", "simulations")
        setting = _Setting(whole)
        simulations = whole.items("simulations")
        if not simulations:
            yield "no simulation was run"
        for index, simulation in enumerate(simulations):
            try:
                yield _read(source, simulation, ("simulations", index), setting)
            except InvalidFile as problem:
                yield problem


IMPORTERS.register(FORMAT)(Tau2Importer())


class _Setting:
    """What all simulations of a file share."""

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
        self.criteria = {
            str(task.get("id")): object_in(task, "evaluation_criteria") for task in objects_in(whole.value, "tasks")
        }
        expected = {name for criteria in self.criteria.values() for name in _named(criteria)}
        harmless = {
            name for simulation in objects_in(whole.value, "simulations") for name in self._harmless(simulation)
        }
        self.changing = tuple(sorted(name for name in expected - harmless if name and not only_reads(name)))

    def _harmless(self, simulation: dict[str, Json]) -> set[str]:
        """Tools that were expected, and not called, in a simulation that left the database as it should be."""
        judged = object_in(simulation, "reward_info")
        if object_in(judged, "db_check").get("db_match") is not True:
            return set()
        messages = objects_in(simulation, "messages")
        called = {text_in(call, "name") for message in messages for call in objects_in(message, "tool_calls")}
        return set(_named(self.criteria.get(str(simulation.get("task_id")), {}))) - called


def _named(criteria: dict[str, Json]) -> list[str]:
    """The tools that the agent is expected to call."""
    actions = objects_in(criteria, "actions")
    return [text_in(action, "name") for action in actions if action.get("requestor") != _USER]


def _read(source: Source, value: Json, path: JsonPath, setting: _Setting) -> TraceRun:
    simulation = Fields(source, value, path, "a simulation")
    talk, answer = _talk(Fields(source, value, path), setting)
    task, reason = simulation.label("task_id"), simulation.text("termination_reason") or ""
    ended_well = not reason or reason in _DONE
    run = talk.run(
        id=simulation.required_text("id"),
        format=FORMAT,
        name=f"{setting.domain} {task}".strip(),
        agent=setting.agent,
        agent_version=setting.version,
        output=answer,
        status=RunStatus.SUCCESS if ended_well else RunStatus.ERROR,
        error=None if ended_well else ErrorInfo(type="Terminated", message=reason),
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
    reward = simulation.object("reward_info")
    if not reward:
        return run
    judged = Fields(source, reward, (*path, "reward_info"))
    return labelled(run, [_label(judged, setting.criteria.get(task or "", {}), setting.changing)])


def _talk(simulation: Fields, setting: _Setting) -> tuple[Talk, Json]:
    """The conversation, and what the agent said last: the user has the last word."""
    talk = Talk(system=setting.policy or None, tools=setting.tools)
    requested: dict[str, dict[str, Json]] = {}
    answer: Json = UNSET
    for index, value in enumerate(simulation.items("messages")):
        message = Fields(simulation.source, value, (*simulation.path, "messages", index), "a message")
        role, content, at = message.text("role"), message.take("content"), message.time("timestamp") or 0.0
        if role == "assistant":
            _answers(talk, message, content, at, setting)
            answer = content or answer
        elif role == "tool" and message.text("requestor") == _USER:
            _user_called(talk, message, requested, at)
        elif role == "tool":
            _returns(talk, message, at)
        else:
            requested |= {text_in(call, "id"): call for call in as_objects(message.take("tool_calls"))}
            if content is not None:
                talk.says(role or "user", content)
    return talk, answer


def _answers(talk: Talk, message: Fields, content: Json, at: float, setting: _Setting) -> None:
    if not message.value.get("usage") and not message.value.get("raw_data") and not message.value.get("tool_calls"):
        talk.says("assistant", content)
        return
    calls = [Fields(message.source, call, message.path) for call in message.items("tool_calls")]
    uses = tuple(
        ToolUse(id=call.label("id") or "", name=call.required_text("name"), arguments=call.take("arguments") or {})
        for call in calls
    )
    raw = Fields(message.source, message.object("raw_data"), message.path)
    written = text_in(raw.object("message"), "content")
    text = as_text(content) or (written if uses else "")
    talk.answers(
        ModelAnswer(content=text or None, tool_calls=uses),
        model=setting.model,
        usage=_usage(message),
        finish_reason=raw.text("finish_reason"),
        parameters=setting.parameters,
        at=at,
    )


def _usage(message: Fields) -> Usage | None:
    used, cost = message.object("usage"), message.number("cost")
    if not used:
        return None
    return Usage(
        input_tokens=count_in(used, "prompt_tokens"),
        output_tokens=count_in(used, "completion_tokens"),
        cost_usd=cost or None,
    )


def _returns(talk: Talk, message: Fields, at: float) -> None:
    content = message.take("content")
    failed = message.flag("error")
    if failed:
        error = ErrorInfo(type="ToolError", message=as_text(content).removeprefix(ERROR))
    else:
        error = None
    talk.returns(content, call_id=message.label("id") or "", failed=failed, error=error, at=at)


def _user_called(talk: Talk, message: Fields, requested: dict[str, dict[str, Json]], at: float) -> None:
    call = requested.get(message.label("id") or "", {})
    user_call = {"name": call.get("name"), "arguments": call.get("arguments"), "result": message.take("content")}
    talk.notes("user_tool_call", user_call | ({"failed": True} if message.flag("error") else {}), at=at)


def _label(judged: Fields, criteria: dict[str, Json], changing: tuple[str, ...]) -> Label:
    reward = judged.number("reward") or 0.0
    basis = [as_text(name) for name in judged.items("reward_basis")]
    actions = [name for name in objects_in(criteria, "actions") if name.get("requestor") != _USER]
    checked, is_right = "ACTION" in basis, value_in(judged.take("db_check"), "db_match") is True
    expected = [_expected(name) for name in actions if checked or name.get("name") in changing]
    if "COMMUNICATE" in basis:
        communicated = criteria.get("communicate_info")
    else:
        communicated = None
    return Label(
        name="reward",
        value=reward,
        failed=reward < 1,
        why="; ".join(_reasons(judged)),
        expected_calls=tuple(expected) if checked or "DB" in basis else None,
        changing_tools=changing if "DB" in basis and not is_right else (),
        expected_output=_texts(communicated),
        said_anywhere=True,
        criteria=_texts(criteria.get("nl_assertions")),
    )


def _texts(value: Json) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(filter(None, map(as_text, value)))
    return ()


def _expected(action: dict[str, Json]) -> ExpectedCall:
    """The call, with those of its arguments that are compared."""
    arguments, compared = object_in(action, "arguments"), action.get("compare_args")
    if isinstance(compared, list):
        arguments = {name: value for name, value in arguments.items() if name in compared}
    return ExpectedCall(name=text_in(action, "name"), arguments=arguments)


def _reasons(judged: Fields) -> Iterator[str]:
    """Return the checks that were not met, as the benchmark words them."""
    basis = [as_text(name) for name in judged.items("reward_basis")]
    if "DB" in basis and value_in(judged.take("db_check"), "db_match") is False:
        yield "the database is not as expected"
    if "ACTION" in basis:
        for check in as_objects(judged.take("action_checks")):
            if check.get("action_match") is False:
                yield f"{text_in(object_in(check, 'action'), 'name')} was not called as expected"
    for group, name in _CHECKS:
        for check in as_objects(judged.take(group)):
            if check.get("met") is False:
                result = check.get(name)
                what = as_text(result) or as_text(value_in(result, "message")) or as_text(value_in(result, "func_name"))
                yield ": ".join(filter(None, (what, text_in(check, "justification"))))
