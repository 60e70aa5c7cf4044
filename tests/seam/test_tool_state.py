"""Lists, objects and classes that a tool changes: noted where the agent's own code reads them, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import itertools
import logging
import queue
import random
import sqlite3
import sys
import threading
import warnings
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy
import pytest

import replaykit as rk
from replaykit.seam.leftover_jobs import LeftoverJobs


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rk.RecordingWarning)
        yield


def noted(agent: Callable[[], Any], store: rk.Store) -> set[str]:
    """Return the bare names of what the calls of the agent are recorded to have changed."""
    with rk.record("agent", store=store) as run:
        agent()
    changed = [name for call in store.load(run.id).calls for name in call.mutated]
    return {name.removeprefix(f"{__name__}.") for name in changed}


@dataclass
class State:
    count: int = 0
    looked_at_by_nobody: int = 0
    history: list[str] = field(default_factory=list)


class Slotted:
    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class Registry:
    entries: ClassVar[list[str]] = []
    size = 0

    @classmethod
    @rk.tool
    def register(cls, name: str) -> None:
        cls.entries.append(name)
        cls.size += 1


MEMORY: list[str] = []
MEMO: dict[str, int] = {}
CALLS: list[str] = []
ORDERS = {"7": {"status": "open"}}
SEEN: set[str] = set()
RECENT: deque[str] = deque(maxlen=2)
TALLY: Counter[str] = Counter()
GROUPS: defaultdict[str, list[int]] = defaultdict(list)
STATE = State()
SLOTTED = Slotted()
JOBS = {"a": State()}
TEXT = io.StringIO()
IDS = itertools.count()
INBOX: queue.Queue[str] = queue.Queue()
DONE = threading.Event()
DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.execute("create table t (x)")
STATUS = {"phase": 0}
CONSTANT = {"limit": 3}
OPTIONS: dict[str, Any] = {}


def remember(text: str) -> None:
    MEMORY.append(text)


@rk.tool
def append(text: str) -> None:
    MEMORY.append(text)


@rk.tool
def append_by_helper(text: str) -> None:
    remember(text)


@rk.tool
def set_status() -> None:
    ORDERS["7"]["status"] = "refunded"


@rk.tool
def collect(text: str) -> None:
    SEEN.add(text)
    RECENT.append(text)
    TALLY[text] += 1
    GROUPS[text].append(1)


@rk.tool
def bump() -> None:
    STATE.count += 1
    STATE.looked_at_by_nobody += 1


@rk.tool
def bump_slot() -> None:
    SLOTTED.total += 1


@rk.tool
def finish_job() -> None:
    JOBS["a"].history.append("done")


@rk.tool
def write() -> None:
    TEXT.write("x")
    next(IDS)
    INBOX.put("x")
    DONE.set()
    DATABASE.execute("insert into t values (1)")


@rk.tool
def lookup(key: str) -> int:
    CALLS.append(key)
    return cached(key)


def cached(key: str) -> int:
    if key not in MEMO:
        MEMO[key] = CONSTANT["limit"]
    return MEMO[key]


@rk.tool
def count_itself() -> None:
    count_itself.calls = getattr(count_itself, "calls", 0) + 1  # type: ignore[attr-defined]


def test_a_list_that_the_agent_reads_is_noted(store: rk.Store) -> None:
    def agent() -> bool:
        append("a")
        return len(MEMORY) > 1

    assert noted(agent, store) == {"MEMORY"}


def test_what_a_function_of_the_tool_changes_is_noted(store: rk.Store) -> None:
    def agent() -> bool:
        append_by_helper("a")
        return "a" in MEMORY

    assert noted(agent, store) == {"MEMORY"}


def test_changes_inside_of_a_container_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        set_status()
        finish_job()
        return ORDERS["7"]["status"], JOBS["a"].history

    assert noted(agent, store) == {"ORDERS", "JOBS"}


def test_containers_of_all_kinds_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        collect("a")
        return len(SEEN), list(RECENT), TALLY["a"], GROUPS["a"]

    assert noted(agent, store) == {"SEEN", "RECENT", "TALLY", "GROUPS"}


def test_streams_queues_events_and_databases_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        write()
        found = DATABASE.execute("select count(*) from t").fetchone()
        return TEXT.getvalue(), next(IDS), INBOX.get(), DONE.is_set(), found

    assert noted(agent, store) == {"TEXT", "IDS", "INBOX", "DONE", "DATABASE"}


def test_of_an_object_the_fields_that_the_agent_reads_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        bump()
        bump_slot()
        return STATE.count, SLOTTED.total

    assert noted(agent, store) == {"STATE.count", "SLOTTED.total"}


def test_all_fields_are_noted_where_the_agent_uses_the_object_as_a_whole(store: rk.Store) -> None:
    def agent() -> Any:
        bump()
        return asdict(STATE)

    assert noted(agent, store) == {"STATE.count", "STATE.looked_at_by_nobody"}


def test_class_attributes_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        Registry.register("a")
        return Registry.size, Registry.entries

    assert noted(agent, store) == {"cls.entries", "cls.size"}


def test_attributes_of_functions_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        count_itself()
        return count_itself.calls  # type: ignore[attr-defined]

    assert noted(agent, store) == {"count_itself.calls"}


def test_variables_of_a_closure_are_noted(store: rk.Store) -> None:
    notes: list[str] = []
    total = 0

    @rk.tool
    def take() -> None:
        nonlocal total
        total += 1
        notes.append("a")

    def agent() -> Any:
        take()
        return total, notes

    found = noted(agent, store)
    assert {name.rpartition(".")[2] for name in found} == {"total", "notes"}


class Bot:
    def __init__(self, memory: list[str]) -> None:
        self.notes = memory
        self.state = State()

    def is_done(self) -> bool:
        append("done")
        return bool(self.notes)

    @rk.tool
    def work(self) -> None:
        self.state.history.append("worked")

    def run(self) -> Any:
        self.work()
        return self.state.history


def test_a_list_that_an_object_of_the_agent_holds_is_noted(store: rk.Store) -> None:
    bot = Bot(MEMORY)
    assert noted(bot.is_done, store) == {"MEMORY"}


def test_fields_of_a_field_are_noted(store: rk.Store) -> None:
    assert noted(Bot([]).run, store) == {"self.state.history"}


def test_memos_and_lists_of_calls_are_not_noted(store: rk.Store) -> None:
    def agent() -> Any:
        CALLS.clear()
        return lookup("a") + CONSTANT["limit"]

    assert noted(agent, store) == set()


def test_what_is_read_after_the_run_is_not_noted(store: rk.Store) -> None:
    calls: list[str] = []

    @rk.tool
    def ask(text: str) -> str:
        calls.append(text)
        CALLS.append(text)
        return text

    with rk.record("agent", store=store) as run:
        ask("a")
    assert calls == ["a"]
    assert CALLS[-1] == "a"
    assert [call.mutated for call in store.load(run.id).calls] == [()]


def test_what_is_read_inside_of_the_block_is_noted(store: rk.Store) -> None:
    calls: list[str] = []

    @rk.tool
    def ask(text: str) -> str:
        calls.append(text)
        return text

    with rk.record("agent", store=store) as run:
        ask("a")
        if calls:
            run.output = "asked"
    names = [name.rpartition(".")[2] for call in store.load(run.id).calls for name in call.mutated]
    assert names == ["calls"]


def phase() -> int:
    return STATUS["phase"]


@rk.tool
def next_phase() -> None:
    STATUS["phase"] += 1


def test_threads_and_tasks_are_searched(store: rk.Store) -> None:
    def in_threads() -> Any:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(next_phase).result()
        return phase()

    assert noted(in_threads, store) == {"STATUS"}


def test_a_coroutine_that_waits_for_its_tasks_is_searched(store: rk.Store) -> None:
    @rk.tool
    async def step() -> None:
        OPTIONS["a"] = 1

    @rk.record(store=store)
    async def agent() -> Any:
        await asyncio.gather(step(), step())
        return OPTIONS["a"]

    asyncio.run(agent())
    (header,) = store.headers()
    calls = list(store.load(header.id).calls)
    assert (f"{__name__}.OPTIONS",) in [call.mutated for call in calls]


REGISTERED: list[Callable[[], Any]] = []
HEALTH = {"ok": True}


def registered(function: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(function)
    def call() -> Any:
        return function()

    REGISTERED.append(call)
    return call


@registered
def is_healthy() -> bool:
    return HEALTH["ok"]


@rk.tool
def break_down() -> None:
    HEALTH["ok"] = False


def run_registered() -> None:
    for function in REGISTERED:
        function()


def test_functions_behind_decorators_are_searched(store: rk.Store) -> None:
    def agent() -> Any:
        break_down()
        return is_healthy()

    assert noted(agent, store) == {"HEALTH"}


RNG = random.Random(7)
TICKETS = iter([1, 2, 3])


class Store:
    _instance: Store | None = None

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    @classmethod
    def instance(cls) -> Store:
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance


class Translator:
    calls = 0

    def __init__(self) -> None:
        self.words = 0

    def __call__(self, text: str) -> str:
        Translator.calls += 1
        self.words += 1
        return text


TRANSLATOR = Translator()
translate = rk.tool(TRANSLATOR)


@rk.tool
def draw() -> float:
    return random.random() + RNG.random() + next(TICKETS)


@rk.tool
def put(value: str) -> None:
    Store.instance().data["a"] = value


def test_generators_of_chance_and_iterators_that_agent_and_tool_share_are_noted(store: rk.Store) -> None:
    def agent() -> Any:
        draw()
        return random.random(), RNG.random(), next(TICKETS)

    assert noted(agent, store) == {"random.getstate()", "RNG", "TICKETS"}


def test_chance_of_a_tool_is_not_noted_where_the_agent_draws_nothing(store: rk.Store) -> None:
    assert noted(lambda: draw(), store) == set()


def test_a_field_of_an_object_that_a_class_holds_is_noted(store: rk.Store) -> None:
    def agent() -> Any:
        Store.instance()
        put("x")
        return Store.instance().data["a"]

    assert noted(agent, store) == {"Store._instance.data"}


def test_an_object_that_is_a_tool_is_looked_at(store: rk.Store) -> None:
    def agent() -> Any:
        translate("a")
        return Translator.calls, TRANSLATOR.words

    assert noted(agent, store) == {"Translator.calls", "Translator().words"}


def test_a_list_in_a_partial_is_noted(store: rk.Store) -> None:
    log: list[str] = []

    def add(log: list[str], text: str) -> None:
        log.append(text)

    added = rk.tool(functools.partial(add, log), name="add")

    def agent() -> Any:
        added("a")
        return len(log)

    assert noted(agent, store) == {"partial(0)"}


class Held:
    """Something whose end is seen."""


def test_a_recorded_agent_holds_nothing_longer_than_otherwise(store: rk.Store) -> None:
    is_alive: list[bool] = []

    def agent() -> None:
        held = Held()
        reference = weakref.ref(held)
        quick()
        del held
        is_alive.append(reference() is not None)

    with rk.record("agent", store=store):
        agent()

    assert is_alive == [False]


def test_the_variables_that_an_agent_has_taken_stay(store: rk.Store) -> None:
    def agent(order: str) -> dict[str, Any]:
        taken = locals()
        quick()
        return taken

    with rk.record("agent", store=store):
        assert agent("a lamp")["order"] == "a lamp"


@rk.tool
def quick() -> None:
    LISTED.append("called")


LISTED: list[str] = []


@rk.tool
def report_lines() -> None:
    sys.stdout.writelines(["two\n", "lines\n"])


def test_lines_written_into_redirected_output_are_noted(store: rk.Store) -> None:
    def agent() -> str:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            report_lines()
        return output.getvalue()

    with pytest.warns(rk.RecordingWarning, match="sys.stdout"), rk.record("lines", store=store):
        assert agent() == "two\nlines\n"


PROGRESS: dict[str, str] = {}
READY = threading.Event()


@rk.tool
def start_thread(name: str, gate: threading.Event) -> None:
    def work() -> None:
        gate.wait(5)
        PROGRESS[name] = "failed"

    threading.Thread(target=work).start()


@rk.tool
def start_timer(seconds: float) -> None:
    threading.Timer(seconds, READY.set).start()


@rk.tool
def start_pool_job(pool: Any, gate: threading.Event, found: list[str]) -> None:
    pool.submit(gate.wait, 5)
    pool.submit(found.append, "late")


@rk.tool
async def start_task(name: str) -> None:
    async def work() -> None:
        await asyncio.sleep(0.01)
        PROGRESS[name] = "failed"

    TASKS.append(asyncio.create_task(work()))


@rk.tool
async def arm(found: list[str]) -> None:
    asyncio.get_running_loop().call_later(0.01, found.append, "late")


@rk.tool
def work_in_threads(names: list[str]) -> None:
    threads = [threading.Thread(target=PROGRESS.get, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


TASKS: list[asyncio.Task[None]] = []


def test_what_a_job_may_change_after_the_call_is_noted(store: rk.Store) -> None:
    gate = threading.Event()

    def with_thread() -> None:
        start_thread("a", gate)
        gate.set()
        assert PROGRESS.get("a") in (None, "failed")

    def with_timer() -> None:
        start_timer(0.05)
        READY.wait(5)

    def with_pool() -> None:
        gate.clear()
        found: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            start_pool_job(pool, gate, found)
            gate.set()
        assert found == ["late"]

    async def with_task() -> None:
        await start_task("b")
        await TASKS.pop()
        assert PROGRESS["b"] == "failed"

    async def with_loop_timer() -> None:
        found: list[str] = []
        await arm(found)
        await asyncio.sleep(0.05)
        assert found == ["late"]

    assert noted(with_thread, store) == {"gate (later)", "PROGRESS (later)"}
    assert noted(with_timer, store) == {"READY (later)"}
    assert noted(with_pool, store) == {"gate (later)", "found (later)"}
    assert noted(lambda: asyncio.run(with_task()), store) == {"PROGRESS (later)", "TASKS"}
    assert noted(lambda: asyncio.run(with_loop_timer()), store) == {"found (later)"}


@rk.tool
async def give_up_waiting(found: list[str], gate: threading.Event) -> None:
    def work() -> None:
        gate.wait(5)
        found.append("late")

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(work), 0.01)


@rk.tool
def start_large_job(pool: ThreadPoolExecutor, gate: threading.Event, numbers: list[int], found: list[str]) -> None:
    def work(_gate: threading.Event, _numbers: list[int], words: list[str]) -> None:
        gate.wait(5)
        words.append("late")

    pool.submit(work, gate, numbers, found)


def test_a_thread_that_nobody_waits_for_any_more_is_noted(store: rk.Store) -> None:
    gate = threading.Event()

    async def agent() -> None:
        found: list[str] = []
        await give_up_waiting(found, gate)
        gate.set()
        while not found:
            await asyncio.sleep(0.01)

    assert "found (later)" in noted(lambda: asyncio.run(agent()), store)


def test_a_large_argument_hides_no_other(store: rk.Store) -> None:
    gate = threading.Event()

    def agent() -> None:
        found: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            start_large_job(pool, gate, list(range(5000)), found)
            gate.set()
        assert found == ["late"]

    assert "found (later)" in noted(agent, store)


def test_a_job_that_changes_a_set_meanwhile_disturbs_nothing() -> None:
    numbers, gate = set(range(1000)), threading.Event()

    def change() -> None:
        number = 1000
        while not gate.is_set():
            numbers.add(number)
            numbers.discard(number - 500)
            number += 1

    thread = threading.Thread(target=change, args=())
    thread.numbers = numbers  # type: ignore[attr-defined]
    thread.start()
    try:
        for _ in range(300):
            assert LeftoverJobs([weakref.ref(thread)]).hold(numbers)
    finally:
        gate.set()
        thread.join()


def test_jobs_that_end_within_the_call_are_not_noted(store: rk.Store) -> None:
    def agent() -> None:
        work_in_threads(["a", "b"])
        assert "nobody" not in PROGRESS

    assert noted(agent, store) == set()


def test_a_job_that_changes_nothing_the_agent_reads_is_not_noted(store: rk.Store) -> None:
    telemetry: list[str] = []
    gate = threading.Event()

    def flush() -> None:
        gate.wait(5)
        telemetry.append("flushed")

    @rk.tool
    def look(orders: list[str]) -> int:
        threading.Thread(target=flush).start()
        return len(orders)

    def agent() -> None:
        orders = ["7"]
        assert look(orders) == 1
        orders.append("8")

    assert noted(agent, store) == set()
    gate.set()


@rk.tool
def silence() -> None:
    logging.getLogger("quiet").setLevel(logging.CRITICAL)


@rk.tool
def be_strict() -> None:
    warnings.simplefilter("error")


@rk.tool
def raise_on_division() -> None:
    numpy.seterr(all="raise")


@rk.tool
def draw_with_numpy() -> float:
    return float(numpy.random.uniform())


@rk.tool
async def leave_a_task() -> None:
    TASKS.append(asyncio.create_task(asyncio.sleep(0)))


def test_settings_that_the_agent_reads_are_noted(store: rk.Store) -> None:
    def with_logging() -> None:
        logging.getLogger("quiet").setLevel(logging.NOTSET)
        silence()
        assert not logging.getLogger("quiet").isEnabledFor(logging.ERROR)

    def with_warnings() -> None:
        with warnings.catch_warnings():
            be_strict()
            with pytest.raises(UserWarning):
                warnings.warn("careful", stacklevel=1)

    def with_numpy() -> None:
        raise_on_division()
        with pytest.raises(FloatingPointError):
            numpy.float64(1) / numpy.float64(0)

    def with_draws() -> None:
        draw_with_numpy()
        numpy.random.randint(5)

    async def with_tasks() -> None:
        await leave_a_task()
        assert len(asyncio.all_tasks()) == 2
        TASKS.clear()

    assert noted(with_logging, store) == {"logging.getLogger().level"}
    assert noted(with_warnings, store) == {"warnings.filters"}
    with numpy.errstate():
        assert noted(with_numpy, store) == {"numpy.geterr()"}
    assert noted(with_draws, store) == {"numpy.random.get_state()"}
    assert "asyncio.all_tasks()" in noted(lambda: asyncio.run(with_tasks()), store)


def test_settings_that_the_agent_does_not_read_are_not_noted(store: rk.Store) -> None:
    def agent() -> None:
        logging.getLogger("quiet").setLevel(logging.NOTSET)
        silence()
        draw_with_numpy()

    assert noted(agent, store) == set()


TOTAL = {"sum": 0}


@rk.tool
def add(number: int) -> int:
    TOTAL["sum"] += number
    return number


@rk.tool
def add_to(numbers: list[int]) -> None:
    numbers.append(1)


@rk.tool
def add_twice(number: int) -> int:
    add_to([])
    return add(number) + add(number)


@rk.tool
def add_each(numbers: list[int]) -> Any:
    for number in numbers:
        yield add(number)


@rk.tool
async def add_in_a_task(number: int) -> int:
    async def work() -> int:
        return add(number)

    return await asyncio.create_task(work())


def test_what_a_tool_inside_of_a_tool_changes_is_noted_for_both(store: rk.Store) -> None:
    def changed_by(agent: Callable[[], Any]) -> list[tuple[str, tuple[str, ...]]]:
        with rk.record("agent", store=store) as run:
            agent()
            assert TOTAL["sum"] > 0
        return [(call.name, call.mutated) for call in store.load(run.id).calls]

    total = (f"{__name__}.TOTAL",)

    assert changed_by(lambda: add_twice(3)) == [
        ("add_twice", total),
        ("add_to", ("numbers",)),
        ("add", total),
        ("add", total),
    ]
    assert changed_by(lambda: list(add_each([3]))) == [("add_each", total), ("add", total)]
    assert changed_by(lambda: asyncio.run(add_in_a_task(3))) == [("add_in_a_task", total), ("add", total)]


REPORTS: dict[str, str] = {}


@rk.tool
def start_job_with_callback(pool: Any, name: str) -> None:
    pool.submit(threading.Event().wait, 0.02).add_done_callback(lambda _: REPORTS.update({name: "failed"}))


def test_what_the_callback_of_a_job_may_change_is_noted(store: rk.Store) -> None:
    def agent() -> None:
        with ThreadPoolExecutor(1) as pool:
            start_job_with_callback(pool, "a")
        assert REPORTS["a"] == "failed"

    assert noted(agent, store) == {"REPORTS (later)"}
