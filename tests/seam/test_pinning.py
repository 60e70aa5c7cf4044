"""Pins: the clock, chance and the environment stand still in a replay, and go on after it."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
import uuid
from time import time as imported_before

import pytest

import replaykit as rk
from replaykit.model.pins import Clock, Pins
from replaykit.seam.pinning import pinned

MOMENT = dt.datetime(2024, 3, 12, 14, 32, tzinfo=dt.UTC)
START = MOMENT.timestamp()


def chance() -> list[object]:
    drawn = [random.random(), uuid.uuid4(), os.urandom(8), secrets.token_hex(4), random.SystemRandom().random()]
    drawn += [random.Random().random(), next(tempfile._RandomNameSequence())]  # type: ignore[attr-defined]
    random.seed()
    return [*drawn, random.random()]


def test_the_clock_stands_at_the_recorded_moment() -> None:
    with pinned(Pins(started_at=START)):
        assert (time.time(), imported_before(), dt.datetime.now(dt.UTC)) == (START, START, MOMENT)
        assert dt.date.today().year == 2024

    assert time.time() > START + 3600


def test_times_in_words_are_those_of_the_clock_that_stands() -> None:
    real = time.ctime, time.asctime
    with pinned(Pins(started_at=START, environment={"TZ": "UTC"})):
        assert (time.ctime(), time.asctime(), time.ctime(None)) == ("Tue Mar 12 14:32:00 2024",) * 3
        assert (time.ctime(0), time.asctime(time.gmtime(0))) == ("Thu Jan  1 00:00:00 1970",) * 2

    assert (time.ctime, time.asctime) == real


def test_the_clock_runs_from_the_recorded_moment() -> None:
    with pinned(Pins(started_at=START, clock=Clock.TICK)):
        first = time.time()
        while time.time() == first:
            pass
        assert START <= first < time.time() < START + 60


def test_timeouts_work_though_the_clock_stands() -> None:
    async def wait() -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)

    with pinned(Pins(started_at=START)), pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_a_live_clock_and_no_moment_leave_time_alone() -> None:
    for pins in (Pins(), Pins(started_at=START, clock=Clock.LIVE)):
        with pinned(pins):
            assert time.time() > START + 3600


def test_chance_is_the_same_again_and_another_for_another_process() -> None:
    with pinned(Pins(seed=7)):
        first = chance()
    with pinned(Pins(seed=7)):
        again = chance()
    with pinned(Pins(seed=7), salt="worker#1"):
        other = chance()

    assert first == again
    assert not set(map(repr, first)) & set(map(repr, other))


def test_generators_of_a_recording_are_the_same_in_its_replay() -> None:
    def drawn() -> list[object]:
        names = tempfile._RandomNameSequence()  # type: ignore[attr-defined]
        return [random.Random().random(), next(names), random.Random(5).random()]

    with pinned(Pins(seed=7), keys=False):
        recorded = drawn()
    with pinned(Pins(seed=7)):
        assert drawn() == recorded
    assert drawn()[:2] != recorded[:2]
    assert drawn()[2] == recorded[2]


def test_uuids_of_the_clock_do_not_draw_from_what_the_agent_draws_from() -> None:
    def drawn() -> list[object]:
        uuid.uuid1()
        return [random.random(), random.getrandbits(32), uuid.uuid4()]

    with pinned(Pins(seed=7), keys=False):
        recorded = drawn()
    with pinned(Pins(started_at=START, seed=7)):
        assert drawn() == recorded


def test_chance_goes_on_afterwards_where_it_was() -> None:
    random.seed(1)
    expected = [random.random() for _ in range(3)]
    random.seed(1)
    found = [random.random()]
    with pinned(Pins(seed=7)):
        chance()
    found += [random.random(), random.random()]

    assert found == expected
    assert os.urandom(8) != os.urandom(8)


def test_the_environment_is_as_it_was_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "new")
    monkeypatch.delenv("REGION", raising=False)
    with pinned(Pins(environment={"MODEL": "old", "REGION": "eu"})):
        assert (os.environ["MODEL"], os.environ["REGION"]) == ("old", "eu")

    assert os.environ["MODEL"] == "new"
    assert "REGION" not in os.environ


def test_what_fails_inside_unpins_as_well() -> None:
    with pytest.raises(KeyError), pinned(Pins(started_at=START, seed=1, environment={"X_PIN": "1"})):
        raise KeyError

    assert time.time() > START + 3600
    assert "X_PIN" not in os.environ


def test_holding_the_clock_does_not_import_pytest() -> None:
    code = (
        "import sys\nfrom replaykit.model.pins import Pins\nfrom replaykit.seam.pinning import pinned\n"
        "with pinned(Pins(started_at=1.7e9)):\n    import time; assert time.time() == 1.7e9\n"
        "assert not any(name.split('.')[0] in ('pytest', '_pytest') for name in sys.modules)\n"
        "import pytest; pytest.raises\n"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""


def test_time_and_chance_are_recorded_where_they_are_asked_for(store: rk.Store) -> None:
    def agent() -> list[object]:
        return [rk.now(), rk.uuid4(), rk.random(), rk.now()]

    with rk.record("agent", store=store):
        live = agent()
    run = store.load("agent")
    with rk.replaying(rk.Tape.of(run)) as replayer:
        again = agent()

    assert again == live
    assert [type(value) for value in again] == [dt.datetime, uuid.UUID, float, dt.datetime]
    assert [call.name for call in run.calls] == ["rk.now", "rk.uuid4", "rk.random", "rk.now"]
    assert run.tool_calls == []
    assert replayer.all_deviations() == []


def test_time_and_chance_are_just_that_outside_of_a_run() -> None:
    assert abs(rk.now().timestamp() - time.time()) < 60
    assert rk.uuid4() != rk.uuid4()
    assert 0 <= rk.random() < 1
