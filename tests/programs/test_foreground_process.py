"""A program in the foreground: what it prints, and who reads it."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from tests.programs.agents import write

from replaykit.programs import foreground_process
from replaykit.programs.foreground_process import ProgramExit, run_in_foreground

PIPE = 1 << 16
"""What a pipe holds."""


def run(code: str, out: int) -> ProgramExit:
    return run_in_foreground([sys.executable, "-S", "-E", write(code)], os.environ, out)


def all_of(source: int) -> bytes:
    with os.fdopen(source, "rb") as file:
        return file.read()


def test_what_was_printed_reaches_a_reader_who_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground_process, "_LATE_OUTPUT_S", 0.3)
    source, sink = os.pipe()
    ended = threading.Event()

    with ThreadPoolExecutor() as pool:
        ran = pool.submit(run, "import sys; sys.stdout.write('x' * 120_000)", sink)
        ran.add_done_callback(lambda _: (os.close(sink), ended.set()))
        assert not ended.wait(1), "it did not wait for its reader"
        assert all_of(source) == b"x" * 120_000

    assert ran.result().printed == b"x" * 120_000


class HeldUp(foreground_process._OutputTee):
    """Passes on what it reads, on a machine that gives it no time to count that before somebody waits for it to end."""

    def __init__(self, source: int, out: int) -> None:
        self._is_waited_for = threading.Event()
        self._counted = 0
        super().__init__(source, out)

    @property
    def _taken(self) -> int:
        return self._counted

    @_taken.setter
    def _taken(self, count: int) -> None:
        if count:
            self._is_waited_for.wait(10)
        self._counted = count

    def is_alive(self) -> bool:
        self._is_waited_for.set()
        return super().is_alive()


def test_a_piece_that_was_read_and_not_counted_yet_hides_nothing_of_the_rest() -> None:
    (source, sink), (reader, out) = os.pipe(), os.pipe()
    tee = HeldUp(source, out)
    tee.start()
    os.write(sink, b"x" * PIPE)
    os.write(sink, b"y" * 50_000)  # goes in when the first piece has been read
    os.close(sink)

    with ThreadPoolExecutor() as pool:
        settled = pool.submit(tee.settle)
        settled.add_done_callback(lambda _: os.close(out))
        assert not wait([settled], 0.5).done, "it did not wait for its reader"
        assert all_of(reader) == b"x" * PIPE + b"y" * 50_000

    assert tee.printed == b"x" * PIPE + b"y" * 50_000


def test_where_nobody_reads_any_more_the_program_learns_of_it() -> None:
    source, sink = os.pipe()
    os.close(source)

    ran = run("for _ in range(1000): print('x' * 100_000)", sink)
    os.close(sink)

    assert ran.code != 0
    assert ran.printed.startswith(b"x")


@pytest.mark.parametrize("left", ["while True: print(1, flush=True)", "import time; time.sleep(60)"])
def test_nobody_waits_for_what_a_program_has_left_behind(monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    monkeypatch.setattr(foreground_process, "_LATE_OUTPUT_S", 0.3)
    write(left, "left.py")
    starts = f"""
        import subprocess
        left = subprocess.Popen([{sys.executable!r}, "left.py"], stderr=subprocess.DEVNULL)
        open("pid", "w").write(str(left.pid))
    """

    with open("printed.txt", "wb") as out:
        ran = run(starts, out.fileno())

    with open("pid", encoding="utf-8") as file:
        os.kill(int(file.read()), 9)
    assert ran.code == 0
