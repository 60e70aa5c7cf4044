"""Looking at the frames of all threads, while they start others and garbage is collected."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

from replaykit.seam.thread_frames import thread_frames

STARTS_THREADS_AND_LOOKS = """
import gc, threading, time
from replaykit.seam.thread_frames import thread_frames

gc.set_threshold(5)
give_up = time.monotonic() + 1

class Garbage:
    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(0)  # another thread may run

def look():
    while time.monotonic() < give_up:
        Garbage()
        thread_frames()

def start():
    while time.monotonic() < give_up:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

threads = [threading.Thread(target=target) for target in (look, start)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("ended")
"""


def test_a_process_that_starts_threads_does_not_stop_while_frames_are_looked_at() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS_THREADS_AND_LOOKS], capture_output=True, text=True, timeout=30)

    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_the_frame_of_every_thread_is_there_and_garbage_is_collected_as_before() -> None:
    frames = thread_frames()

    assert frames[threading.get_ident()].f_code is thread_frames.__code__
    assert gc.isenabled()
    gc.disable()
    try:
        thread_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()
