"""Count the lines of ReplayKit that some work runs: what grows faster than the work shows in them, on any machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import replaykit

_SOURCE = str(Path(replaykit.__file__).parent)


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of ReplayKit this thread runs for the work; each round of a loop counts."""
    count = 0

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(_SOURCE):
            return None
        nonlocal count
        count += event == "line"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
