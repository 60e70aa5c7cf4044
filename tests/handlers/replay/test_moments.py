"""The current time inside of an argument is compared as now; any other time is not."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

import pytest
from msgspec import structs

import replaykit as rk
from replaykit.errors import Divergence
from replaykit.handlers.replay.current_time import NOW, without_moments

START = dt.datetime(2026, 3, 12, 14, 32, 0, tzinfo=dt.UTC).timestamp()


@rk.tool
def ask(question: str) -> str:
    return "answer"


@rk.tool
def since(moment: float) -> str:
    return "answer"


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-12T14:32:05Z",
        "2026-03-12T14:32:05.123456+00:00",
        "2026-03-12T16:32:05+02:00",
        "2026-03-12 14:32:05",
        "2026-03-12T14:32",
        "14:32:05",
        "20260312_143205",
        "20260312T143205",
        str(int(START) + 5),
        str(START + 5.5),
        str(int(START * 1000) + 5000),
        str(int(START * 1_000_000) + 5_000_000),
        str(int(START) * 1_000_000_000 + 5_123_456_789),
    ],
)
def test_the_current_time_is_taken_out_in_every_common_form(text: str) -> None:
    masked = without_moments(f'{{"q":"at {text}, please"}}'.encode(), START, START + 10)
    assert masked.text == b'{"q":"at %b, please"}' % NOW


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-12T14:33:05Z",  # after the call
        "2026-03-12T14:31:05Z",  # before the run
        "2025-03-12T14:32:05Z",
        "2026-03-12T16:32:05Z",  # another zone's time
        "14:35:05",
        "99:99:99",
        str(int(START) + 100),
        "11773325925000",
        str(int(START * 1_000_000) + 100_000_000),
        str(int(START + 100) * 1_000_000_000),
        "2026-13-45T14:32:05",
        "20261345143205",
    ],
)
def test_any_other_time_stays(text: str) -> None:
    question = f'{{"q":"at {text}"}}'.encode()
    assert without_moments(question, START, START + 10).text == question


@pytest.mark.parametrize(
    "agent",
    [
        lambda: ask(f"What happened until {dt.datetime.now().isoformat()}?"),
        lambda: ask(f"It is {dt.datetime.now(dt.UTC):%H:%M:%S}"),
        lambda: since(time.time()),
        lambda: since(time.time_ns() // 1_000_000),
        lambda: ask(f"What happened since {(dt.datetime.now() - dt.timedelta(hours=24)).isoformat()}?"),
        lambda: ask(f"From {dt.datetime.now() - dt.timedelta(days=7)} to {dt.datetime.now()}"),
    ],
)
def test_a_call_with_the_current_time_finds_its_answer(agent: Callable[[], str], store: rk.Store) -> None:
    with rk.record("now", store=store) as run:
        agent()
    run_log = store.load(run.id)

    with rk.replaying(rk.Tape(run_log.calls, started_at=run_log.started_at)) as replayer:
        time.sleep(3)  # on the virtual clock: the candidate asks at another moment
        assert agent() == "answer"
    assert [deviation.kind for deviation in replayer.all_deviations()] == ["now"]


@pytest.mark.parametrize(
    ("recorded_s", "asked_s"),
    [(-3600, -7200), (3600, 3660), (-86_400, 86_400), (90, 91), (3600, 3595), (400 * 86_400, 400 * 86_400)],
    # another distance, none that is round, almost the same, and too far
)
def test_a_call_with_another_distance_from_now_does_not(store: rk.Store, recorded_s: int, asked_s: int) -> None:
    def ask_about(distance_s: int) -> str:
        return ask(f"What is at {dt.datetime.now(dt.UTC) + dt.timedelta(seconds=distance_s)}?")

    with rk.record("now", store=store) as run:
        ask_about(recorded_s)

    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Divergence):
        time.sleep(10)  # on the virtual clock: no text is the same by chance
        ask_about(asked_s)


@pytest.mark.parametrize("more", [1, 0.5, 60])
def test_numbers_that_are_only_like_times_stay_apart(store: rk.Store, more: float) -> None:
    in_an_hour = int(time.time()) + 3600
    with rk.record("refund", store=store) as run:
        time.sleep(60)
        since(in_an_hour)

    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Divergence):
        time.sleep(60)
        since(in_an_hour + more)


def test_in_a_long_run_the_roundest_distance_is_meant() -> None:
    for end in (START + 20, START + 200, START + 2000):
        text = dt.datetime.fromtimestamp(end - 15 - 86_400, dt.UTC).isoformat().encode()
        assert without_moments(text, START, end, at_a_distance=True).text == NOW + b"-86400"


def test_fixed_times_stay_apart_however_long_the_run(store: rk.Store) -> None:
    with rk.record("slots", store=store) as run:
        ask("Who comes at 2026-03-12T09:00:00?")
    log = store.load(run.id)

    for hours in range(1, 24):
        calls = [structs.replace(call, span=structs.replace(call.span, begin_s=hours * 3600.0)) for call in log.calls]
        started_at = dt.datetime(2026, 3, 11, 12, tzinfo=dt.UTC).timestamp()
        with rk.replaying(rk.Tape(calls, started_at=started_at)), pytest.raises(Divergence):
            ask("Who comes at 2026-03-12T09:05:00?")


def test_a_call_with_a_fixed_time_does_not(store: rk.Store) -> None:
    with rk.record("fixed", store=store) as run:
        ask("What happened until 2020-01-01T00:00:00?")

    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Divergence):
        ask("What happened until 2020-01-01T00:00:01?")


def test_the_rest_of_the_arguments_has_to_be_the_same(store: rk.Store) -> None:
    with rk.record("other", store=store) as run:
        ask(f"What happened until {dt.datetime.now().isoformat()}?")

    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Divergence):
        ask(f"Who came until {dt.datetime.now().isoformat()}?")
