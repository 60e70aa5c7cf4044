"""Replaying a golden trace: what must come out again, what may be different, and where a run parts from it."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import itertools
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates.golden import accepted, replay_golden
from replaykit.cases.golden import Aspect, Golden, golden_of, read_golden, write_golden
from replaykit.errors import UsageError

WORLD = itertools.count()
Agent = Callable[..., Any]


class OutOfStock(Exception):
    pass


@rk.tool
def look(item: str) -> dict[str, Any]:
    return {"item": item, "stock": 3, "seen": next(WORLD)}


@rk.tool
def buy(item: str, count: int = 1) -> str:
    if count > 3:
        raise OutOfStock(f"only 3 of {item}")
    return f"{count} {item}"


def shop(item: str) -> str:
    with rk.record("shop") as run:
        with run.step() as step:
            found = look(item)
            step.done({"found": found, "bought": None})
        with run.step() as step:
            bought = buy(item)
            step.done({"found": found, "bought": bought})
        return f"bought {bought}"


def recorded(agent: Agent, given: Any = "tea", store: Any = None, **golden: Any) -> Golden:
    """The golden trace of one run of the agent."""
    try:
        with rk.record("shop", input=given, store=store or "store.db") as run:
            run.output = agent(given)
    except Exception:
        pass
    with rk.Store.open("store.db", read_only=True) as store:
        made = golden_of(store.load(run.id), **{key: golden[key] for key in golden if key != "asserts"})
    return msgspec.structs.replace(made, asserts=golden.get("asserts", made.asserts))


def test_an_agent_that_does_the_same_passes_and_touches_nothing() -> None:
    golden = recorded(shop)
    before = next(WORLD)

    result = rk.check_golden(golden, shop)

    assert result.passed
    assert result.text == "golden trace shop: the same calls, states, outcome"
    assert result.comparison.identical
    assert result.run.output == "bought 1 tea"
    assert next(WORLD) == before + 1


def test_a_file_is_checked_as_well() -> None:
    write_golden(Path("x.golden.json"), recorded(shop))

    assert rk.check_golden("x.golden.json", shop).passed
    with pytest.raises(UsageError, match=r"cannot take .* \(str\) as `agent`"):
        rk.check_golden("x.golden.json", "shop:shop")  # type: ignore[arg-type]


def other_argument(item: str) -> str:
    look(item)
    return f"bought {buy(item, 2)}"


def one_call_more(item: str) -> str:
    look(item)
    look(item)
    return f"bought {buy(item)}"


def one_call_less(item: str) -> str:
    return f"bought {buy(item)}"


def other_order(item: str) -> str:
    bought = buy(item)
    look(item)
    return f"bought {bought}"


def other_answer(item: str) -> str:
    look(item)
    return f"got {buy(item)}"


def fails(item: str) -> str:
    look(item)
    buy(item)
    raise ValueError("no money")


def plain(item: str) -> str:
    look(item)
    return f"bought {buy(item)}"


DIVERGING: list[tuple[Agent, str, str, str, str]] = [
    (
        other_argument,
        "differs at step_2 (event 1): arguments of buy",
        "  now       buy(count=2, item='tea') → not recorded",
        "  changed   $.count: 1 → 2",
        "calls outcome",
    ),
    (
        one_call_more,
        "differs at step_2 (event 1): missing call of buy, look instead",
        "  recorded  buy(count=1, item='tea') → '1 tea'",
        "  now       look(item='tea') → not recorded",
        "calls outcome",
    ),
    (
        one_call_less,
        "differs at step_1 (event 0): missing call of look",
        "  recorded  look(item='tea') → ",
        "  now       ",
        "calls",
    ),
    (other_order, "order of", "  recorded  ", "  now       ", "calls"),
    (
        other_answer,
        "differs at the end: outcome (output)",
        "  recorded  success: 'bought 1 tea'",
        "  changed   $.output: 'bought 1 tea' → 'got 1 tea'",
        "outcome",
    ),
    (
        fails,
        "differs at the end: outcome (status, output, error)",
        "  now       error: ValueError: no money",
        "  changed   $.status: 'success' → 'error'",
        "outcome",
    ),
]


@pytest.mark.parametrize(
    ("agent", "first", "line", "other", "failed"), DIVERGING, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_divergence_is_told_in_a_few_lines(agent: Agent, first: str, line: str, other: str, failed: str) -> None:
    result = rk.check_golden(recorded(plain), agent)

    lines = result.text.splitlines()
    assert not result.passed
    assert first in lines[0]
    assert lines[0].startswith("golden trace shop differs at ")
    assert any(shown.startswith(line) for shown in lines), result.text
    assert any(shown.startswith(other) for shown in lines), result.text
    assert " ".join(result.failed) == failed
    assert len(lines) <= 10


def test_a_state_that_is_another_fails_though_all_else_is_the_same() -> None:
    def forgetful(item: str) -> str:
        with rk.record("shop") as run:
            with run.step() as step:
                found = look(item)
                step.done({"found": found, "bought": None})
            with run.step() as step:
                bought = buy(item)
                step.done({"found": None, "bought": bought})
            return f"bought {bought}"

    result = rk.check_golden(recorded(shop), forgetful)

    assert result.failed == (Aspect.STATES,)
    assert result.first is not None
    assert result.first.where.startswith("at step_2 (event ")
    assert "changed   $.found: {'item': 'tea'" in result.text
    assert "asserted  calls ✓  states ✗  outcome ✓" in result.text


@pytest.mark.parametrize(
    ("before", "after", "said"), [(shop, plain, "only in the recording"), (plain, shop, "only now")]
)
def test_states_that_only_one_of_the_runs_keeps_are_a_difference(before: Agent, after: Agent, said: str) -> None:
    result = rk.check_golden(recorded(before), after)

    assert result.failed == (Aspect.STATES,)
    assert f"state, kept {said}" in result.text


@pytest.mark.parametrize("asserts", [(aspect,) for aspect in Aspect])
@pytest.mark.parametrize("agent", [other_order, other_answer])
def test_only_what_is_asserted_counts(agent: Agent, asserts: tuple[Aspect, ...]) -> None:
    result = rk.check_golden(recorded(plain, asserts=asserts), agent)

    expected = Aspect.CALLS if agent is other_order else Aspect.OUTCOME
    assert result.passed is (expected not in asserts)
    assert expected in asserts or result.comparison.identical


def too_much(item: str) -> str:
    with rk.record("shop"):
        look(item)
        return buy(item, 5)


def test_an_error_has_to_come_again() -> None:
    golden = recorded(too_much)

    assert golden.run.status.value == "error"
    assert rk.check_golden(golden, too_much).passed
    better = rk.check_golden(golden, lambda item: (look(item), "sorry")[1])
    assert "missing call of buy" in better.text

    def rude(item: str) -> str:
        try:
            return too_much(item)
        except OutOfStock:
            raise OutOfStock("go away") from None

    other = rk.check_golden(golden, rude)
    assert other.failed == (Aspect.OUTCOME,)
    assert "$.error.message: 'only 3 of tea' → 'go away'" in other.text


def test_an_error_of_a_class_that_nobody_can_find_comes_again() -> None:
    class Local(Exception):
        pass

    @rk.tool(name="break")
    def break_it() -> None:
        raise Local(7, "seven")

    golden = recorded(lambda _: break_it())

    assert rk.check_golden(golden, lambda _: break_it()).passed


def test_values_beyond_json_are_compared() -> None:
    def answer(cents: int) -> Agent:
        def agent(_: str) -> Any:
            return {"at": dt.datetime(2024, 3, 1), "raw": b"\xff", "due": decimal.Decimal(cents) / 100, "set": {1, 2}}

        return agent

    golden = recorded(answer(110))
    write_golden(Path("x.golden.json"), golden)

    assert rk.check_golden("x.golden.json", answer(110)).passed
    assert "$.output.due" in rk.check_golden("x.golden.json", answer(120)).text


def volatile(_: str) -> Any:
    number = next(WORLD)
    with rk.record("shop") as run, run.step() as step:
        noted = note("x", number)
        step.done({"noted": noted, "meta": {"id": number}, "log": [{"id": number}, {"id": number}]})
        if number < 0:
            return None
    return {"answer": 1, "meta": {"id": number}}


@rk.tool
def note(text: str, id: int) -> str:
    return text


def test_ignored_members_are_ignored_in_arguments_states_and_outputs_alike() -> None:
    assert not rk.check_golden(recorded(volatile), volatile).passed
    assert rk.check_golden(recorded(volatile, ignore=["$..id"]), volatile).passed
    assert rk.check_golden(recorded(volatile, ignore=["$.id", "$.meta.id", "$.log[*].id"]), volatile).passed


@pytest.mark.parametrize(
    ("ignore", "failed"),
    [
        (["$.meta", "$.log"], "calls states outcome"),
        (["note:$.id", "$.meta"], "states"),
        (["other:$.id", "$.meta", "$.log"], "calls states outcome"),
        (["$.id", "$.log"], "states outcome"),
        (["$.id", "$.log", "$.output.meta.id"], "states"),
        (["$"], ""),
    ],
    ids=str,
)
def test_a_path_reaches_what_it_names_and_nothing_else(ignore: list[str], failed: str) -> None:
    result = rk.check_golden(recorded(volatile, ignore=ignore), volatile)

    # An unrecorded call ends the agent before its state: then the states and the outcome say so as well.
    assert " ".join(result.failed) == failed, result.text


def test_a_message_that_is_never_the_same_can_be_ignored() -> None:
    def unlucky(_: str) -> None:
        raise ValueError(f"request {next(WORLD)} failed")

    def unluckier(_: str) -> None:
        raise TypeError(f"request {next(WORLD)} failed")

    golden = recorded(unlucky, ignore=["$.error.message"])

    assert not rk.check_golden(recorded(unlucky), unlucky).passed
    assert rk.check_golden(golden, unlucky).passed
    assert "$.error.type: 'ValueError' → 'TypeError'" in rk.check_golden(golden, unluckier).text


@rk.tool
def outer(item: str) -> str:
    """A tool that keeps a state and calls another tool: its own business."""
    with rk.record("inside") as run:
        run.checkpoint({"inside": next(WORLD)})
        return str(look(item)["item"])


def uses_outer(item: str) -> str:
    with rk.record("shop") as run:
        run.checkpoint({"n": 1, "log": ["a"]})
        found = outer(item)
        run.checkpoint({"n": 2, "log": ["a", "b"]})
        return found


def test_what_happens_inside_a_tool_is_not_compared() -> None:
    golden = recorded(uses_outer)
    assert [event.parent for event in golden.run.events].count(None) == 3

    assert rk.check_golden(golden, uses_outer).passed
    assert rk.check_golden(msgspec.structs.replace(golden, ignore=("$.other",)), uses_outer).passed


def in_threads(item: str) -> list[Any]:
    with ThreadPoolExecutor(4) as pool:
        return list(
            pool.map(lambda n: (time.sleep(random.random() / 500), look(f"{item}{n}"), buy(item))[1:], range(4))
        )


async def in_tasks(item: str) -> list[Any]:
    async def one(n: int) -> Any:
        for _ in range(random.randrange(5)):
            await asyncio.sleep(0)
        return [await alook(f"{item}{n}"), await alook(item)]

    return list(await asyncio.gather(*(one(n) for n in range(4))))


@rk.tool
async def alook(item: str) -> list[Any]:
    await asyncio.sleep(0)
    return [item, next(WORLD)]


def test_the_order_of_parallel_calls_does_not_count() -> None:
    golden = recorded(in_threads)
    asyncio_golden = recorded(lambda item: asyncio.run(in_tasks(item)))

    for _ in range(5):
        result = rk.check_golden(golden, in_threads)
        assert result.passed, result.text
        result = rk.check_golden(asyncio_golden, in_tasks)
        assert result.passed, result.text


def test_states_beside_parallel_calls_do_not_depend_on_the_scheduler() -> None:
    def agent(wait: list[int]) -> Agent:
        async def run_it(item: str) -> str:
            with rk.record("shop") as run:
                first = asyncio.create_task(one(run, item, wait[0]))
                second = asyncio.create_task(one(run, f"more {item}", wait[1]))
                for n in range(3):
                    with run.step(f"main_{n}") as step:
                        step.done({"main": n})
                        await asyncio.sleep(0)
                await asyncio.gather(first, second)
                return "done"

        return run_it

    async def one(run: Any, item: str, wait: int) -> None:
        for n in range(2):
            for _ in range(wait):
                await asyncio.sleep(0)
            await alook(item)
            run.checkpoint({"mine": [item, n]})

    def wrong(item: str) -> str:
        return asyncio.run(agent([0, 4])(f"other {item}"))

    golden = recorded(lambda item: asyncio.run(agent([0, 4])(item)))

    for wait in ([0, 4], [4, 0], [2, 2], [1, 3]):
        result = rk.check_golden(golden, agent(wait))
        assert result.passed, result.text
    other = rk.check_golden(golden, wrong)
    assert "alook" in other.text.splitlines()[0], other.text
    assert other.failed[0] is Aspect.CALLS


@rk.tool
def pages(count: int) -> Any:
    for n in range(count):
        yield [n, next(WORLD)]


def test_agents_of_every_shape_are_replayed() -> None:
    def streaming(count: int) -> Any:
        for page in pages(count):
            yield page[0]

    def in_a_thread(count: int) -> list[Any]:
        found: list[Any] = []
        worker = threading.Thread(target=lambda: found.extend(pages(count)))
        worker.start()
        worker.join()
        return found

    golden = recorded(lambda count: list(streaming(count)), 3)

    assert rk.check_golden(golden, streaming).passed
    assert rk.check_golden(recorded(in_a_thread, 2), in_a_thread).passed


def test_an_async_agent_is_checked_inside_of_a_loop() -> None:
    golden = recorded(lambda item: asyncio.run(in_tasks(item)))

    async def main() -> rk.GoldenResult:
        return rk.check_golden(golden, in_tasks)

    result = asyncio.run(main())
    assert result.passed, result.text


def test_an_agent_that_hides_an_unrecorded_call_does_not_pass() -> None:
    def sly(item: str) -> str:
        try:
            look("coffee")
        except rk.Divergence:
            pass
        return plain(item)

    result = rk.check_golden(recorded(plain, asserts=(Aspect.OUTCOME,)), sly)

    assert not result.passed
    assert result.comparison.identical
    assert "the agent left its recording" in result.text
    assert "now       look(item='coffee')" in result.text


def test_an_agent_that_goes_past_its_tools_to_the_network_does_not_pass() -> None:
    def phones(item: str) -> str:
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1).close()
        except Exception:
            pass
        return plain(item)

    result = rk.check_golden(recorded(plain), phones)

    assert not result.passed
    assert "127.0.0.1" in result.text
    with pytest.raises(rk.Divergence, match=r"127\.0\.0\.1"):
        accepted(result)


def test_a_live_call_is_never_a_pass() -> None:
    golden = recorded(plain, asserts=(Aspect.OUTCOME,))

    result = replay_golden(golden, lambda item: (look("coffee"), plain(item))[1], live=["look"])

    assert not result.passed
    assert result.stopped == ()


def test_what_a_file_says_cannot_steer_a_terminal() -> None:
    golden = recorded(lambda _: "\x1b[2J\x1b]0;owned\x07", name="a\x1b[31m")

    text = rk.check_golden(golden, lambda _: (_ for _ in ()).throw(ValueError("\x1b[2J\nsecond line"))).text

    assert all(line.isprintable() for line in text.splitlines())
    assert "\\x1b[31m" in text


def test_an_agent_that_exits_has_ended_in_an_error() -> None:
    golden = recorded(plain)

    def leaves(item: str) -> None:
        look(item)
        raise SystemExit(3)

    assert "SystemExit: 3" in rk.check_golden(golden, leaves).comparison.outcome.b.error  # type: ignore[operator]


def test_an_interruption_is_not_the_agents_doing() -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rk.check_golden(recorded(plain), interrupted)


def test_a_fork_is_a_golden_trace_of_the_same_agent(store: rk.Store) -> None:
    with rk.record("shop", input="tea", store=store) as run:
        run.output = plain("tea")
    fork_id, _ = rk.fork(run.id, "step_1", rk.Edits(result={"item": "tea", "stock": 0}), agent=plain, store=store)

    golden = golden_of(store.load(fork_id))

    assert golden.agent == "shop"
    assert [call.result for call in golden.run.tool_calls] == [{"item": "tea", "stock": 0}, "1 tea"]
    assert rk.check_golden(golden, plain).passed


@pytest.mark.parametrize("paths", [(), ("$.id",)])
def test_of_a_recording_that_keeps_some_of_its_states_those_are_compared(store: rk.Store, paths: Any) -> None:
    def counts(wrong: int) -> Agent:
        def agent(_: str) -> int:
            with rk.record("shop") as run:
                for n in range(7):
                    with run.step() as step:
                        look(f"tea {n}")
                        step.done({"n": -n if n == wrong else n, "id": next(WORLD) if paths else 0})
            return 7

        return agent

    with rk.record("shop", input="tea", store=store, checkpoint_every=3) as run:
        run.output = counts(99)("tea")
    golden = golden_of(store.load(run.id), ignore=paths)
    write_golden(Path("x.golden.json"), golden)

    assert read_golden("x.golden.json") == golden
    assert rk.check_golden(golden, counts(99)).passed
    assert rk.check_golden(golden, counts(1)).passed, "nobody knows what the state was after that step"
    assert rk.check_golden(golden, counts(3)).failed == (Aspect.STATES,)
