"""ATIF, the Agent Trajectory Interchange Format of Harbor, v1.0 to v1.8.

    {"schema_version": "ATIF-v1.7", "session_id", "trajectory_id", "agent": {"name", "version", "model_name"},
     "steps": [{"step_id", "timestamp", "source": "system" | "user" | "agent", "message", "reasoning_content",
                "tool_calls": [{"tool_call_id", "function_name", "arguments"}],
                "observation": {"results": [{"source_call_id", "content", "subagent_trajectory_ref"}]},
                "metrics": {"prompt_tokens", "completion_tokens", "cost_usd"}}],
     "final_metrics", "subagent_trajectories", "extra"}

A step holds its calls with their results. Whether a tool failed is told in `extra` only, and so is a reward.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.atif.steps import AtifConversation, Subagents
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.items import of_each
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import Talk, content_id
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_text

FORMAT = "atif"
_SCHEMA = "ATIF-"
_REWARDS = ("reward", "rewards", "verifier_result")
"""Where `extra` may hold what a verifier gave."""
_METADATA = ("session_id", "final_metrics", "notes", "continued_trajectory_ref")


class AtifImporter:
    """Reads trajectories."""

    name = FORMAT
    title = "ATIF trajectories (Harbor), v1.0 to v1.8"

    def recognises(self, source: Source) -> bool:
        return any(_is_trajectory(value) for value in source.first[:1])

    def read(self, source: Source) -> Iterator[Found]:
        yield from of_each(source, _read_document)


IMPORTERS.register(FORMAT)(AtifImporter())


def _is_trajectory(value: Json) -> bool:
    return isinstance(value, dict) and as_text(value.get("schema_version")).startswith(_SCHEMA)


def _read_document(source: Source) -> Iterator[Found]:
    trajectory = Fields(source, source.value, (), "a trajectory: an object with `schema_version` and `steps`")
    if not _is_trajectory(trajectory.value):
        raise source.error(f"expected a `schema_version` that begins with {_SCHEMA}", ("schema_version",))
    if not trajectory.items("steps"):
        raise source.error("a trajectory has steps, and this one has none", ("steps",))
    subagents = _subagents(trajectory)
    yield _read_run(trajectory, subagents)
    while subagents:
        run = _read_run(subagents.pop(next(iter(subagents))), subagents)
        yield run
        yield f"no step refers to trajectory {run.id} of a sub-agent: it is a run of its own"


def _subagents(trajectory: Fields) -> Subagents:
    """The trajectories inside of this one, however deep, by their ids."""
    found: Subagents = {}
    rest = [trajectory]
    while rest:
        above = rest.pop()
        for index, value in enumerate(above.items("subagent_trajectories")):
            path = (*above.path, "subagent_trajectories", index)
            inner = Fields(trajectory.source, value, path, "a trajectory")
            id = inner.text("trajectory_id") or inner.text("session_id") or ""
            found[id if id and id not in found else f"{id} {len(found)}"] = inner
            rest.append(inner)
    return found


def _read_run(trajectory: Fields, subagents: Subagents) -> TraceRun:
    who = Fields(trajectory.source, trajectory.object("agent"), (*trajectory.path, "agent"))
    talk = Talk(tools=who.items("tool_definitions"))
    telling = AtifConversation(talk, who.text("model_name") or "", subagents)
    telling.tell(trajectory)
    status, error = telling.ending
    extra = trajectory.object("extra")
    id = trajectory.text("trajectory_id") or trajectory.text("session_id")
    run = talk.run(
        id=id or content_id(FORMAT, canonical(trajectory.value)),
        format=FORMAT,
        agent=who.text("name") or "",
        agent_version=who.text("version") or "",
        output=telling.answer,
        status=status,
        error=error,
        started_at=min(telling.times, default=0.0),
        ended_at=max(telling.times, default=None),
        metadata={name: trajectory.take(name) for name in _METADATA}
        | {"extra": extra, "agent_extra": who.take("extra")},
    )
    return labelled(run, [_label(name, value) for name, value in _rewards(extra)])


def _rewards(extra: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """Each reward with its name: a number, or several in an object."""
    for name in _REWARDS:
        value = extra.get(name)
        if isinstance(value, dict):
            inner = as_object(value.get("rewards")) or value
            yield from ((key, item) for key, item in inner.items() if isinstance(item, int | float))
        elif isinstance(value, int | float):
            yield name, value


def _label(name: str, value: float) -> Label:
    return Label(name=name, value=value, failed=value <= 0)
