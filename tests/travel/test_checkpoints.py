"""Steps and checkpoints: views of one log."""

from __future__ import annotations

import pytest

import replaykit as rk
from replaykit.errors import UsageError


@rk.tool
def search_docs(query: str) -> dict[str, list[str]]:
    if query == "bad":
        raise LookupError("no such index")
    return {"docs": [query]}


@pytest.fixture
def run_id(store: rk.Store) -> str:
    state: dict[str, object] = {"found": []}
    with rk.record("docs", store=store, agent_version="7") as run:
        run.message("user", "find it")
        for query in ("a", "b", "bad"):
            with run.step(state=state) as step:
                step.decide(f"search {query}")
                try:
                    found = search_docs(query)
                except LookupError:
                    found = {"docs": []}
                state = step.done({"found": [*state["found"], *found["docs"]]})  # type: ignore[misc]
    return str(run.id)


def test_each_step_is_one_event_with_everything_in_it(store: rk.Store, run_id: str) -> None:
    steps = rk.step_events(store.load(run_id))

    assert [s.step_id for s in steps] == ["step_1", "step_2", "step_3"]
    second = steps[1]
    assert (second.input_state, second.decision, second.tool_name) == ({"found": ["a"]}, "search b", "search_docs")
    assert (second.tool_args, second.tool_result) == ({"query": "b"}, {"docs": ["b"]})
    assert second.output_state == {"found": ["a", "b"]}
    assert second.timestamp is not None
    assert steps[2].error == "LookupError: no such index"


def test_a_checkpoint_is_loaded_by_run_and_step(store: rk.Store, run_id: str) -> None:
    checkpoint = rk.CheckpointStore(store).load_checkpoint(run_id, "step_2")

    assert checkpoint.state == {"found": ["a", "b"]}
    assert checkpoint.messages == [{"role": "user", "content": "find it"}]
    assert [call["arguments"] for call in checkpoint.tool_calls] == [{"query": "a"}, {"query": "b"}]
    assert checkpoint.agent_version == "7"


def test_checkpoints_are_listed_in_order(store: rk.Store, run_id: str) -> None:
    listed = rk.CheckpointStore(store).list_checkpoints(run_id)

    assert [(c.step_id, c.calls, c.has_state) for c in listed] == [
        (f"step_{n}", ("search_docs",), True) for n in (1, 2, 3)
    ]


def test_an_agent_without_marks_has_a_step_per_call(store: rk.Store) -> None:
    with rk.record("plain", store=store) as run:
        for query in ("a", "b"):
            search_docs(query)
            run.checkpoint({"last": query})

    checkpoints = rk.CheckpointStore(store)
    assert [c.step_id for c in checkpoints.list_checkpoints(run.id)] == ["step_1", "step_2"]
    assert checkpoints.load_checkpoint(run.id, "step_1").state == {"last": "a"}
    assert checkpoints.load_checkpoint(run.id, "step_2").state == {"last": "b"}


def test_an_agent_without_state_has_checkpoints_all_the_same(store: rk.Store) -> None:
    with rk.record("plain", store=store) as run:
        search_docs("a")

    checkpoint = rk.CheckpointStore(store).load_checkpoint(run.id, "step_1")
    assert (checkpoint.state, len(checkpoint.tool_calls)) == (None, 1)


def test_saved_checkpoints_are_loaded_again(store: rk.Store) -> None:
    saved = [
        rk.Checkpoint(
            run_id="mine",
            step_id=f"step_{n}",
            state={"messages": ["m"] * n},
            messages=[{"role": "user", "content": f"m{i}"} for i in range(n)],
            tool_calls=[{"name": "t", "arguments": {"i": i}, "result": i, "error": None} for i in range(n)],
            agent_version="3",
        )
        for n in range(1, 4)
    ]
    with rk.CheckpointStore(store) as checkpoint_store:
        for checkpoint in saved:
            checkpoint_store.save_checkpoint(checkpoint)

        for checkpoint in saved:
            loaded = checkpoint_store.load_checkpoint("mine", checkpoint.step_id)
            assert (loaded.state, loaded.messages, loaded.tool_calls) == (
                checkpoint.state,
                checkpoint.messages,
                checkpoint.tool_calls,
            )
    assert list(store.verify()) == []


def test_an_unknown_step_is_answered_with_those_there_are(store: rk.Store, run_id: str) -> None:
    with pytest.raises(UsageError, match="step_1, step_2, step_3"):
        rk.CheckpointStore(store).load_checkpoint(run_id, "step_7")
