"""A registry for assertions, checks, signature detectors, importers, exporters, judges and finders.

Modules register entries when they are imported: modules of ReplayKit, plugins named in the configuration, or any
others. Installed packages add entries through the registry's entry point group, which is read on first use. A package
that fails to load is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from replaykit.errors import UsageError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind by name. `homes` maps names to modules that register them, imported on demand."""

    def __init__(self, what: str, homes: Mapping[str, str] | None = None) -> None:
        self.what = what
        self.group = f"replaykit.{what.replace(' ', '_')}s"
        self._homes = dict(homes or {})
        self._entries: dict[str, T] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an entry under a name."""

        def enter(thing: T) -> T:
            self._entries[name] = thing
            ENTERED.append(Entry(self, name, thing))
            return thing

        return enter

    def has_home(self, name: str) -> bool:
        """Return whether a module of ReplayKit registers the name, imported or not."""
        return name in self._homes

    def entered(self) -> dict[str, T]:
        """Return the entries so far, without importing or discovering any."""
        return dict(self._entries)

    def get(self, name: str) -> T:
        """Return the entry with a name; raise a `UsageError` that suggests the nearest one."""
        if name not in self:
            raise UsageError(f"unknown {self.what} {name!r}; {nearest(name, self)}")
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        if name not in self._entries and name in self._homes:
            import_module(self._homes[name])
        if name not in self._entries:  # entries of this process take precedence, so discovery is unnecessary
            self._discover()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted({*self._entries, *self._homes}))

    def values(self) -> list[T]:
        """Return all entries: those of `homes` in their order, then the others in registration order."""
        for home in self._homes.values():
            import_module(home)
        self._discover()
        return [self._entries[name] for name in dict.fromkeys((*self._homes, *self._entries))]

    def _discover(self) -> None:
        if self._discovered:
            return
        # Set before loading, because an entry point may use this registry while it is imported.
        self._discovered = True
        from importlib.metadata import entry_points  # noqa: PLC0415 (slow to import, needed once)

        for point in entry_points(group=self.group):
            if point.name in self._homes:
                continue
            try:
                self._entries.setdefault(point.name, point.load())
            except Exception as error:
                # Report the broken package on each lookup, not only on the first.
                self._discovered = False
                owner = point.dist.name if point.dist else "an unknown package"
                raise UsageError(
                    f"the {self.what} {point.name!r} of {owner} could not be loaded: {error!r}",
                    hint="Uninstall or repair that package.",
                ) from error


class Entry(NamedTuple):
    """One registered entry."""

    registry: Registry[Any]
    name: str
    thing: object

    @property
    def is_built_in(self) -> bool:
        """Whether ReplayKit itself defines the entry."""
        module = getattr(self.thing, "__module__", None) or type(self.thing).__module__
        return str(module).partition(".")[0] == "replaykit"


ENTERED: list[Entry] = []
"""All entries registered in this process, in order. A plugin's entries are those that its import added."""
