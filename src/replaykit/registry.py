"""One small registry, used for assertions, checks, signature detectors, importers, exporters, judges and finders.

A module enters things when it is imported: one of ReplayKit, a plugin that the configuration names, or any other.
Installed packages add theirs through entry points of the registry's group; those are looked up on the first use,
and a package that fails to load is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from replaykit.errors import UsageError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Names → things of one sort. `homes` are the modules that enter some of them, imported when one is asked for."""

    def __init__(self, what: str, homes: Mapping[str, str] | None = None) -> None:
        self.what = what
        self.group = f"replaykit.{what.replace(' ', '_')}s"
        self._homes = dict(homes or {})
        self._entries: dict[str, T] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: enter the thing under this name."""

        def enter(thing: T) -> T:
            self._entries[name] = thing
            ENTERED.append(Entry(self, name, thing))
            return thing

        return enter

    def has_home(self, name: str) -> bool:
        """True for a name that a module of ReplayKit enters, whether that is imported yet or not."""
        return name in self._homes

    def entered(self) -> dict[str, T]:
        """Return the entries so far; nothing is imported and nothing looked up."""
        return dict(self._entries)

    def get(self, name: str) -> T:
        """The entry of that name; a `UsageError` names the nearest one."""
        if name not in self:
            raise UsageError(f"unknown {self.what} {name!r}; {nearest(name, self)}")
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        if name not in self._entries and name in self._homes:
            import_module(self._homes[name])
        if name not in self._entries:  # what was entered here goes before what others bring: no need to look
            self._discover()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted({*self._entries, *self._homes}))

    def values(self) -> list[T]:
        """All entries: those of the homes in their order, then the others in the order they were entered."""
        for home in self._homes.values():
            import_module(home)
        self._discover()
        return [self._entries[name] for name in dict.fromkeys((*self._homes, *self._entries))]

    def _discover(self) -> None:
        if self._discovered:
            return
        self._discovered = True
        from importlib.metadata import entry_points  # noqa: PLC0415 (slow to import, needed once)

        for point in entry_points(group=self.group):
            if point.name in self._homes:
                continue
            try:
                self._entries.setdefault(point.name, point.load())
            except Exception as error:
                self._discovered = False
                owner = point.dist.name if point.dist else "an unknown package"
                raise UsageError(
                    f"the {self.what} {point.name!r} of {owner} could not be loaded: {error!r}",
                    hint="Uninstall or repair that package.",
                ) from error


class Entry(NamedTuple):
    """One thing that was entered."""

    registry: Registry[Any]
    name: str
    thing: object

    @property
    def is_built_in(self) -> bool:
        """True for a thing that ReplayKit itself defines."""
        module = getattr(self.thing, "__module__", None) or type(self.thing).__module__
        return str(module).partition(".")[0] == "replaykit"


ENTERED: list[Entry] = []
"""Everything that was entered in this process, in order. What a plugin brings is what its import added."""
