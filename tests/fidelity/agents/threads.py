"""Agents whose tools are called from threads and tasks that a run has to find."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import queue
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from collection import every_way, failing, main, ran, took

import replaykit as rk

OUTSIDE = {"agent": "thread", "script": "thread", "program": "thread", "in_process": "thread"}


class Wrong(Exception):
    """The agent saw something that it cannot work with."""


@rk.tool
def measure(sensor: str):
    ran("measure")
    time.sleep(0.02)
    return {"sensor": sensor, "value": -1}


@rk.tool
async def ameasure(sensor: str):
    ran("ameasure")
    await asyncio.sleep(0.02)
    return {"sensor": sensor, "value": -1}


def checked(*readings: dict) -> str:
    took(" ".join(f"{reading['sensor']}={reading['value']}" for reading in readings))
    if any(reading["value"] < 0 for reading in readings):
        raise Wrong("a sensor is below zero")
    return "fine"


@failing("Measure in a task of its own")
async def task_with_an_empty_context(question: str) -> str:
    task = asyncio.get_running_loop().create_task(ameasure("context"), context=contextvars.Context())
    return checked(await task)


@failing("Measure at the lowest level")
def low_level_thread(question: str) -> str:
    readings: queue.Queue[dict] = queue.Queue()
    _thread.start_new_thread(lambda: readings.put(measure("low-level")), ())
    return checked(readings.get(timeout=10))


_jobs: queue.Queue[tuple[str, Future[dict]]] = queue.Queue()


def _serve_jobs() -> None:
    while True:
        sensor, future = _jobs.get()
        try:
            future.set_result(measure(sensor))
        except BaseException as error:
            future.set_exception(error)


threading.Thread(target=_serve_jobs, name="measuring", daemon=True).start()


@failing("Measure with the worker that is always there", may_be_inconclusive=OUTSIDE)
def worker_started_at_import(question: str) -> str:
    future: Future[dict] = Future()
    _jobs.put(("import", future))
    return checked(future.result(timeout=10))


_POOL = ThreadPoolExecutor(2)


@failing("Measure with the pool of the module")
def pool_of_the_module(question: str) -> str:
    return checked(*_POOL.map(measure, ["left", "right"]))


class Probe(threading.Thread):
    """A thread with a result."""

    def __init__(self, sensor: str) -> None:
        super().__init__()
        self.sensor = sensor
        self.reading: dict = {}

    def run(self) -> None:
        self.reading = measure(self.sensor)


@failing("Measure with probes")
def subclass_of_thread(question: str) -> str:
    probes = [Probe(sensor) for sensor in ("same", "same", "other")]
    for probe in probes:
        probe.start()
    for probe in probes:
        probe.join()
    return checked(*(probe.reading for probe in probes))


@failing("Measure from another loop")
def loop_in_another_thread(question: str) -> str:
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever, daemon=True)
    runner.start()
    try:
        readings = [asyncio.run_coroutine_threadsafe(ameasure(name), loop).result(10) for name in ("a", "b")]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        runner.join()
        loop.close()
    return checked(*readings)


@failing("Measure in the executor of the loop")
async def run_in_executor(question: str) -> str:
    loop = asyncio.get_running_loop()
    readings = await asyncio.gather(*(loop.run_in_executor(None, measure, name) for name in ("x", "x", "y")))
    return checked(*readings)


@failing("Measure in pools of pools")
def nested_pools(question: str) -> str:
    def several(group: str) -> list[dict]:
        with ThreadPoolExecutor(2) as inner:
            return list(inner.map(measure, [f"{group}1", f"{group}2"]))

    with ThreadPoolExecutor(2) as outer:
        groups = list(outer.map(several, ["p", "q"]))
    return checked(*(reading for group in groups for reading in group))


@rk.tool
def sync_everything(scope: str):
    ran("sync_everything")
    time.sleep(0.6)
    return {"scope": scope}


@failing("Sync in the background")
def left_behind(question: str) -> str:
    def background() -> None:
        for scope in ("mail", "calendar", "contacts"):
            sync_everything(scope)

    threading.Thread(target=background, daemon=True).start()
    time.sleep(0.2)
    return checked(measure("foreground"))


@failing("Measure in a moment")
def timer_calls_a_tool(question: str) -> str:
    readings: list[dict] = []
    timer = threading.Timer(0.1, lambda: readings.append(measure("later")))
    timer.start()
    timer.join()
    return checked(*readings)


@failing("Measure in a copy of the context")
def copied_context(question: str) -> str:
    context = contextvars.copy_context()
    readings: list[dict] = []
    worker = threading.Thread(target=lambda: readings.append(context.run(measure, "copy")))
    worker.start()
    worker.join()
    return checked(*readings)


@failing("Measure while it is cancelled")
async def cancelled_task(question: str) -> str:
    async def patient() -> dict:
        reading = await ameasure("first")
        await asyncio.sleep(1.0)
        return await ameasure(f"after {reading['sensor']}")

    task = asyncio.create_task(patient())
    await asyncio.sleep(0.3)
    task.cancel()
    try:
        reading = await task
    except asyncio.CancelledError:
        took("cancelled")
        raise Wrong("cancelled before the second reading") from None
    return checked(reading)


SPINS = every_way("computed")


@rk.tool
def measure_slowly(sensor: str):
    ran("measure_slowly")
    time.sleep(0.4)
    return {"sensor": sensor, "value": -1}


@rk.tool
async def ameasure_slowly(sensor: str):
    ran("ameasure_slowly")
    await asyncio.sleep(0.4)
    return {"sensor": sensor, "value": -1}


@failing("Spin until it is there", may_be_inconclusive=SPINS)
def spinning_without_a_pause(question: str) -> str:
    found: list[dict] = []
    threading.Thread(target=lambda: found.append(measure_slowly("a"))).start()
    while not found:
        pass
    return checked(*found)


@failing("Spin politely until it is there", may_be_inconclusive=SPINS)
def spinning_with_empty_sleeps(question: str) -> str:
    found: list[dict] = []
    for name in "abcd":
        threading.Thread(target=lambda name=name: found.append(measure_slowly(name))).start()
    while len(found) < 4:
        time.sleep(0)
    return checked(*sorted(found, key=str))


@failing("Spin in a loop until it is there", may_be_inconclusive=SPINS)
async def spinning_in_an_event_loop(question: str) -> str:
    task = asyncio.create_task(ameasure_slowly("a"))
    while not task.done():
        await asyncio.sleep(0)
    return checked(task.result())


@failing("Spin with a look at the clock", may_be_inconclusive=SPINS)
def spinning_until_a_deadline(question: str) -> str:
    found: list[dict] = []
    threading.Thread(target=lambda: found.append(measure_slowly("a"))).start()
    deadline = time.monotonic() + 1.5
    while not found and time.monotonic() < deadline:
        pass
    return checked(*found)


@failing("Spin in a loop with a look at the clock", may_be_inconclusive=SPINS)
async def spinning_in_an_event_loop_until_a_deadline(question: str) -> str:
    task = asyncio.create_task(ameasure_slowly("a"))
    deadline = time.monotonic() + 1.5
    while not task.done() and time.monotonic() < deadline:
        await asyncio.sleep(0)
    return checked(task.result()) if task.done() else "too late"


if __name__ == "__main__":
    main(globals())
