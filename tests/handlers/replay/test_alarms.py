"""Alarms in a replay: they ring at their moments in the run, and cost nothing."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from signal import setitimer as bound_setitimer
from time import perf_counter as real_clock
from typing import Any

import pytest

import replaykit as rk

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of the process here")


class Rung(Exception):
    """The alarm."""


@rk.tool
def work(name: str, seconds: float) -> str:
    time.sleep(seconds)
    return name


@rk.tool
async def awork(name: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return name


@pytest.fixture
def rings() -> Iterator[list[float]]:
    """When the alarm rang."""
    found: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: found.append(time.monotonic()))
    yield found
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def tape_of(calls: Callable[[], Any], store: rk.Store) -> rk.Tape:
    with rk.record("alarms", store=store) as run:
        calls()
    return rk.Tape.of(store.load(run.id))


def test_an_alarm_rings_during_a_call_that_took_longer(rings: list[float], store: rk.Store) -> None:
    tape = tape_of(lambda: work("a", 0.3), store)

    with rk.replaying(tape) as replayer:
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        work("a", 0.3)
        ended = time.monotonic()
    assert [rang - began for rang in rings] == [pytest.approx(0.1, abs=0.01)]
    assert ended - began >= 0.3
    assert replayer.all_deviations() == []


def test_an_alarm_interrupts_a_pause_and_costs_nothing(rings: list[float], store: rk.Store) -> None:
    tape = tape_of(lambda: work("a", 0.01), store)
    real_began = real_clock()

    def give_up(*_: Any) -> None:
        raise Rung

    with rk.replaying(tape) as replayer:
        work("a", 0.01)
        signal.signal(signal.SIGALRM, give_up)
        began = time.monotonic()
        signal.alarm(60)
        with pytest.raises(Rung):
            time.sleep(3600)
        assert time.monotonic() - began == pytest.approx(60, abs=0.1)
        time.sleep(5)  # the clock goes on as before
        assert time.monotonic() - began == pytest.approx(65, abs=0.1)
    assert replayer.all_deviations() == []
    assert real_clock() - real_began < 3


def test_an_alarm_that_is_taken_away_does_not_ring(rings: list[float], store: rk.Store) -> None:
    tape = tape_of(lambda: work("a", 0.1), store)

    with rk.replaying(tape) as replayer:
        assert signal.alarm(9) == 0
        work("a", 0.1)
        assert signal.getitimer(signal.ITIMER_REAL) == (pytest.approx(8.9, abs=0.05), 0.0)
        assert signal.alarm(0) == 9
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        time.sleep(100)
    assert rings == []
    assert replayer.all_deviations() == []


def test_an_alarm_rings_again_and_again(rings: list[float], store: rk.Store) -> None:
    tape = tape_of(lambda: work("a", 0.01), store)

    with rk.replaying(tape):
        work("a", 0.01)
        began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 1.0, 2.0)
        time.sleep(6)
        assert signal.setitimer(signal.ITIMER_REAL, 0) == (pytest.approx(1.0, abs=0.01), 2.0)
    assert [rang - began for rang in rings] == pytest.approx([1, 3, 5], abs=0.01)


def test_an_alarm_close_to_an_end_is_too_close_to_call(rings: list[float], store: rk.Store) -> None:
    tape = tape_of(lambda: work("a", 0.2), store)

    with rk.replaying(tape) as replayer:
        signal.setitimer(signal.ITIMER_REAL, 0.18)
        work("a", 0.2)
    assert {deviation.kind for deviation in replayer.all_deviations()} == {"undecided"}


def test_an_alarm_rings_while_another_thread_works(rings: list[float], store: rk.Store) -> None:
    def agent() -> None:
        thread = threading.Thread(target=work, args=("a", 0.4))
        thread.start()
        thread.join()

    tape = tape_of(agent, store)

    with rk.replaying(tape):
        began = time.monotonic()
        bound_setitimer(signal.ITIMER_REAL, 0.2)
        agent()
    assert [rang - began for rang in rings] == [pytest.approx(0.2, abs=0.02)]


def test_an_alarm_rings_in_an_event_loop(rings: list[float], store: rk.Store) -> None:
    async def agent() -> list[str]:
        order: list[str] = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, lambda: order.append("alarm"))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        order.append(await awork("a", 0.3))
        return order

    tape = tape_of(lambda: asyncio.run(agent()), store)

    with rk.replaying(tape):
        assert asyncio.run(agent()) == ["alarm", "a"]


def test_alarms_of_others_are_real(store: rk.Store) -> None:
    tape = tape_of(lambda: work("a", 0.01), store)
    asked, found = threading.Event(), []

    def other() -> None:
        asked.wait()
        found.append(signal.getitimer(signal.ITIMER_REAL))

    thread = threading.Thread(target=other)
    thread.start()
    with rk.replaying(tape):
        work("a", 0.01)
        signal.alarm(100)
        asked.set()
        thread.join()
        signal.alarm(0)
    assert found == [(0.0, 0.0)]
