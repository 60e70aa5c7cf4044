"""The pace of a replay: how fast recorded responses are given out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Pace:
    """0 is as fast as possible, 1 as recorded, 2 twice as fast."""

    def __init__(self, speed: float = 0.0, sleep: Callable[[float], Awaitable[None]] | None = None) -> None:
        self._speed = speed
        self._sleep = sleep

    @property
    def is_slow(self) -> bool:
        return self._speed > 0

    async def wait(self, recorded_s: float) -> None:
        """Wait for what took this long when it was recorded."""
        if self._speed and recorded_s > 0:
            from asyncio import sleep  # noqa: PLC0415 (slow to import, and few replays have a pace)

            await (self._sleep or sleep)(recorded_s / self._speed)
