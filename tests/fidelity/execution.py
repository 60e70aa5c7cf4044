"""Run a random program, by asyncio or by threads, and write down everything that it saw."""

from __future__ import annotations

import asyncio
import json
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from tests.fidelity.answers import answer, fingerprint
from tests.fidelity.programs import POLL_MS, Node, Program

import replaykit as rk
from replaykit.seam.scope import current


class Failure(Exception):
    """The agent went the way that is its failure."""


class Raised(Exception):
    """A part of a group has raised something."""


class Asking(NamedTuple):
    """A call that is being made."""

    execution: Execution
    node: Node
    place: str
    path: str


class Answered(NamedTuple):
    """An answer: who asked for what, in which place of the program and on which causal path, for the n-th time."""

    place: str
    path: str
    key: str
    count: int


_ASKING: ContextVar[Asking] = ContextVar("asking")
_SERIAL = iter(range(10**9))


@rk.tool
def ask(key: str):
    """Answer with something of the type that the program says."""
    asking = _ASKING.get()
    asking.execution.note_body(asking)
    with asking.execution.taking(asking.node.delay_ms):
        time.sleep(asking.node.delay_ms / 1000)
    return asking.execution.answered(asking)


@rk.tool
async def aask(key: str):
    """Answer likewise, as a coroutine."""
    asking = _ASKING.get()
    asking.execution.note_body(asking)
    with asking.execution.taking(asking.node.delay_ms):
        await asyncio.sleep(asking.node.delay_ms / 1000)
    return asking.execution.answered(asking)


class Execution:
    """One run of a program; of a recording, it makes the answers and knows them again."""

    def __init__(self, program: Program, chance: random.Random, recorded: Execution | None = None) -> None:
        self.program = program
        self.recorded = recorded
        self.branch: Any = None
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        """When the bodies of tools and the sleeps ended, by their places."""
        self.took_ms = 0.0
        self.held_up_ms = 0.0
        """By how much something took longer than it should, at most: that is the machine's doing."""
        self.received: dict[str, Any] = {}
        """The fingerprint of each answer, by its place."""
        self.made: dict[str, Answered] = {}
        """Each answer that was made, by its fingerprint."""
        self.asked: dict[str, Answered] = {}
        self.misses: list[str] = []
        self.live: list[str] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._chance = chance
        self._start = 0.0

    def agent(self, _input: object = None) -> str:
        """Perform the program; going the recorded way is the failure, and any other way looks like a fix."""
        self._start = time.perf_counter()
        self._counts.clear()  # a fix is replayed again in other orders
        root = self.program.root
        self.branch = self.perform(root, "0") if self.program.threads else asyncio.run(self.aperform(root, "0"))
        self.took_ms = self._now_ms()
        if self.recorded is None or self.branch == self.recorded.branch:
            raise Failure(json.dumps(self.branch))
        return "another branch"

    def note_body(self, asking: Asking) -> None:
        """The body of a tool runs, for real."""
        self.began.setdefault(asking.place, self._now_ms())
        if self.recorded is not None:
            self.live.append(asking.place)

    @contextmanager
    def taking(self, expected_ms: float) -> Iterator[None]:
        """Note how much longer than expected something takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._note_delay(began, expected_ms)

    def _note_delay(self, began: float, expected_ms: float = 0.0) -> None:
        self.held_up_ms = max(self.held_up_ms, (time.perf_counter() - began) * 1000 - expected_ms)

    def _job(self, submitted: float, function: Callable[..., Any], *args: Any) -> Any:
        """Run something in a thread that was just started."""
        self._note_delay(submitted)
        return function(*args)

    def _now_ms(self) -> float:
        return (time.perf_counter() - self._start) * 1000

    def answered(self, asking: Asking) -> Any:
        """Make the answer, and remember it."""
        self.ended.setdefault(asking.place, self._now_ms())
        serial = next(_SERIAL)
        try:
            value = answer(asking.node.answer, serial)
        except Exception as error:
            self._remember(asking, error)
            raise
        self._remember(asking, value)
        return value

    def _remember(self, asking: Asking, value: Any) -> None:
        with self._lock:
            self.made[_text(value)] = self.asked[asking.place]

    def _begin(self, node: Node, place: str) -> None:
        sum(range(self._chance.randrange(15_000)))  # some work, of another length each time
        scope = current()
        path = scope.path if scope is not None else ""
        with self._lock:
            self._counts[path, node.key] += 1
            self.asked[place] = Answered(place, path, node.key, self._counts[path, node.key])
        _ASKING.set(Asking(self, node, place, path))

    def _end(self, place: str, value: Any) -> str:
        self.received[place] = _text(value)
        return "raised" if isinstance(value, Exception) else "returned"

    def _miss(self, place: str) -> str:
        self.misses.append(place)
        return "missed"

    def _call(self, node: Node, place: str) -> str:
        self._begin(node, place)
        try:
            return self._end(place, ask(node.key))
        except rk.ReplayKitError:
            return self._miss(place)
        except Exception as error:
            return self._end(place, error)

    async def _acall(self, node: Node, place: str) -> str:
        self._begin(node, place)
        try:
            return self._end(place, await aask(node.key))
        except rk.ReplayKitError:
            return self._miss(place)
        except Exception as error:
            return self._end(place, error)

    # By threads

    def perform(self, node: Node, place: str) -> Any:
        """Perform a part of the program in this thread."""
        return getattr(self, f"_{node.kind}")(node, place)

    def _sleep(self, node: Node, place: str) -> str:
        with self.taking(node.delay_ms):
            time.sleep(node.delay_ms / 1000)
        self.ended.setdefault(place, self._now_ms())
        return "slept"

    def _sequence(self, node: Node, place: str) -> Any:
        return [self.perform(part, f"{place}.{number}") for number, part in enumerate(node.parts)]

    def _submitted(self, node: Node, place: str) -> list[Future[Any]]:
        pool = ThreadPoolExecutor(len(node.parts))
        parts = enumerate(node.parts)
        now = time.perf_counter()
        futures = [pool.submit(self._job, now, self.perform, part, f"{place}.{number}") for number, part in parts]
        pool.shutdown(wait=False)
        return futures

    def _gather(self, node: Node, place: str) -> Any:
        return [future.result() for future in self._submitted(node, place)]

    def _race(self, node: Node, place: str) -> Any:
        futures = self._submitted(node, place)
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        winner = min(futures.index(future) for future in done)
        return ["won", winner, futures[winner].result()]

    def _as_completed(self, node: Node, place: str) -> Any:
        futures = self._submitted(node, place)
        order = [futures.index(future) for future in as_completed(futures)]
        return ["order", order, [futures[number].result() for number in order]]

    def _callbacks(self, node: Node, place: str) -> Any:
        ended: queue.Queue[int] = queue.Queue()
        futures = self._submitted(node, place)
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: ended.put(number))
        order = [ended.get() for _ in futures]
        return ["order", order, [futures[number].result() for number in order]]

    def _timeout(self, node: Node, place: str) -> Any:
        (future,) = self._submitted(node, place)
        try:
            return ["in time", future.result(timeout=node.limit_ms / 1000)]
        except TimeoutError:
            return ["too late"]

    def _cancel(self, node: Node, place: str) -> Any:
        results: list[Any] = []
        now = time.perf_counter()

        def produce() -> None:
            results.append(self._job(now, self.perform, node.parts[0], f"{place}.0"))

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        thread.join(node.limit_ms / 1000)
        return ["too late"] if thread.is_alive() else ["in time", results[0]]

    def _queue(self, node: Node, place: str) -> Any:
        results: queue.Queue[Any] = queue.Queue()
        now = time.perf_counter()

        def produce() -> None:
            results.put(self._job(now, self.perform, node.parts[0], f"{place}.0"))

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            return ["in time", results.get(timeout=node.limit_ms / 1000)]
        except queue.Empty:
            return ["too late"]

    def _wait(self, node: Node, place: str) -> Any:
        futures = self._submitted(node, place)
        done, _ = wait(futures, timeout=node.limit_ms / 1000)
        return ["waited", [future.result() if future in done else "pending" for future in futures]]

    def _deadline(self, node: Node, place: str) -> Any:
        clock = time.monotonic if len(place) % 4 == 1 else time.time
        deadline, polls = clock() + node.limit_ms / 1000, []
        while clock() < deadline:
            polls.append(self.perform(node.parts[0], f"{place}.0[{len(polls)}]"))
            time.sleep(POLL_MS / 1000)
        return ["polled", len(polls), polls]

    def _retry(self, node: Node, place: str) -> Any:
        branch: Any = None
        for attempt in range(2):
            branch = self.perform(node.parts[0], f"{place}.0[{attempt}]")
            if branch != "raised":
                return ["attempt", attempt, branch]
            time.sleep(0.01)
        return ["gave up", branch]

    def _group(self, node: Node, place: str) -> Any:
        ended: list[Any] = []

        def one(number: int, part: Node) -> None:
            branch = self.perform(part, f"{place}.{number}")
            ended.append([number, branch])
            if branch == "raised":
                raise Raised

        pool = ThreadPoolExecutor(len(node.parts))
        now = time.perf_counter()
        futures = [pool.submit(self._job, now, one, number, part) for number, part in enumerate(node.parts)]
        pool.shutdown(wait=False)
        wait(futures, return_when=FIRST_EXCEPTION)
        return ["group", list(ended)]

    def _hedge(self, node: Node, place: str) -> Any:
        pool = ThreadPoolExecutor(2)
        futures = [pool.submit(self._job, time.perf_counter(), self.perform, node.parts[0], f"{place}.0")]
        try:
            return ["no hedge", futures[0].result(timeout=node.limit_ms / 1000)]
        except TimeoutError:
            now = time.perf_counter()
            futures.append(pool.submit(self._job, now, self.perform, node.parts[1], f"{place}.1"))
        finally:
            pool.shutdown(wait=False)
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        winner = min(futures.index(future) for future in done)
        return ["won", winner, futures[winner].result()]

    # By asyncio

    async def aperform(self, node: Node, place: str) -> Any:
        """Perform a part of the program in this task."""
        return await getattr(self, f"_a{node.kind}")(node, place)

    async def _asleep(self, node: Node, place: str) -> str:
        with self.taking(node.delay_ms):
            await asyncio.sleep(node.delay_ms / 1000)
        self.ended.setdefault(place, self._now_ms())
        return "slept"

    async def _asequence(self, node: Node, place: str) -> Any:
        return [await self.aperform(part, f"{place}.{number}") for number, part in enumerate(node.parts)]

    def _tasks(self, node: Node, place: str) -> list[asyncio.Task[Any]]:
        parts = enumerate(node.parts)
        return [asyncio.create_task(self.aperform(part, f"{place}.{number}")) for number, part in parts]

    async def _agather(self, node: Node, place: str) -> Any:
        return list(await asyncio.gather(*self._tasks(node, place)))

    async def _arace(self, node: Node, place: str) -> Any:
        return await self._first(self._tasks(node, place))

    async def _first(self, tasks: list[asyncio.Task[Any]]) -> Any:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(pending)
        winner = min(tasks.index(task) for task in done)
        return ["won", winner, tasks[winner].result()]

    async def _aas_completed(self, node: Node, place: str) -> Any:
        async def numbered(number: int, part: Node) -> tuple[int, Any]:
            return number, await self.aperform(part, f"{place}.{number}")

        coming = asyncio.as_completed([numbered(number, part) for number, part in enumerate(node.parts)])
        ended = [await one for one in coming]
        return ["order", [number for number, _ in ended], [branch for _, branch in ended]]

    async def _acallbacks(self, node: Node, place: str) -> Any:
        order: list[int] = []
        tasks = self._tasks(node, place)
        for number, task in enumerate(tasks):
            task.add_done_callback(lambda _, number=number: order.append(number))
        await asyncio.wait(tasks)
        await asyncio.sleep(0)
        return ["order", order, [tasks[number].result() for number in order]]

    async def _atimeout(self, node: Node, place: str) -> Any:
        try:
            return ["in time", await asyncio.wait_for(self.aperform(node.parts[0], f"{place}.0"), node.limit_ms / 1000)]
        except TimeoutError:
            return ["too late"]

    async def _acancel(self, node: Node, place: str) -> Any:
        try:
            async with asyncio.timeout(node.limit_ms / 1000):
                return ["in time", await self.aperform(node.parts[0], f"{place}.0")]
        except TimeoutError:
            return ["too late"]

    async def _aqueue(self, node: Node, place: str) -> Any:
        results: asyncio.Queue[Any] = asyncio.Queue()

        async def produce() -> None:
            results.put_nowait(await self.aperform(node.parts[0], f"{place}.0"))

        task = asyncio.create_task(produce())
        try:
            return ["in time", await asyncio.wait_for(results.get(), node.limit_ms / 1000)]
        except TimeoutError:
            return ["too late"]
        finally:
            await _cancelled([task])

    async def _await(self, node: Node, place: str) -> Any:
        tasks = self._tasks(node, place)
        done, pending = await asyncio.wait(tasks, timeout=node.limit_ms / 1000)
        branches = [task.result() if task in done else "pending" for task in tasks]
        await _cancelled(pending)
        return ["waited", branches]

    async def _adeadline(self, node: Node, place: str) -> Any:
        clock = time.monotonic if len(place) % 4 == 1 else asyncio.get_running_loop().time
        deadline, polls = clock() + node.limit_ms / 1000, []
        while clock() < deadline:
            polls.append(await self.aperform(node.parts[0], f"{place}.0[{len(polls)}]"))
            await asyncio.sleep(POLL_MS / 1000)
        return ["polled", len(polls), polls]

    async def _aretry(self, node: Node, place: str) -> Any:
        branch: Any = None
        for attempt in range(2):
            branch = await self.aperform(node.parts[0], f"{place}.0[{attempt}]")
            if branch != "raised":
                return ["attempt", attempt, branch]
            await asyncio.sleep(0.01)
        return ["gave up", branch]

    async def _agroup(self, node: Node, place: str) -> Any:
        ended: list[Any] = []

        async def one(number: int, part: Node) -> None:
            branch = await self.aperform(part, f"{place}.{number}")
            ended.append([number, branch])
            if branch == "raised":
                raise Raised

        try:
            async with asyncio.TaskGroup() as group:
                for number, part in enumerate(node.parts):
                    group.create_task(one(number, part))
        except* Raised:
            pass
        return ["group", ended]

    async def _ahedge(self, node: Node, place: str) -> Any:
        first = asyncio.create_task(self.aperform(node.parts[0], f"{place}.0"))
        done, _ = await asyncio.wait({first}, timeout=node.limit_ms / 1000)
        if done:
            return ["no hedge", first.result()]
        return await self._first([first, asyncio.create_task(self.aperform(node.parts[1], f"{place}.1"))])


async def _cancelled(tasks: Any) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _text(value: Any) -> str:
    return json.dumps(fingerprint(value), sort_keys=True, default=repr)
