"""Resume and fork: go on from a step, by re-execution or from state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.errors import RunNotFound, UsageError
from replaykit.model.matching import ErrorSpec
from replaykit.model.run import RunStatus
from replaykit.travel import fork as fork_module

DONE: list[str] = []


@rk.tool(effects="none")
def stock(item: str) -> int:
    DONE.append(f"stock {item}")
    return 3


@rk.tool(effects="none")
def decide(prompt: str) -> str:
    """A scripted model: orders what is there, else puts the customer on the waitlist."""
    DONE.append("decide")
    return "order" if "stock=0" not in prompt else "waitlist"


@rk.tool
def order(item: str) -> str:
    DONE.append("order")
    return f"ordered {item}"


@rk.tool(effects="idempotent")
def waitlist(item: str) -> str:
    DONE.append(f"waitlist {rk.idempotency_key()}")
    return f"waiting for {item}"


def shop(item: str) -> str:
    count = stock(item)
    choice = decide(f"stock={count} of {item}: order or waitlist?")
    return order(item) if choice == "order" else waitlist(item)


@pytest.fixture
def parent(store: rk.Store) -> str:
    with rk.record("shop", input="lamp", store=store) as run:
        run.output = shop("lamp")
    DONE.clear()
    return str(run.id)


def test_resuming_an_unchanged_run_serves_everything_and_does_nothing(store: rk.Store, parent: str) -> None:
    journey = rk.resume(parent, "step_1", agent=shop, store=store)

    assert (journey.output, journey.status, journey.way) == ("ordered lamp", RunStatus.SUCCESS, "re-execution")
    assert DONE == []
    forked = store.load(journey.run_id)
    assert [call.result for call in forked.calls] == [call.result for call in store.load(parent).calls]
    assert (forked.origin.kind, forked.origin.run, forked.origin.step) == ("resumed", parent, "step_1")


def test_a_changed_answer_is_never_met_with_a_stale_decision(store: rk.Store, parent: str) -> None:
    fork_id, result = rk.fork(parent, "step_1", rk.Edits(result=0), agent=shop, store=store)

    assert result.output == "waiting for lamp"
    assert [done.split()[0] for done in DONE] == ["decide", "waitlist"], "and nothing was ordered"
    assert [call.name for call in store.load(fork_id).tool_calls] == ["stock", "decide", "waitlist"]


def test_a_change_that_does_not_matter_leads_to_the_same_recorded_order(store: rk.Store, parent: str) -> None:
    _, result = rk.fork(parent, "step_2", rk.Edits(result="order"), agent=shop, store=store)

    assert result.output == "ordered lamp"
    assert DONE == []


def test_what_has_effects_stops_with_a_question(store: rk.Store, parent: str) -> None:
    _, result = rk.fork(parent, "step_3", rk.Edits(arguments={"item": "chair"}), agent=shop, store=store)

    assert result.status is RunStatus.ERROR
    assert "for real: order(item='chair')" in str(result.error)
    assert [d.kind for d in result.deviations] == ["undecided"]
    assert DONE == []


def test_what_is_allowed_happens_with_the_changed_arguments(store: rk.Store, parent: str) -> None:
    fork_id, result = rk.fork(
        parent, "step_3", rk.Edits(arguments={"item": "chair"}), agent=shop, store=store, live=["order"]
    )

    assert result.output == "ordered chair"
    assert DONE == ["order"]
    assert store.load(fork_id).status is RunStatus.SUCCESS


def test_a_tool_can_be_made_to_fail(store: rk.Store, parent: str) -> None:
    edits = rk.Edits(error=ErrorSpec(type="TimeoutError", message="stock service down"))

    _, result = rk.fork(parent, "step_1", edits, agent=shop, store=store)

    assert result.status is RunStatus.TIMEOUT
    assert result.error == "TimeoutError: stock service down"


def test_another_input_begins_anew(store: rk.Store, parent: str) -> None:
    fork_id, result = rk.fork(parent, "step_1", rk.Edits(input="sofa"), agent=shop, store=store, live=["order"])

    assert result.output == "ordered sofa"
    assert store.load(fork_id).input == "sofa"


def test_a_dry_run_says_what_would_be_done_and_leaves_nothing(store: rk.Store, parent: str) -> None:
    _, result = rk.fork(parent, "step_1", rk.Edits(result=0), agent=shop, store=store, dry_run=True)

    assert result.would_be_live == ("decide(prompt='stock=0 of lamp: order or waitlist?')",)
    assert DONE == []
    assert len(store.headers()) == 1


def test_an_idempotent_call_has_the_same_key_whenever_it_is_done_again(store: rk.Store, parent: str) -> None:
    for _ in range(2):
        rk.fork(parent, "step_1", rk.Edits(result=0), agent=shop, store=store)

    keys = [done for done in DONE if done.startswith("waitlist")]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_fork_of_a_fork_reads_through_to_its_first_parent(store: rk.Store, parent: str) -> None:
    first, _ = rk.fork(parent, "step_1", rk.Edits(result=0), agent=shop, store=store)
    second, result = rk.fork(first, "step_2", rk.Edits(result="order"), agent=shop, store=store, live=["order"])

    assert result.output == "ordered lamp"
    assert [call.result for call in store.load(second).tool_calls] == [0, "order", "ordered lamp"]
    assert list(store.verify()) == []


def looping(run: Any, state: dict[str, Any]) -> dict[str, Any]:
    while state["tries"] < state["max_retries"]:
        with run.step(state=state) as step:
            stock("lamp")
            state = step.done({**state, "tries": state["tries"] + 1})
    return state


def marked_agent(question: str) -> dict[str, Any]:
    with rk.record("marked") as run:
        return looping(run, {"tries": 0, "max_retries": 5})


def stateful_agent(question: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
    with rk.record("stateful") as run:
        return looping(run, state or {"tries": 0, "max_retries": 5})


@pytest.mark.parametrize(("agent", "way"), [(marked_agent, "re-execution"), (stateful_agent, "state")])
def test_keys_of_the_state_can_be_changed(store: rk.Store, agent: Any, way: str) -> None:
    with rk.record("loop", input="q", store=store) as run:
        run.output = agent("q")
    DONE.clear()

    fork_id, result = rk.fork(run.id, "step_2", {"max_retries": 3}, agent=agent, store=store)

    assert result.way == way
    assert result.output == {"tries": 3, "max_retries": 3}
    assert store.state_at(fork_id) == {"tries": 3, "max_retries": 3}
    assert store.state_at(run.id) == {"tries": 5, "max_retries": 5}
    assert DONE == []
    assert result.deviations == ()


@pytest.mark.parametrize("agent", [marked_agent, stateful_agent])
def test_a_key_that_the_state_does_not_have_is_set_and_reported(store: rk.Store, agent: Any) -> None:
    with rk.record("loop", input="q", store=store) as run:
        run.output = agent("q")

    _, result = rk.fork(run.id, "step_2", {"max_retires": 3}, agent=agent, store=store)

    assert result.output == {"tries": 5, "max_retries": 5, "max_retires": 3}
    (added,) = result.deviations
    assert (added.kind, added.name) == ("added", "max_retires")
    assert added.text == "the state after step_2 had no key 'max_retires'; it has: tries, max_retries"


def test_a_decorated_agent_is_found_by_the_name_of_its_runs(store: rk.Store) -> None:
    @rk.record("known", store=store)
    def known(item: str) -> str:
        return shop(item)

    known("lamp")

    assert rk.resume_from_checkpoint("known", "step_2", store=store).output == "ordered lamp"
    fork_id, result = rk.fork_run("known", "step_1", rk.Edits(result=0), store=store)
    assert result.output == "waiting for lamp"
    assert store.header(fork_id).origin.kind == "forked"


def test_wrong_input_is_said_and_nothing_is_changed(store: rk.Store, parent: str) -> None:
    before = len(store.headers())
    with pytest.raises(RunNotFound):
        rk.fork("nope", "step_1", {}, agent=shop, store=store)
    with pytest.raises(UsageError, match="step_1, step_2, step_3"):
        rk.fork(parent, "step_9", {}, agent=shop, store=store)
    with pytest.raises(UsageError, match="which agent"):
        rk.fork(parent, "step_1", {}, store=store)
    for agent in (shop, stateful_agent):
        with pytest.raises(UsageError, match="kept no state"):
            rk.fork(parent, "step_1", {"x": 1}, agent=agent, store=store)

    assert len(store.headers()) == before


@rk.tool(effects="none")
async def look(key: str) -> list[Any]:
    await asyncio.sleep(0)
    DONE.append(key)
    return [key, len(DONE)]


KEYS = st.lists(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3), min_size=1, max_size=4)


@given(KEYS, st.data())
def test_forking_without_a_change_repeats_the_parent_and_leaves_its_bytes_alone(
    store: rk.Store, rounds: list[list[str]], data: Any
) -> None:
    async def agent(_: str) -> list[Any]:
        return [await asyncio.gather(*[look(key) for key in keys]) for keys in rounds]

    with rk.record("random", input="q", store=store) as run:
        run.output = asyncio.run(agent("q"))
    rows = store.query("SELECT * FROM packs WHERE key >> 32 = (SELECT n FROM runs WHERE id = ?)", run.id)
    parent = store.load(run.id)
    step = f"step_{data.draw(st.integers(1, len(list(parent.calls))))}"
    DONE.clear()

    fork_id, result = rk.fork(run.id, step, None, agent=agent, store=store)

    assert result.output == parent.output
    assert DONE == []
    assert [(c.name, c.arguments, c.result) for c in store.load(fork_id).calls] == [
        (c.name, c.arguments, c.result) for c in parent.calls
    ]
    assert store.query("SELECT * FROM packs WHERE key >> 32 = (SELECT n FROM runs WHERE id = ?)", run.id) == rows


def test_the_store_of_the_project_is_the_default(own_directory: Path) -> None:
    with rk.record("shop", input="lamp") as run:
        run.output = shop("lamp")

    assert rk.resume(run.id, "step_1", agent=shop).output == "ordered lamp"


def test_a_patch_that_does_not_fit_is_said_before_anything_is_made(store: rk.Store) -> None:
    with rk.record("loop", input="q", store=store) as run:
        run.output = marked_agent("q")

    for operation in (
        {"op": "remove", "path": "/nothing"},
        {"op": "test", "path": "/tries", "value": 9},
        {"op": "?"},
    ):
        with pytest.raises(UsageError, match="operation 1"):
            rk.fork(run.id, "step_2", rk.Edits(patch=(operation,)), agent=marked_agent, store=store)

    assert len(store.headers()) == 1


def test_a_swallowed_question_is_still_there_at_the_end(store: rk.Store, parent: str) -> None:
    def stubborn(item: str) -> str:
        try:
            return shop(item)
        except Exception:
            return "never mind"

    _, result = rk.fork(parent, "step_3", rk.Edits(arguments={"item": "x"}), agent=stubborn, store=store)

    assert result.output == "never mind"
    assert [deviation.kind for deviation in result.deviations] == ["undecided"]


def test_a_fork_without_a_change_compares_as_identical_and_with_one_it_parts_at_the_step(
    store: rk.Store, parent: str
) -> None:
    same, _ = rk.fork(parent, "step_2", None, agent=shop, store=store)
    other, _ = rk.fork(parent, "step_1", rk.Edits(result=0), agent=shop, store=store)

    assert rk.compare_runs(parent, same, store=store).identical
    first = rk.compare_runs(parent, other, store=store).first
    assert first is not None
    assert (first.kind.value, first.a_step, first.name) == ("tool_result", "step_1", "stock")


def test_without_reuse_everything_after_the_step_is_done_again(store: rk.Store, parent: str) -> None:
    journey = rk.resume(parent, "step_1", agent=shop, store=store, reuse=False, live=["order"])

    assert journey.output == "ordered lamp"
    assert DONE == ["decide", "order"]
    assert [deviation.kind for deviation in journey.deviations] == ["live", "live"]


def test_a_fork_that_is_interrupted_is_ended_and_the_interruption_goes_on(store: rk.Store, parent: str) -> None:
    def interrupted(item: str) -> None:
        stock(item)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rk.resume(parent, "step_1", agent=interrupted, store=store)

    assert store.headers()[0].status is RunStatus.CANCELLED


def test_a_recorded_answer_that_cannot_be_given_again_stops_the_agent_and_is_told(store: rk.Store) -> None:
    @rk.tool
    def connect() -> object:
        return object()

    def agent(_: str) -> str:
        return f"{connect() is not None} {stock('lamp')}"

    with rk.record("opaque", input="q", store=store) as run:
        run.output = agent("q")

    journey = rk.resume(run.id, "step_2", agent=agent, store=store)

    assert journey.status is RunStatus.ERROR
    assert [deviation.kind for deviation in journey.deviations] == ["unanswerable"]
    assert "cannot be kept as data" in str(journey.error)


def test_an_agent_that_was_changed_before_the_step_is_told_where_it_left_the_recording(
    store: rk.Store, parent: str
) -> None:
    def other(item: str) -> int:
        return stock(item) + stock("chair")

    journey = rk.resume(parent, "step_3", agent=other, store=store)

    assert [deviation.kind for deviation in journey.deviations] == ["missing"]
    assert "stock(item='chair')" in str(journey.error)
    assert "match.on_miss" not in str(journey.error), "that is for cases"


def test_a_tool_that_was_served_is_in_the_log_of_the_fork_with_all_that_it_called(store: rk.Store) -> None:
    @rk.tool
    def outer(item: str) -> int:
        return middle(item) + stock(item)

    @rk.tool
    def middle(item: str) -> int:
        return stock(item)

    def agent(item: str) -> int:
        with rk.record("nested") as run:
            if DONE == []:  # the numbers in a fork are its own
                run.note("again")
            stock("chair")
            return outer(item)

    DONE.append("for the first time")
    with rk.record("nested", input="lamp", store=store) as run:
        run.output = agent("lamp")
    DONE.clear()

    for edits in (None, rk.Edits(result=9, tool="outer")):
        fork_id, _ = rk.fork(run.id, "step_2", edits, agent=agent, store=store)
        fork = store.load(fork_id)
        names = {call.seq: call.name for call in fork.calls}
        assert [(call.name, names.get(call.parent or -1), call.path) for call in fork.calls] == [
            ("stock", None, ""),
            ("outer", None, ""),
            ("middle", "outer", "/outer#0"),
            ("stock", "middle", "/outer#0/middle#0"),
            ("stock", "outer", "/outer#0"),
        ]
    assert DONE == []
    first = rk.compare(run.id, fork_id, store=store).first
    assert first is not None
    assert first.text == "tool result of outer"
    assert list(store.verify()) == []


def test_a_log_from_elsewhere_that_runs_in_circles_does_not(store: rk.Store, parent: str) -> None:
    run = store.load(parent)
    circles = tuple(msgspec.structs.replace(call, parent=2 - call.seq) for call in run.calls)
    store.add(msgspec.structs.replace(run, id="circles", events=circles))

    for step in ("step_1", "step_2", "step_3"):
        assert rk.resume("circles", step, agent=shop, store=store, dry_run=True).run_id


def test_a_run_that_is_deleted_as_it_is_forked_gives_an_error_and_no_fork_without_its_history(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rk.record("agent", store=store) as run, run.step("one", state={"n": 1}) as step:
        step.done({"n": 2})

    def pruned_meanwhile(*args: Any, plan_for: Any = fork_module.plan_fork, **kwargs: Any) -> Any:
        found = plan_for(*args, **kwargs)
        store.delete([run.id])
        return found

    monkeypatch.setattr(fork_module, "plan_fork", pruned_meanwhile)
    with pytest.raises(RunNotFound):
        rk.fork(run.id, "one", agent=lambda state: state, store=store)
    assert store.headers() == []


@rk.tool
def pay(amount: int) -> str:
    DONE.append(f"pay {amount}")
    return bank(amount)


@rk.tool
def bank(amount: int) -> str:
    DONE.append(f"bank {amount}")
    return f"paid {amount}"


@rk.tool
def post(parcel: str) -> str:
    DONE.append(f"post {parcel}")
    return f"posted {parcel}"


def checkout(item: str) -> str:
    if stock(item) == 3:
        return "nothing to do"
    return f"{pay(5)}, {pay(5)}, {post(item)}"


@pytest.fixture
def stopped(store: rk.Store) -> tuple[str, str]:
    """A run, and an attempt at a fork of it that has paid twice and may not post."""
    with rk.record("checkout", input="lamp", store=store) as run:
        run.output = checkout("lamp")
    changes = rk.Edits(result=0)
    attempt, journey = rk.fork(run.id, "step_1", changes, agent=checkout, store=store, live=["pay", "bank"])
    assert journey.error is not None
    assert "post" in journey.error
    DONE.clear()
    return str(run.id), attempt


def test_what_an_attempt_has_done_for_real_is_not_done_again(store: rk.Store, stopped: tuple[str, str]) -> None:
    parent, attempt = stopped

    made, journey = rk.fork(
        parent, "step_1", rk.Edits(result=0), agent=checkout, store=store, live=["post"], attempt=attempt
    )

    assert DONE == ["post lamp"]
    assert journey.output == "paid 5, paid 5, posted lamp"
    assert [(told.kind, told.name) for told in journey.deviations] == [
        ("done", "pay"),
        ("done", "pay"),
        ("live", "post"),
    ]
    fork = store.load(made)
    names = {event.seq: event.name for event in fork.calls}
    assert [(call.name, names.get(call.parent or 0)) for call in fork.calls if call.parent is not None] == [
        ("bank", "pay"),
        ("bank", "pay"),
    ]
    assert (fork.origin.run, len(list(fork.calls))) == (parent, 6)


def test_an_attempt_answers_only_the_calls_that_it_made(store: rk.Store, stopped: tuple[str, str]) -> None:
    parent, attempt = stopped

    _, journey = rk.fork(
        parent, "step_1", rk.Edits(result=0), agent=lambda item: pay(stock(item) + 6), store=store, attempt=attempt
    )

    assert DONE == []
    assert [told.kind for told in journey.deviations] == ["undecided"]


def test_a_call_with_changed_arguments_that_an_attempt_has_made_is_not_made_again(store: rk.Store) -> None:
    def both(item: str) -> str:
        return f"{pay(5)}, {post(item)}"

    with rk.record("both", input="lamp", store=store) as run:
        run.output = both("lamp")
    changes = rk.Edits(arguments={"amount": 7}, tool="pay")
    attempt, _ = rk.fork(run.id, "step_1", changes, agent=both, store=store, live=["pay", "bank"], reuse=False)
    DONE.clear()

    _, journey = rk.fork(
        run.id, "step_1", changes, agent=both, store=store, live=["post"], reuse=False, attempt=attempt
    )

    assert (journey.output, DONE) == ("paid 7, posted lamp", ["post lamp"])


def test_an_attempt_that_is_not_there_is_told(store: rk.Store, parent: str) -> None:
    with pytest.raises(RunNotFound):
        rk.fork(parent, "step_1", rk.Edits(result=0), agent=shop, store=store, attempt="nobody")
