"""The policy: how long runs stay, and how many. What no configuration says has its default."""

from __future__ import annotations

from msgspec import Struct

from replaykit.recording.keeping import KEEP as KEEP

DAY_S = 86_400.0
FOREVER = float("inf")


class Limits(Struct, frozen=True, kw_only=True):
    """How many runs stay; the oldest go first, and successful ones before failed ones."""

    max_runs: int | None = None
    max_bytes: int | None = None


class Rule(Struct, frozen=True, kw_only=True):
    """How long the runs of a tag or an agent stay, and how many of them."""

    successful_s: float | None = None
    """None is what holds for all runs."""
    failed_s: float | None = None
    limits: Limits = Limits()


class Policy(Struct, frozen=True, kw_only=True):
    """What a project wants to keep."""

    successful_s: float = 14 * DAY_S
    failed_s: float = 90 * DAY_S
    limits: Limits = Limits()
    """Of all runs together."""
    tags: dict[str, Rule] = {}
    agents: dict[str, Rule] = {}
    threads_s: float = FOREVER
    """Since the last thing that happened in it. A thread is an application's memory, and no recording to look at."""
    sample: float = 1.0
    """The share of successful runs that `replaykit record` keeps."""
    auto: bool = False
    """Recordings prune, once a day."""
