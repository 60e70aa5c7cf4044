"""The results of checks."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ItemState(StrEnum):
    """The state of a checked thing."""

    OK = "ok"  # as it should be
    NOTE = "note"  # works, but could be better
    PROBLEM = "problem"  # a command would fail, or data would leak


class DoctorItem(Struct, frozen=True, kw_only=True):
    """A thing that was looked at."""

    group: str
    """`machine`, `isolation`, `libraries` or `project`."""
    name: str
    """What was looked at."""
    state: ItemState
    detail: str
    """The finding, in words."""
    advice: tuple[str, ...] = ()
    """Commands or advice, a line each."""


def item(group: str, name: str, state: ItemState, detail: str, *advice: str) -> DoctorItem:
    """Return the result of one check, with one line per piece of advice."""
    return DoctorItem(group=group, name=name, state=state, detail=detail, advice=advice)


class IsolationSupport(Struct, frozen=True, kw_only=True):
    """The isolation that the kernel offers."""

    level: str
    """The highest level: `full`, `landlock`, `process` or `none`."""
    channels: dict[str, str] = {}
    """The level of each way out: `tcp`, `udp`, `unix`, `files`, `signals`."""
    reasons: tuple[str, ...] = ()
    """Reasons why isolation is not full."""


class Examination(Struct, frozen=True, kw_only=True):
    """Everything that was looked at."""

    isolation: IsolationSupport
    items: tuple[DoctorItem, ...]

    @property
    def problems(self) -> tuple[DoctorItem, ...]:
        """The items that make commands fail or leak data."""
        return tuple(item for item in self.items if item.state is ItemState.PROBLEM)
