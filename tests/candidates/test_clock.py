"""The clock of workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from replaykit.candidates.clock import ReplayClock


@pytest.fixture
def clock() -> Iterator[ReplayClock]:
    one = ReplayClock()
    yield one
    one.stop()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "replaykit-clock"]


def test_a_turn_that_takes_too_long_is_told(clock: ReplayClock) -> None:
    late = threading.Event()

    clock.start(0.01, late.set)

    assert late.wait(10)


def test_a_turn_that_has_ended_is_not_late_and_the_next_one_is(clock: ReplayClock) -> None:
    said: list[str] = []
    late = threading.Event()

    clock.start(0.02, lambda: said.append("first"))
    clock.cancel()
    clock.start(0.05, late.set)

    assert late.wait(10)
    assert said == []


def test_a_shorter_turn_after_a_long_one_is_told_in_its_own_time(clock: ReplayClock) -> None:
    late = threading.Event()

    clock.start(1000, pytest.fail)
    clock.cancel()
    clock.start(0.01, late.set)

    assert late.wait(10)


def test_it_goes_on_after_a_turn_was_late(clock: ReplayClock) -> None:
    for _ in range(3):
        late = threading.Event()
        clock.start(0.01, late.set)
        assert late.wait(10)


def test_a_thousand_turns_are_one_thread_and_it_ends(clock: ReplayClock) -> None:
    before = threads()
    for _ in range(1000):
        clock.start(60, pytest.fail)
        clock.cancel()
    (thread,) = [one for one in threads() if one not in before]

    clock.stop()
    thread.join(10)

    assert not thread.is_alive()
