"""Pins: what is held still around an agent, so that it sees the same world again."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Clock(StrEnum):
    """How time passes in a replay."""

    FROZEN = "frozen"  # it stands at the recorded start
    TICK = "tick"  # it starts at the recorded start and runs
    LIVE = "live"  # it is today's


class Pins(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a replay holds still, and what a recording writes down for it."""

    started_at: float = 0.0
    """When the recorded run began, in seconds since the epoch; 0 when nobody knows."""
    clock: Clock = Clock.FROZEN
    seed: int | None = None
    """For `random`, `uuid4` and `os.urandom`; None leaves them alone."""
    environment: dict[str, str] = {}
    """Variables with the values they had."""
