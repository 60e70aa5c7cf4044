"""tau-bench results: conversations of an agent with a simulated user, each with its reward.

    [{task_id, reward, trial, traj: [{role, content, tool_calls, tool_call_id}, …],
      info: {task: {actions: [{name, kwargs}], outputs: […]}, source, user_cost,
             reward_info: {reward, info: {gt_data_hash} | {outputs: {text: said}}}}}, …]

A file holds a list of results, a single one, or one on each line. The agent is rewarded if the database ends as the
task's actions leave it, and the agent has said the task's outputs. So the label expects only the actions that change
something.

A failed tool shows the agent `Error: …`: some tools return that, and the environment makes it from exceptions. The file
does not tell the two apart.

The answer is the agent's last message; the user, or a transfer to a human, ends the conversation. A result without
`reward_info` was cut off, and has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields, TraceItem
from replaykit.formats.core.labels import ExpectedCall, Label, labelled, only_reads
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.registry import Found, documents_in, read_each, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, canonical
from replaykit.wire.json_fields import as_list, has_list, object_in, objects_in, text_in, texts_in, value_in

FORMAT = "tau_bench"


def _recognises(source: Source) -> bool:
    return any(map(_is_result, _results(source.first[0]))) if source.first else False


def _read_file(source: Source) -> Iterator[Found]:
    for item in documents_in(source):
        if isinstance(item, InvalidFile):
            yield item
            continue
        results = _results(item.value)
        if not results:
            yield item.error("expected a result of tau-bench, or a list of them")
            continue
        changing = _changing(results)
        yield from read_each(item.members(), lambda result: _read(result, changing))  # noqa: B023 (read at once)


register_format(FORMAT, "tau-bench: results with `traj` and `reward`", _recognises, _read_file)


def _results(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return [value]
    return as_list(value)


def _is_result(value: Json) -> bool:
    return has_list(value, "traj") and "reward" in value


def _changing(results: list[Json]) -> tuple[str, ...]:
    """Return the tools that change the database, among all that tasks or agents use."""
    used: set[str] = set()
    states: dict[str, set[str]] = {}
    untouched: set[str] = set()
    for result in results:
        names = {name for name, _arguments in _actions(result)}
        state = _hash(result)
        used |= names
        used.update(_called(result))
        states.setdefault(state, set()).update(names)
        if not names and state:
            untouched.add(state)
    for state in untouched:
        used -= states[state]
    return tuple(sorted(name for name in used if name and not only_reads(name)))


def _called(result: Json) -> Iterator[str]:
    for message in objects_in(result, "traj"):
        for call in objects_in(message, "tool_calls"):
            yield text_in(call.get("function"), "name")


def _actions(result: Json) -> list[tuple[str, JsonObject]]:
    actions = objects_in(value_in(value_in(result, "info"), "task"), "actions")
    return [(text_in(action, "name"), object_in(action, "kwargs")) for action in actions]


def _hash(result: Json) -> str:
    reward = value_in(value_in(result, "info"), "reward_info")
    return text_in(value_in(reward, "info"), "gt_data_hash")


def _read(item: TraceItem, changing: tuple[str, ...]) -> TraceRun:
    result = item.fields("a result of tau-bench")
    if not _is_result(item.value) or not item.value["traj"]:
        raise result.error("expected a conversation and its reward", "traj")
    info = result.inner("info")
    task = info.inner("task")
    talk, answer = _read_talk(result)
    metadata: JsonObject = {"task_id": result.label("task_id"), "trial": result.label("trial")}
    names = [f"{name.removesuffix('_id')} {label}" for name, label in metadata.items() if label]
    # The reward is computed when the user ends the conversation.
    is_cut_off = info.take("reward_info") is None
    if is_cut_off:
        answer = UNSET
    run = talk.run(
        id=content_id(FORMAT, canonical(item.value)),
        format=FORMAT,
        name=", ".join(names),
        output=answer,
        status=RunStatus.SUCCESS,
        metadata={**metadata, "instruction": task.text("instruction"), "user_cost": info.take("user_cost")},
    )
    why = ""
    if is_cut_off:
        why = f"cut off after {len(run.llm_calls)} answers, before the user was done"
    expected = [ExpectedCall(name=name, arguments=called) for name, called in _actions(item.value) if name in changing]
    reward = result.number("reward") or 0.0
    label = Label(
        name="reward",
        value=reward,
        failed=reward < 1,
        why=why,
        expected_calls=tuple(expected),
        changing_tools=changing,
        expected_output=texts_in(task.items("outputs")),
        said_anywhere=True,
    )
    return labelled(run, [label])


def _read_talk(result: Fields) -> tuple[Talk, Json]:
    """Return the conversation and the agent's last answer."""
    talk = Talk()
    answer: Json = UNSET
    for fields in result.each("traj", "a message"):
        for message in messages_of(fields.value) or ():
            if message.get("role") == "tool":
                # The text holds everything that the environment reports about a failure.
                talk.returns(
                    message.get("content"), call_id=text_in(message, "tool_call_id"), name=text_in(message, "name")
                )
                continue
            talk.hear(message)
            if message.get("role") == "assistant":
                answer = message.get("content") or answer
    return talk, answer
