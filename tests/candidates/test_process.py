"""Waiting for a program: its end is seen at once, and the time limit holds, with and without the kernel's help."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

import pytest

from replaykit.candidates import process
from replaykit.candidates.process import kill_group, wait


@pytest.fixture(params=["handle", "none"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_process: int) -> NoReturn:
        raise OSError("not here")

    if request.param == "none":
        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    yield started
    kill_group(started)
    assert started.stdin is not None
    started.stdin.close()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("code", "limit_s"), [(0, 60), (7, 60), (0, 1e9)])
def test_the_exit_code_of_a_program_that_ends_in_time(code: int, limit_s: float) -> None:
    with subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"]) as ending:
        assert wait(ending, limit_s) == code


@pytest.mark.usefixtures("kernel")
def test_a_program_that_does_not_end_is_out_of_time(sleeper: subprocess.Popen[bytes]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        wait(sleeper, 0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no handle to wait for")
def test_the_time_limit_is_waited_for_once(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(process, "is_readable", lambda _handle, limit_s: bool(waited.append(limit_s)))

    with pytest.raises(subprocess.TimeoutExpired) as caught:
        wait(sleeper, 5)

    assert waited == [5]
    assert caught.value.timeout == 0, "the handle has been waited for; the program is only looked at"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is looked at every 50 ms")
def test_the_end_is_seen_without_looking_again_and_again(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert sleeper.stdin is not None
    sleeper.stdin.write(b"\n")
    sleeper.stdin.flush()

    assert wait(sleeper, 60) == 0
    assert slept == []
