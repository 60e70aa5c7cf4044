"""Jobs of other interpreters (Python 3.14) belong to no run: a recording says so, and a replay stops them."""

from __future__ import annotations

import sys

import pytest

import replaykit as rk

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="pools of interpreters came with Python 3.14")


@rk.tool
def fetch_price(item: str) -> int:
    return len(item)


def squares_in_an_interpreter(item: str) -> int:
    from concurrent.futures import InterpreterPoolExecutor

    with InterpreterPoolExecutor(1) as pool:
        return pool.submit(pow, fetch_price(item), 2).result()


def test_a_recorded_agent_has_its_interpreters_and_the_run_says_what_it_lacks(store: rk.Store) -> None:
    with pytest.warns(rk.RecordingWarning, match="not recorded: a call of `pow`"), rk.record("a", store=store) as run:
        run.output = squares_in_an_interpreter("lamp")

    assert run.output == 16


def test_a_replay_stops_a_job_for_another_interpreter(store: rk.Store) -> None:
    with pytest.warns(rk.RecordingWarning), rk.record("a", store=store) as run:
        run.output = squares_in_an_interpreter("lamp")

    tape = rk.Tape.of(store.load(run.id))
    with rk.replaying(tape) as replayer, pytest.raises(rk.Divergence, match="a pool of interpreters"):
        squares_in_an_interpreter("lamp")

    assert "outside" in [deviation.kind for deviation in replayer.deviations]
