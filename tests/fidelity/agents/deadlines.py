"""Agents that look at the clock."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from time import clock_gettime

from collection import every_way, failing, main, ran, took

import replaykit as rk


class OutOfTime(Exception):
    """The budget is spent."""


@rk.tool
def job_status(job: str):
    ran("job_status")
    time.sleep(0.05)
    return {"job": job, "state": "running"}


@rk.tool
async def build_status(build: int):
    ran("build_status")
    await asyncio.sleep(0.05)
    return {"build": build, "state": "running"}


@rk.tool
def think(prompt: str):
    ran("think")
    time.sleep(0.3)
    return f"thoughts about {len(prompt)} characters"


@failing("Wait for job 7")
def monotonic_deadline(question: str) -> str:
    deadline = time.monotonic() + 0.7
    polls = 0
    while time.monotonic() < deadline:
        polls += 1
        if job_status("7")["state"] == "done":
            return "done"
        time.sleep(0.15)
    took(f"{polls} polls")
    raise OutOfTime(f"job 7 was not done after {polls} polls")


@failing("Wait for job 8")
def backoff_by_wall_clock(question: str) -> str:
    give_up_at = time.time() + 0.6
    pause_s, attempts = 0.05, 0
    while time.time() < give_up_at:
        attempts += 1
        if job_status("8")["state"] == "done":
            return "done"
        time.sleep(pause_s)
        pause_s *= 2
    took(f"{attempts} attempts")
    raise OutOfTime(f"gave up after {attempts} attempts")


@failing("Wait for job 9")
def datetime_budget(question: str) -> str:
    began = datetime.now(UTC)
    looks = 0
    while datetime.now(UTC) - began < timedelta(milliseconds=500):
        looks += 1
        job_status("9")
        time.sleep(0.15)
    took(f"{looks} looks")
    raise OutOfTime(f"job 9 was looked at {looks} times")


@failing("Wait for build 3")
async def loop_time_deadline(question: str) -> str:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 0.6
    polls = 0
    while loop.time() < deadline:
        polls += 1
        await build_status(3)
        await asyncio.sleep(0.15)
    took(f"{polls} polls")
    raise OutOfTime(f"build 3 is still running after {polls} polls")


@failing("Answer within a quarter of a second")
def slow_by_perf_counter(question: str) -> str:
    began = time.perf_counter()
    answer = think(question)
    elapsed_s = time.perf_counter() - began
    took("too slow" if elapsed_s > 0.25 else "fast enough")
    if elapsed_s > 0.25:
        raise OutOfTime("the model took longer than 250 ms")
    return answer


@failing("Use the cached price while it is fresh")
def stale_cache(question: str) -> str:
    cached = {"price": job_status("price"), "at": time.time()}
    think(question)
    age_s = time.time() - cached["at"]
    took("stale" if age_s > 0.2 else "fresh")
    if age_s > 0.2:
        raise OutOfTime("the cached price is stale")
    return "fresh"


@failing("Stay below the rate limit")
def rate_limited(question: str) -> str:
    window_ends = time.monotonic() + 0.5
    sent = 0
    for _ in range(10):
        if time.monotonic() > window_ends:
            break
        job_status("send")
        sent += 1
        time.sleep(0.15)
    took(f"{sent} sent")
    raise RuntimeError(f"429: {sent} requests in one window")


@rk.tool
def compute(rounds: int):
    ran("compute")
    began = time.process_time()
    while time.process_time() - began < 0.05:
        rounds += 1
    return True


@failing("Compute within the budget", inconclusive=every_way("CPU time"))
def budget_of_cpu_time(question: str) -> str:
    began = time.process_time()
    compute(1)
    if time.process_time() - began >= 0.05:
        took("over budget")
        raise OutOfTime("the CPU budget is spent")
    took("within budget")
    return "done"


@failing("Do as much as the budget allows")
def budget_by_process(question: str) -> str:
    began = time.monotonic_ns()
    done = []
    for step in ("plan", "draft", "polish"):
        if (time.monotonic_ns() - began) / 1e9 > 0.45:
            took(f"no time for {step}")
            break
        done.append(think(step))
    if len(done) < 3:
        raise OutOfTime(f"only {len(done)} steps were done")
    return done[-1]


@failing("Wait for the callback")
async def asyncio_sleep_until(question: str) -> str:
    loop = asyncio.get_running_loop()
    statuses: list[str] = []

    async def poll() -> None:
        while True:
            statuses.append((await build_status(4))["state"])
            await asyncio.sleep(0.2)

    poller = asyncio.create_task(poll())
    await asyncio.sleep(0.4)
    poller.cancel()
    took(f"{len(statuses)} statuses, {loop.time() > 0}")
    raise OutOfTime(f"{len(statuses)} statuses, none of them done")


@rk.tool
def ask_model(prompt: str):
    ran("ask_model")
    time.sleep(0.02)
    return "I cannot help with that."


def refused(answer: str) -> str:
    took("refused")
    if "cannot" in answer:
        raise RuntimeError(answer)
    return answer


@failing("What day is it?")
def now_as_iso(question: str) -> str:
    time.sleep(0.03)
    return refused(ask_model(f"It is {datetime.now().isoformat()}. {question}"))


@failing("What time is it?")
def now_as_clock_time(question: str) -> str:
    job_status("before")
    time.sleep(1.1)
    return refused(ask_model(f"The time is {datetime.now().strftime('%H:%M:%S')}. {question}"))


@rk.tool
def search_since(query: str, since: int):
    ran("search_since")
    return []


@failing("What happened since then?")
def now_as_epoch_seconds(question: str) -> str:
    job_status("before")
    time.sleep(1.1)
    found = search_since("news", int(time.time()))
    took(f"{len(found)} found")
    return found[0]


@failing("What happened in the last moment?")
def now_as_milliseconds(question: str) -> str:
    job_status("before")
    found = search_since("news", int(time.time() * 1000))
    took(f"{len(found)} found")
    return found[0]


@failing("Sign the request")
def now_as_zulu(question: str) -> str:
    job_status("before")
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return refused(ask_model(f"[{stamp}] {question}"))


@failing("Retry for a minute", takes_s=66.0)
def a_minute_of_sleeps(question: str) -> str:
    for attempt in range(5):
        job_status(f"attempt {attempt}")
        time.sleep(13.0)
    took("gave up")
    raise OutOfTime("gave up after more than a minute")


def squares(seconds: float) -> int:
    """Compute for so long, by the clock of the processor."""
    until, total = time.process_time() + seconds, 0
    while time.process_time() < until:
        total += sum(number * number for number in range(10_000))
    return total


@failing("Sum it up", inconclusive=every_way("clock"))
def computing_after_the_last_call(question: str) -> str:
    deadline = time.monotonic() + 0.4
    job_status("9")
    squares(0.5)
    if time.monotonic() > deadline:
        took("too slow")
        raise OutOfTime("summing up took too long")
    took("in time")
    return "done"


@failing("Sum it up and ask again", inconclusive=every_way("clock"))
def computing_between_two_calls(question: str) -> str:
    deadline = time.monotonic() + 0.4
    job_status("9")
    squares(0.5)
    is_late = time.monotonic() > deadline
    took(f"late: {is_late}")
    job_status("10")
    if is_late:
        raise OutOfTime("summing up took too long")
    return "done"


@failing("Wait for job 10")
def deadline_by_a_bound_system_clock(question: str) -> str:
    deadline, polls = clock_gettime(time.CLOCK_MONOTONIC) + 0.7, 0
    while clock_gettime(time.CLOCK_MONOTONIC) < deadline:
        polls += 1
        if polls > 20 or job_status("10")["state"] == "done":
            return "done"
        time.sleep(0.15)
    took(f"{polls} polls")
    raise OutOfTime(f"job 10 was not done after {polls} polls")


@failing("What happened since yesterday?")
def since_yesterday(question: str) -> str:
    time.sleep(0.3)
    now = datetime.now()
    day_ago, in_an_hour = now - timedelta(hours=24), now + timedelta(hours=1)
    return judged_by_clock(find_events(day_ago.isoformat(), str(in_an_hour)))


@rk.tool
def find_events(since: str, expires: str) -> int:
    ran("find_events")
    return 0


def judged_by_clock(count: int) -> str:
    took(f"{count} events")
    if not count:
        raise OutOfTime("nothing has happened")
    return str(count)


@rk.tool
def load_table(rows: int) -> int:
    ran("load_table")
    return len([bytearray(1000) for _ in range(rows)])


@failing("Load the table", inconclusive=every_way("memory"))
def budget_of_memory(question: str) -> str:
    tracemalloc.start()
    load_table(2000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    took(f"over budget: {peak > 1_000_000}")
    if peak > 1_000_000:
        raise OutOfTime("over budget")
    return "in budget"


if __name__ == "__main__":
    main(globals())
