"""trio on the virtual clock: trio's clock for tests jumps to the next deadline when nothing else can happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replaykit.seam.virtual_locks import ClockOf


def trio_run(clock_of: ClockOf) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For `trio.run`."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            clock = clock_of()
            if clock is not None and clock.is_open and clock.member() is not None and options.get("clock") is None:
                options["clock"] = _jumping(clock)
            return original(*args, **options)

        return run

    return make


def _jumping(clock: Any) -> Any:
    import trio.testing  # noqa: PLC0415 (trio is loaded where this is called)

    jumping: Any = trio.testing.MockClock(autojump_threshold=0)
    jump = jumping.jump

    def jump_together(seconds: float) -> None:
        jump(seconds)
        with clock.mutex:
            clock.move(clock.base + seconds)

    jumping.jump = jump_together
    return jumping
