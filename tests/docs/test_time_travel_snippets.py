"""The snippets with which time travel is explained, run as they are written: one story, in order, offline."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

import replaykit as rk

IMPORTS = """
from datetime import datetime

from replaykit import (
    Checkpoint,
    CheckpointStore,
    Store,
    ToolReplayer,
    compare_runs,
    fork_run,
    record,
    record_tool,
    resume_from_checkpoint,
)
"""

STEP_EVENT = """
class StepEvent:
    step_id: str
    input_state: dict
    decision: str
    tool_name: str
    tool_args: dict
    tool_result: dict
    output_state: dict
    timestamp: datetime
"""

BY_HAND = """
checkpoint_store = CheckpointStore()
run_id, step_id = "by-hand", "step_1"
checkpoint = Checkpoint(
    run_id=run_id,
    step_id=step_id,
    state={"max_retries": 5},
    messages=[{"role": "user", "content": "find it"}],
    tool_calls=[{"name": "search_docs", "arguments": {"query": "..."}, "result": {"docs": []}}],
)
"""

CHECKPOINTS = """
checkpoint_store.save_checkpoint(checkpoint)
checkpoint = checkpoint_store.load_checkpoint(run_id, step_id)
"""

TOOL = """
@record_tool
def search_docs(query: str) -> dict:
    # Real implementation
    return {"docs": [...]}
"""

AGENT = """
@record("docs")
def agent(question: str, state: dict | None = None) -> str:
    with record("docs") as run:
        state = state or {"tries": 0, "max_retries": 8}
        while state["tries"] < state["max_retries"]:
            with run.step(state=state) as step:
                step.decide("search_docs")
                search_docs(question)
                state = step.done({**state, "tries": state["tries"] + 1})
        return f"gave up after {state['tries']} tries"

agent("...")
with Store.open(".replaykit/store.db") as store:
    run_id = store.header("docs").id
"""

REPLAY = """
replayer = ToolReplayer(run_id)
result = replayer.replay("search_docs", {"query": "..."})
"""

TIME_TRAVEL = """
# Resume from step 5
result = resume_from_checkpoint(run_id, "step_5")

# Fork with modified state
fork_id, result = fork_run(run_id, "step_5", {"max_retries": 3})

# Compare where they diverged
divergence = compare_runs(run_id, fork_id)
"""


def told(*parts: str) -> dict[str, Any]:
    """What is known after these parts of the story."""
    names: dict[str, Any] = {"__name__": "story"}
    go_on(names, IMPORTS, *parts)
    return names


def go_on(names: dict[str, Any], *parts: str) -> None:
    for part in parts:
        exec(compile(part, "<story>", "exec", dont_inherit=True), names)


@pytest.fixture
def story() -> dict[str, Any]:
    return told(STEP_EVENT, BY_HAND, CHECKPOINTS, TOOL, AGENT, REPLAY)


def test_a_step_event_has_every_field_that_is_promised() -> None:
    promised = inspect.get_annotations(told(STEP_EVENT)["StepEvent"])

    assert [name for name in rk.StepEvent.__struct_fields__ if name in promised] == [
        *("step_id", "input_state", "decision", "tool_name", "tool_args"),
        *("tool_result", "output_state", "timestamp"),
    ]
    types = {field.name: field.type for field in msgspec.structs.fields(rk.StepEvent)}
    assert (types["step_id"], types["tool_name"], types["timestamp"]) == (str, str | None, promised["timestamp"] | None)


def test_a_checkpoint_is_saved_and_loaded() -> None:
    names = told(BY_HAND, CHECKPOINTS)

    assert (names["checkpoint"].state, names["checkpoint"].step_id) == ({"max_retries": 5}, "step_1")
    assert names["checkpoint"].messages == [{"role": "user", "content": "find it"}]
    assert names["checkpoint"].tool_calls[0]["result"] == {"docs": []}
    names["checkpoint_store"].close()


def test_the_steps_of_the_recorded_run_are_events_with_everything_in_them(story: dict[str, Any]) -> None:
    with rk.Store.open(".replaykit/store.db") as store:
        fifth = rk.step_events(store.load(story["run_id"]))[4]

    assert (fifth.step_id, fifth.decision, fifth.tool_name) == ("step_5", "search_docs", "search_docs")
    assert (fifth.tool_args, list(fifth.tool_result)) == ({"query": "..."}, ["docs"])
    assert (fifth.input_state["tries"], fifth.output_state["tries"]) == (4, 5)
    assert fifth.timestamp is not None


def test_a_tool_is_replayed_from_its_recording(story: dict[str, Any]) -> None:
    assert list(story["result"]) == ["docs"]
    with pytest.raises(rk.Divergence, match="search_docs"):
        story["replayer"].replay("search_docs", {"query": "something else"})


def test_a_run_is_resumed_forked_and_compared(story: dict[str, Any]) -> None:
    go_on(story, TIME_TRAVEL.split("\n\n")[0])
    assert (story["result"].output, story["result"].deviations) == ("gave up after 8 tries", ())

    go_on(story, TIME_TRAVEL)

    assert story["result"].output == "gave up after 5 tries"
    first = story["divergence"].first
    assert (first.kind, first.a_step, first.b_step) == ("state", "step_5", "step_5")
    assert [str(difference) for difference in first.differences] == ["changed   $.max_retries: 8 → 3"]
    with rk.Store.open(".replaykit/store.db") as store:
        origin = store.header(story["fork_id"]).origin
        assert (origin.kind, origin.run, origin.step) == ("forked", story["run_id"], "step_5")
        assert list(store.verify()) == []
