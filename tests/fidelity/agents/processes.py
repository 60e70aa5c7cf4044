"""Agents that work in several processes."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from collection import every_way, failing, main, ran, took

import replaykit as rk

STOPPED = every_way("process")
"""A process that cannot be served is stopped and named."""


class Wrong(Exception):
    """A page that the agent cannot use."""


@rk.tool
def fetch_page(number: int):
    ran("fetch_page")
    time.sleep(0.02)
    return {"page": number, "words": 0}


def checked(pages: list[dict]) -> str:
    took(str([page["page"] for page in pages]))
    if any(page["words"] == 0 for page in pages):
        raise Wrong("an empty page")
    return "read"


@failing("Read with a pool that is spawned", may_be_inconclusive=STOPPED)
def spawned_pool(question: str) -> str:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return checked(pool.map(fetch_page, [1, 2]))


@failing("Read with a pool that is forked", may_be_inconclusive=STOPPED)
def forked_pool(question: str) -> str:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return checked(pool.map(fetch_page, [3, 4]))


@failing("Read with a pool behind a server", may_be_inconclusive=STOPPED)
def forkserver_pool(question: str) -> str:
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        return checked(pool.map(fetch_page, [5, 6]))


@failing("Read with an executor", may_be_inconclusive=STOPPED)
def process_executor(question: str) -> str:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return checked(list(pool.map(fetch_page, [7, 7, 8])))


@failing("Read in a child", may_be_inconclusive=STOPPED)
def child_process(question: str) -> str:
    code = "import json, processes; print(json.dumps(processes.fetch_page(9)))"
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    if printed.returncode:
        took("the child failed")
        raise Wrong(printed.stderr.strip().splitlines()[-1][:200])
    return checked([json.loads(printed.stdout)])


def _put(queue: multiprocessing.Queue, number: int) -> None:
    queue.put(fetch_page(number))


@failing("Read in a process of its own", may_be_inconclusive=STOPPED)
def single_process(question: str) -> str:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_put, args=(answers, 10))
    process.start()
    process.join()
    if process.exitcode:
        took("the process failed")
        raise Wrong(f"exit code {process.exitcode}")
    return checked([answers.get(timeout=10)])


@failing("Ask the command line")
def plain_command(question: str) -> str:
    printed = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    page = fetch_page(int(printed.stdout))
    return checked([page])


if __name__ == "__main__":
    main(globals())
