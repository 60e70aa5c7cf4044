"""The current frames of all threads of this process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from operator import call
from types import FrameType
from typing import Any


def thread_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by its ident.

    `sys._current_frames` holds a lock of the interpreter. If a garbage collection happens meanwhile, a finalizer may
    let another thread run, which needs that lock to start a thread: Python 3.11 deadlocks then. The calls are made from
    C, so that no other thread runs between them.
    """
    collect_again: Callable[[], Any] = gc.enable if gc.isenabled() else bool
    frames: dict[int, FrameType]
    _, frames, _ = map(call, (gc.disable, sys._current_frames, collect_again))
    return frames
