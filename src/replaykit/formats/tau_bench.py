"""tau-bench results: conversations of an agent with a simulated user, each with its reward.

    [{task_id, reward, trial, traj: [{role, content, tool_calls, tool_call_id}, …],
      info: {task: {actions: [{name, kwargs}], outputs: […]}, source, user_cost,
             reward_info: {reward, info: {gt_data_hash} | {outputs: {text: said}}}}}, …]

Also one result, or one on each line. The reward is given when the database ends as the task's actions leave it and the
agent has said the task's outputs. So the label expects those of the actions that change something; reads are free.
Which tools do is not in the file. A tool does not if the actions of some task use it and leave the database as a task
without any actions does (`gt_data_hash`), or if its name begins with a verb of reading; every other one counts.

A tool that failed told the agent `Error: …`: some tools return that themselves, and the environment makes it of what
others raise. The file does not tell the two apart.

The answer is what the agent said last; the user, or a transfer to a human, ends the talk. A result without
`reward_info` was cut off, and has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.labels import ExpectedCall, Label, labelled, only_reads
from replaykit.formats.core.members import object_in, objects_in, text_in, value_in
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import JsonPath, Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text

FORMAT = "tau_bench"


class TauBenchImporter:
    """Reads results of tau-bench."""

    name = FORMAT
    title = "tau-bench: results with `traj` and `reward`"

    def recognises(self, source: Source) -> bool:
        if source.first:
            return any(map(_is_result, _results(source.first[0])))
        return False

    def read(self, source: Source) -> Iterator[Found]:
        for document in source.documents():
            try:
                results = _results(document.value)
            except InvalidFile as problem:
                yield problem
                continue
            if not results:
                yield document.error("expected a result of tau-bench, or a list of them")
            changing = _changing(results)
            for index, result in enumerate(results):
                path = (index,) if isinstance(document.value, list) else ()
                try:
                    yield _read(document, result, path, changing)
                except InvalidFile as problem:
                    yield problem


IMPORTERS.register(FORMAT)(TauBenchImporter())


def _results(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value]
    return []


def _is_result(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("traj"), list) and "reward" in value


def _changing(results: list[Json]) -> tuple[str, ...]:
    """The tools that change the database, of all that the tasks or the agents use."""
    outcomes = [(_actions(result), _hash(result)) for result in map(as_object, results)]
    untouched = {state for actions, state in outcomes if not actions and state}
    harmless = {name for actions, state in outcomes if state in untouched for name, _arguments in actions}
    used = {name for actions, _state in outcomes for name, _arguments in actions}
    used |= {name for result in results for name in _called(value_in(result, "traj"))}
    return tuple(sorted(name for name in used - harmless if name and not only_reads(name)))


def _called(trajectory: Json) -> Iterator[str]:
    for message in as_objects(trajectory):
        for call in objects_in(message, "tool_calls"):
            yield text_in(object_in(call, "function"), "name")


def _actions(result: dict[str, Json]) -> list[tuple[str, dict[str, Json]]]:
    task = object_in(object_in(result, "info"), "task")
    return [(text_in(action, "name"), object_in(action, "kwargs")) for action in objects_in(task, "actions")]


def _hash(result: dict[str, Json]) -> str:
    judged = object_in(object_in(result, "info"), "reward_info")
    return text_in(object_in(judged, "info"), "gt_data_hash")


def _read(source: Source, value: Json, path: JsonPath, changing: tuple[str, ...]) -> TraceRun:
    result = Fields(source, value, path, "a result of tau-bench")
    if not _is_result(value) or not value["traj"]:
        raise result.error("expected a conversation and its reward", "traj")
    info = Fields(source, result.object("info"), (*path, "info"))
    task = Fields(source, info.object("task"), (*path, "info", "task"))
    is_cut_off = info.take("reward_info") is None
    talk, answer = _talk(source, result.items("traj"), (*path, "traj"))
    metadata: dict[str, Json] = {"task_id": result.label("task_id"), "trial": result.label("trial")}
    run = talk.run(
        id=content_id(FORMAT, canonical(value)),
        format=FORMAT,
        name=", ".join(
            f"{name} {label}" for name, label in zip(("task", "trial"), metadata.values(), strict=True) if label
        ),
        output=UNSET if is_cut_off else answer,
        status=RunStatus.SUCCESS,
        metadata={**metadata, "instruction": task.text("instruction"), "user_cost": info.take("user_cost")},
    )
    reward = result.number("reward") or 0.0
    label = Label(
        name="reward",
        value=reward,
        failed=reward < 1,
        why=f"cut off after {len(run.llm_calls)} answers, before the user was done" if is_cut_off else "",
        expected_calls=tuple(
            ExpectedCall(name=name, arguments=arguments) for name, arguments in _actions(value) if name in changing
        ),
        changing_tools=changing,
        expected_output=tuple(filter(None, map(as_text, task.items("outputs")))),
        said_anywhere=True,
    )
    return labelled(run, [label])


def _talk(source: Source, trajectory: list[Json], path: JsonPath) -> tuple[Talk, Json]:
    """The conversation, and what the agent said last."""
    talk = Talk()
    answer: Json = UNSET
    for index, message in enumerate(trajectory):
        for read_message in messages_of(Fields(source, message, (*path, index), "a message").value) or ():
            if read_message.get("role") == "tool":
                _returns(talk, read_message)
                continue
            talk.hear(read_message)
            if read_message.get("role") == "assistant":
                answer = read_message.get("content") or answer
    return talk, answer


def _returns(talk: Talk, message: dict[str, Json]) -> None:
    call_id, name = text_in(message, "tool_call_id"), text_in(message, "name")
    talk.returns(message.get("content"), call_id=call_id, name=name)
