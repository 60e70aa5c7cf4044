"""The frames that all threads of this process are in."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from operator import call
from types import FrameType
from typing import Any


def thread_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by its ident.

    `sys._current_frames` holds a lock of the interpreter. If garbage is collected meanwhile, a finalizer may let
    another thread run, which needs that lock to start a thread: Python 3.11 stops for good then. The calls are made
    from C, so no other thread runs between them.
    """
    collect_again: Callable[[], Any] = gc.enable if gc.isenabled() else bool
    frames: dict[int, FrameType]
    _, frames, _ = map(call, (gc.disable, sys._current_frames, collect_again))
    return frames
