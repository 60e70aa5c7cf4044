"""One thing that was looked at, as a value."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """How a thing was found."""

    OK = "ok"  # as it should be
    NOTE = "note"  # works, but something is missing or could be better
    PROBLEM = "problem"  # a command would fail, or something would leak


class Item(Struct, frozen=True, kw_only=True):
    """A thing that was looked at."""

    group: str
    """`machine`, `isolation`, `libraries` or `project`."""
    name: str
    state: State
    detail: str
    """What was found, in words."""
    advice: tuple[str, ...] = ()
    """What to type or do next, a line each."""


class Isolation(Struct, frozen=True, kw_only=True):
    """What the kernel offers to keep a candidate shut."""

    level: str
    channels: dict[str, str] = {}
    """The level of each way out: `tcp`, `udp`, `unix`, `files`, `signals`."""
    reasons: tuple[str, ...] = ()
    """What is missing for full isolation, and why."""


class Examination(Struct, frozen=True, kw_only=True):
    """Everything that was looked at."""

    isolation: Isolation
    items: tuple[Item, ...]

    @property
    def problems(self) -> tuple[Item, ...]:
        """The items that make commands fail, or leak."""
        return tuple(item for item in self.items if item.state is State.PROBLEM)
