"""Which threads stand still, and which only wait for a processor."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import pytest

from replaykit.seam.clock_watchdog import _cpu_s, _is_runnable, has_limit


def is_soon(condition: Callable[[], bool]) -> bool:
    """Return whether it holds within seconds: Python's part of a thread ends a moment before the kernel's."""
    give_up = time.monotonic() + 60
    while not condition():
        if time.monotonic() > give_up:
            return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_a_thread_that_waits_for_a_file_is_not_runnable_and_one_that_computes_is() -> None:
    source, sink = os.pipe()
    waiting = threading.Thread(target=os.read, args=(source, 1))
    waiting.start()

    assert _is_runnable(threading.get_native_id())
    while _is_runnable(waiting.native_id or 0):
        pass  # it is on its way to the file
    assert not _is_runnable(waiting.native_id or 0)

    os.write(sink, b".")
    waiting.join()
    os.close(source)
    os.close(sink)
    assert is_soon(lambda: not _is_runnable(waiting.native_id or 0)), "it has ended"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_how_long_a_thread_has_computed_is_known_until_it_has_ended() -> None:
    usual = threading.stack_size(64 << 20)  # so large a stack is given back at once
    try:
        ended = threading.Thread(target=time.sleep, args=(0,))
        ended.start()
        ended.join()
    finally:
        threading.stack_size(usual)

    assert _cpu_s(threading.get_native_id()) > 0
    assert is_soon(lambda: _cpu_s(ended.native_id or 0) == 0.0)


Wait = tuple[Callable[[], Any], Callable[[], Any]]
"""A function that waits, and one that ends its waiting."""


def in_select(limit_s: float | None) -> Wait:
    source, sink = os.pipe()

    def wait() -> None:
        select.select([source], [], [], limit_s)
        os.close(source)

    return wait, lambda: (os.write(sink, b"."), os.close(sink))


def in_recv(limit_s: float | None) -> Wait:
    receiver, sender = socket.socketpair()
    receiver.settimeout(limit_s)

    def wait() -> None:
        with receiver:
            receiver.recv(1)

    return wait, sender.close


def in_epoll(limit_s: float | None) -> Wait:
    source, sink = os.pipe()

    def wait() -> None:
        with select.epoll() as poll:
            poll.register(source, select.EPOLLIN)
            poll.poll(limit_s)
        os.close(source)

    return wait, lambda: (os.write(sink, b"."), os.close(sink))


def in_semaphore(limit_s: float | None) -> Wait:
    semaphore = get_context("spawn").Semaphore(0)
    return lambda: semaphore.acquire(timeout=limit_s), semaphore.release


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
@pytest.mark.parametrize("place", [in_select, in_recv, in_epoll, in_semaphore])
@pytest.mark.parametrize("limit_s", [None, 600.0])
def test_a_limit_in_the_kernel_is_known(place: Callable[[float | None], Wait], limit_s: float | None) -> None:
    wait, end = place(limit_s)
    thread = threading.Thread(target=wait)
    thread.start()
    tid = thread.native_id or 0
    try:
        if limit_s is None:
            assert is_soon(lambda: not _is_runnable(tid))
            assert not has_limit(tid)
        else:
            assert is_soon(lambda: has_limit(tid))
    finally:
        end()
        thread.join()
