"""Agents that look at what a tool changed beside its result: lists, objects, classes, closures, logs, warnings."""

from __future__ import annotations

import asyncio
import io
import logging
import queue
import sqlite3
import threading
import time
import warnings
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from collection import every_way, failing, main, ran, took
from pydantic import BaseModel

import replaykit as rk

CHANGED = every_way("changed")
LOG = logging.getLogger("fidelity.tool_state")


class Refused(Exception):
    """The agent cannot go on."""


def judged(is_bad: object, why: str) -> str:
    took(f"{why}: {bool(is_bad)}")
    if is_bad:
        raise Refused(why)
    return "fine"


MEMORY: list[str] = []


@rk.tool
def note(text: str) -> bool:
    ran("note")
    MEMORY.append(text)
    return True


@failing("Remember it", inconclusive=CHANGED)
def module_memory(question: str) -> str:
    MEMORY.clear()
    note(question)
    return judged(len(MEMORY) == 1, "something was remembered")


ORDERS = {"7": {"status": "open"}}


def save_order(number: str, status: str) -> None:
    ORDERS[number]["status"] = status


@rk.tool
def refund(number: str) -> str:
    ran("refund")
    save_order(number, "refunded twice")
    return "ok"


@failing("Refund 7", inconclusive=CHANGED)
def nested_order_changed_by_helper(question: str) -> str:
    ORDERS["7"]["status"] = "open"
    refund("7")
    return judged("twice" in ORDERS["7"]["status"], "refunded twice")


@dataclass
class Budget:
    spent: float = 0.0
    log: list[str] = field(default_factory=list)


BUDGET = Budget()


@rk.tool
def pay(amount: float) -> str:
    ran("pay")
    BUDGET.spent += amount
    BUDGET.log.append("paid")
    return "paid"


@failing("Pay 10", inconclusive=CHANGED)
def dataclass_state(question: str) -> str:
    BUDGET.spent = 0.0
    pay(10.0)
    return judged(BUDGET.spent > 5, "too expensive")


@failing("Pay 20", inconclusive=CHANGED)
def dataclass_as_a_whole(question: str) -> str:
    BUDGET.spent = 0.0
    pay(20.0)
    return judged("20.0" in str(asdict(BUDGET)), "too expensive")


class Quota:
    used = 0
    tokens: Counter[str] = Counter()

    @classmethod
    @rk.tool
    def take(cls, name: str) -> None:
        ran("take")
        cls.used += 1
        cls.tokens[name] += 1


@failing("Take one", inconclusive=CHANGED)
def class_attribute(question: str) -> str:
    Quota.used = 0
    Quota.take("a")
    return judged(Quota.used >= 1, "the quota is used up")


class Cursor:
    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position = 0

    @rk.tool
    def advance(self) -> str:
        ran("advance")
        self.position += 1
        return "advanced"


@failing("Advance", inconclusive=CHANGED)
def slotted_object(question: str) -> str:
    cursor = Cursor()
    cursor.advance()
    return judged(cursor.position == 1, "at the end")


class Settings(BaseModel):
    mode: str = "safe"


SETTINGS = Settings()


@rk.tool
def configure(mode: str) -> str:
    ran("configure")
    SETTINGS.mode = mode
    return mode


@failing("Configure it", inconclusive=CHANGED)
def pydantic_settings(question: str) -> str:
    SETTINGS.mode = "safe"
    configure("unsafe")
    return judged(SETTINGS.mode == "unsafe", "not safe")


def made_of_closures():
    errors: list[str] = []

    @rk.tool
    def attempt(what: str) -> str:
        ran("attempt")
        errors.append(what)
        return "tried"

    def is_over() -> bool:
        return len(errors) > 1

    return attempt, is_over


@failing("Try twice", inconclusive=CHANGED)
def closure_list(question: str) -> str:
    attempt, is_over = made_of_closures()
    for number in range(2):
        attempt(str(number))
    return judged(is_over(), "too many attempts")


EVENTS: queue.Queue[str] = queue.Queue()
RECENT: deque[str] = deque(maxlen=5)


@rk.tool
def publish(text: str) -> None:
    ran("publish")
    EVENTS.put(text)
    RECENT.append(text)


@failing("Publish it", inconclusive=CHANGED)
def queue_of_events(question: str) -> str:
    publish("failed")
    try:
        event = EVENTS.get_nowait()
    except queue.Empty:
        event = ""
    return judged(event == "failed", "a failure was published")


class History:
    def __init__(self) -> None:
        self.turns: list[str] = []


class Chat:
    def __init__(self) -> None:
        self.history = History()

    @rk.tool
    def say(self, text: str) -> str:
        ran("say")
        self.history.turns.append(text)
        return text.upper()

    def is_stuck(self) -> bool:
        return self.history.turns[-1:] == ["hello"]


@failing("hello", inconclusive=CHANGED)
def history_of_a_field(question: str) -> str:
    chat = Chat()
    chat.say("hello")
    return judged(chat.is_stuck(), "the chat is stuck")


DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.execute("create table orders (number text)")


@rk.tool
def book(number: str) -> str:
    ran("book")
    DATABASE.execute("insert into orders values (?)", (number,))
    return "booked"


@failing("Book it", inconclusive=CHANGED)
def database_in_memory(question: str) -> str:
    DATABASE.execute("delete from orders")
    book("7")
    (count,) = DATABASE.execute("select count(*) from orders").fetchone()
    return judged(count == 1, "booked once")


DONE = threading.Event()


@rk.tool
def finish(text: str) -> str:
    ran("finish")
    DONE.set()
    return text


@failing("Finish it", inconclusive=CHANGED)
def event_of_a_tool(question: str) -> str:
    DONE.clear()
    finish("a")
    return judged(DONE.is_set(), "finished too early")


SHARED: dict[str, int] = {}


@rk.tool
async def count_up(key: str) -> None:
    ran("count_up")
    await asyncio.sleep(0.01)
    SHARED[key] = SHARED.get(key, 0) + 1


@failing("Count", inconclusive=CHANGED)
async def shared_by_tasks(question: str) -> str:
    SHARED.clear()
    await asyncio.gather(*(count_up("a") for _ in range(3)))
    return judged(SHARED.get("a", 0) == 3, "counted three times")


RESULTS: list[int] = []


@rk.tool
def compute(number: int) -> int:
    ran("compute")
    RESULTS.append(number * number)
    return number


@failing("Compute", inconclusive=CHANGED)
def collected_in_threads(question: str) -> str:
    RESULTS.clear()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compute, range(4)))
    return judged(sum(RESULTS) > 10, "the sum is too high")


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@rk.tool
def connect(host: str) -> str:
    ran("connect")
    LOG.warning("retrying %s", host)
    return "connected"


@failing("Connect", inconclusive=CHANGED)
def records_of_a_tool(question: str) -> str:
    records = Records()
    LOG.addHandler(records)
    try:
        connect("db")
    finally:
        LOG.removeHandler(records)
    return judged(any("retrying" in message for message in records.messages), "it was retried")


@failing("Connect again", inconclusive=CHANGED)
def log_text_of_a_tool(question: str) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    LOG.addHandler(handler)
    try:
        connect("db")
    finally:
        LOG.removeHandler(handler)
    return judged("retrying" in stream.getvalue(), "it was retried")


@rk.tool
def old_call(name: str) -> str:
    ran("old_call")
    warnings.warn(f"{name} is deprecated", DeprecationWarning, stacklevel=2)
    return name


@failing("Call it", inconclusive=CHANGED)
def warnings_of_a_tool(question: str) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        old_call("v1")
    return judged(bool(caught), "it is deprecated")


MEMO: dict[str, str] = {}
REQUESTS: list[str] = []


def fetched(key: str) -> str:
    if key not in MEMO:
        MEMO[key] = f"value of {key}"
    return MEMO[key]


@rk.tool
def cached_lookup(key: str) -> str:
    ran("cached_lookup")
    REQUESTS.append(key)
    return fetched(key)


@failing("Look it up")
def memo_of_a_tool(question: str) -> str:
    """Nobody but the tool looks at its memo: a replay can tell."""
    REQUESTS.clear()
    values = [cached_lookup(key) for key in ("a", "b", "a")]
    return judged(values[0] == values[2], "the same value twice")


def request_count() -> int:
    """For whoever wants to know after a run; the agent does not."""
    return len(REQUESTS)


# work that a tool leaves running
LATER = every_way("later")
JOBS: dict[str, str] = {}
FINISHED = threading.Event()


@rk.tool
def submit_job(name: str) -> str:
    ran("submit_job")

    def work() -> None:
        time.sleep(0.2)
        JOBS[name] = "failed"

    threading.Thread(target=work, daemon=True).start()
    return name


@failing("Wait for the job", inconclusive=LATER)
def job_in_a_thread(question: str) -> str:
    JOBS.clear()
    name = submit_job("export")
    deadline = time.monotonic() + 5
    while name not in JOBS and time.monotonic() < deadline:
        time.sleep(0.05)
    return judged(JOBS.get(name) == "failed", "the job failed")


@rk.tool
def start_backup(seconds: float) -> None:
    ran("start_backup")
    threading.Timer(seconds, FINISHED.set).start()


@failing("Wait for the backup", inconclusive=LATER)
def event_of_a_timer(question: str) -> str:
    FINISHED.clear()
    start_backup(0.2)
    return judged(FINISHED.wait(5), "finished far too soon")


@rk.tool
async def start_export(name: str) -> None:
    ran("start_export")

    async def work() -> None:
        await asyncio.sleep(0.2)
        JOBS[name] = "failed"

    TASKS.append(asyncio.create_task(work()))


TASKS: list[asyncio.Task[None]] = []


@failing("Wait for the export", inconclusive=LATER)
async def job_in_a_task(question: str) -> str:
    JOBS.clear()
    await start_export("export")
    for _ in range(20):
        if "export" in JOBS:
            break
        await asyncio.sleep(0.05)
    return judged(JOBS.get("export") == "failed", "the export failed")


@rk.tool
async def arm_alarm(fired: list[str]) -> None:
    ran("arm_alarm")
    asyncio.get_running_loop().call_later(0.1, fired.append, "alarm")


@failing("Listen for the alarm", inconclusive=LATER)
async def timer_of_the_event_loop(question: str) -> str:
    fired: list[str] = []
    await arm_alarm(fired)
    await asyncio.sleep(0.4)
    return judged(fired == ["alarm"], "the alarm went off")


# a tool inside of a tool
@rk.tool
def add_item(name: str) -> None:
    ran("add_item")
    BASKET[name] = BASKET.get(name, 0) + 1


@rk.tool
def add_pair(name: str) -> str:
    ran("add_pair")
    add_item(name)
    add_item(name)
    return name


BASKET: dict[str, int] = {}


@failing("Buy a pair", inconclusive=CHANGED)
def changed_by_an_inner_tool(question: str) -> str:
    BASKET.clear()
    add_pair("shoe")
    return judged(BASKET.get("shoe") == 2, "two shoes")


# settings of libraries
@rk.tool
def silence(name: str) -> str:
    ran("silence")
    logging.getLogger(name).setLevel(logging.CRITICAL)
    return name


@failing("Is it silent?", inconclusive=CHANGED)
def log_level_of_a_tool(question: str) -> str:
    logging.getLogger("shop").setLevel(logging.INFO)
    silence("shop")
    return judged(not logging.getLogger("shop").isEnabledFor(logging.ERROR), "errors are hidden")


if __name__ == "__main__":
    main(globals())
