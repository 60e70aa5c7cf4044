"""Agents that fail, and that make their calls where a run could lose sight of them."""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import contextvars
import multiprocessing
import os
import queue
import random
import secrets
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import replaykit as rk

EFFECTS = "REPLAYKIT_TEST_EFFECTS"


class Wrong(Exception):
    """What every agent here ends with: it holds all that the agent was given."""


def really_did(what: str) -> None:
    with open(os.environ[EFFECTS], "a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@rk.tool
def draw(number: int) -> int:
    """Equal calls have different answers: nobody can serve one for the other unnoticed."""
    really_did(f"draw {number}")
    return int.from_bytes(os.urandom(4), "big")


@rk.tool
async def adraw(number: int) -> int:
    really_did(f"adraw {number}")
    return int.from_bytes(os.urandom(4), "big")


@rk.tool
def send(what: Any) -> str:
    really_did("send")
    return "sent"


# Processes


def executor(method: str) -> None:
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        raise Wrong(list(pool.map(draw, [1, 1, 1, 2])))


def forked_executor(_: str) -> None:
    executor("fork")


def spawned_executor(_: str) -> None:
    executor("spawn")


def forkserver_executor(_: str) -> None:
    executor("forkserver")


def awaited_executor(_: str) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            return await asyncio.gather(*(loop.run_in_executor(pool, draw, 1) for _ in range(3)))

    raise Wrong(asyncio.run(main()))


def pool(_: str) -> None:
    with multiprocessing.get_context("fork").Pool(2) as processes:
        drawn = [*processes.map(draw, [1, 1, 3]), *processes.imap(draw, [4, 4]), processes.apply(draw, (5,))]
        raise Wrong([*drawn, *processes.starmap(draw, [(1,), (1,)]), *processes.imap_unordered(draw, [6])])


def put(number: int, answers: Any) -> None:
    answers.put((number, draw(1)))


def processes(method: str) -> None:
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    started = [context.Process(target=put, args=(number, answers)) for number in range(2)]
    for process in started:
        process.start()
    drawn = sorted(answers.get() for _ in started)
    for process in started:
        process.join()
    raise Wrong(drawn)


def forked_processes(_: str) -> None:
    processes("fork")


def spawned_processes(_: str) -> None:
    processes("spawn")


def forkserver_processes(_: str) -> None:
    processes("forkserver")


PRINT = "import strays; print(strays.draw(7))"


def printed(*flags: str, env: dict[str, str] | None = None) -> list[str]:
    command = [sys.executable, *flags, "-c", f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); {PRINT}"]
    ended = [subprocess.run(command, capture_output=True, text=True, env=env) for _ in range(2)]
    return [one.stdout.strip() or one.stderr[-300:] for one in ended]


def python_children(_: str) -> None:
    raise Wrong(printed())


def python_children_without_the_variables(_: str) -> None:
    raise Wrong(printed(env={"PATH": os.environ["PATH"], EFFECTS: os.environ[EFFECTS]}))


def isolated_python_children(_: str) -> None:
    raise Wrong(printed("-I"))


def shell_children(_: str) -> None:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); {PRINT}"
    os.environ["CHILD"] = code
    raise Wrong([os.popen(f'"{sys.executable}" -c "$CHILD"').read().strip() for _ in range(2)])


def asyncio_children(_: str) -> None:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); {PRINT}"

    async def main() -> bytes:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
        return (await process.communicate())[0]

    raise Wrong(asyncio.run(main()))


def forks(_: str) -> None:
    drawn = []
    for _number in range(2):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(draw(9)).encode())
            os._exit(0)
        os.wait()
        drawn.append(os.read(read, 100))
    raise Wrong(drawn)


def fork_and_draw() -> bytes:
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(draw(9)).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 100)


def children_of_children(_: str) -> None:
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, b" ".join([fork_and_draw(), printed()[0].encode(), fork_and_draw()]))
        os._exit(0)
    os.wait()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        raise Wrong([os.read(read, 1000), pool.submit(fork_and_draw).result(), pool.submit(printed).result()])


def posix_spawns(_: str) -> None:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); {PRINT}"
    read, write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write, 1)]
    variables = {EFFECTS: os.environ[EFFECTS]}
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], variables, file_actions=actions)
    os.waitpid(pid, 0)
    raise Wrong(os.read(read, 100))


# Threads and tasks that do not have the scope

jobs: queue.Queue[int] = queue.Queue()
answers: queue.Queue[Any] = queue.Queue()


def work() -> None:
    while True:
        number = jobs.get()
        try:
            answers.put(draw(number))
        except BaseException as error:
            answers.put(error)


threading.Thread(target=work, daemon=True).start()
early_pool = concurrent.futures.ThreadPoolExecutor(2)
early_pool.submit(int).result()
early_loop = asyncio.new_event_loop()
threading.Thread(target=early_loop.run_forever, daemon=True).start()


def worker_thread(_: str) -> None:
    for number in (1, 1, 2):
        jobs.put(number)
    raise Wrong([answers.get(timeout=5) for _ in range(3)])


def early_thread_pool(_: str) -> None:
    raise Wrong([future.result() for future in [early_pool.submit(draw, 1) for _ in range(3)]])


def thread_of_the_lowest_kind(_: str) -> None:
    drawn: queue.Queue[int] = queue.Queue()
    _thread.start_new_thread(lambda: drawn.put(draw(1)), ())
    raise Wrong(drawn.get(timeout=5))


def tasks_with_a_context_of_their_own(_: str) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(adraw(1), context=contextvars.Context()) for _ in range(3)]
        return [await task for task in tasks]

    raise Wrong(asyncio.run(main()))


def function_in_a_context_of_its_own(_: str) -> None:
    raise Wrong(contextvars.Context().run(draw, 1))


def callback_with_a_context_of_its_own(_: str) -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        drawn = loop.create_future()
        loop.call_soon(lambda: drawn.set_result(draw(1)), context=contextvars.Context())
        return await drawn

    raise Wrong(asyncio.run(main()))


def early_event_loop(_: str) -> None:
    raise Wrong(asyncio.run_coroutine_threadsafe(adraw(1), early_loop).result(5))


# Chance


def random_arguments(_: str) -> None:
    send(random.choice(range(10**9)))
    send(random.Random().random())
    send(random.gauss(0, 1))
    raise Wrong("random")


def ids(_: str) -> None:
    send(str(uuid.uuid4()))
    send(str(uuid.uuid1()))
    raise Wrong("ids")


def numpy_generators(_: str) -> None:
    import numpy

    send(int(numpy.random.randint(0, 10**9)))
    send(float(numpy.random.default_rng().random()))
    send(float(numpy.random.RandomState().rand()))
    raise Wrong("numpy")


def chance_in_processes(_: str) -> None:
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        raise Wrong(list(pool.map(send_by_chance, range(3))))


def send_by_chance(number: int) -> str:
    return send([number, random.random(), str(uuid.uuid4())])


def order_of_a_set(_: str) -> None:
    send(list({"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}))
    raise Wrong("set")


def keys_of_secrets(_: str) -> None:
    send(secrets.token_hex(8))
    raise Wrong("secrets")


# Edited agents: they do in another process or thread what nobody recorded, and hide that it failed


def write_quietly(number: int) -> int:
    drawn = draw(1)
    try:
        send(f"unrecorded {number}")
    except Exception:
        pass
    return drawn


def edited_executor(method: str) -> str:
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        return f"all is well: {list(pool.map(write_quietly, [1]))}"


def edited_fork(_: str) -> str:
    return edited_executor("fork")


def edited_spawn(_: str) -> str:
    return edited_executor("spawn")


def edited_forkserver(_: str) -> str:
    return edited_executor("forkserver")


def edited_child(_: str) -> str:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import strays; strays.write_quietly(1)"
    subprocess.run([sys.executable, "-c", code])
    return "all is well"


def edited_thread(_: str) -> str:
    done = threading.Event()
    _thread.start_new_thread(lambda: (write_quietly(1), done.set()), ())
    done.wait(5)
    return "all is well"


def edited_connection(_: str) -> str:
    code = "import contextlib, socket\nwith contextlib.suppress(Exception): socket.create_connection(('127.0.0.1', 9))"
    subprocess.run([sys.executable, "-c", code])
    draw(1)
    return "all is well"


def edited_program(_: str) -> str:
    subprocess.run(["curl", "-s", "-X", "POST", "http://shop.example/orders"])
    draw(1)
    return "all is well"


EDITED = (edited_fork, edited_spawn, edited_forkserver, edited_child, edited_thread)
AGENTS: tuple[Callable[[str], None], ...] = (
    forked_executor,
    spawned_executor,
    forkserver_executor,
    awaited_executor,
    pool,
    forked_processes,
    spawned_processes,
    forkserver_processes,
    python_children,
    python_children_without_the_variables,
    isolated_python_children,
    shell_children,
    asyncio_children,
    forks,
    children_of_children,
    posix_spawns,
    worker_thread,
    early_thread_pool,
    thread_of_the_lowest_kind,
    tasks_with_a_context_of_their_own,
    function_in_a_context_of_its_own,
    callback_with_a_context_of_its_own,
    early_event_loop,
    random_arguments,
    ids,
    numpy_generators,
    chance_in_processes,
)
INCONCLUSIVE = (order_of_a_set, keys_of_secrets)


def main() -> None:
    """Record the agents that the command line names, or all; one alone ends the program as it ends."""
    names = sys.argv[1:]
    for agent in (*AGENTS, *INCONCLUSIVE):
        if names and agent.__name__ not in names:
            continue
        try:
            with rk.record(agent.__name__, input="x"):
                agent("x")
        except Wrong:
            if len(names) == 1:
                raise


if __name__ == "__main__":
    main()
