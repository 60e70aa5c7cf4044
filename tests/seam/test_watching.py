"""Which threads stand still, and which only wait for a processor."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from replaykit.seam.clock_watchdog import _is_runnable


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
    assert not _is_runnable(waiting.native_id or 0), "it has ended"
