"""Hooks: replace methods of other people's classes, and functions of their modules, for as long as they are needed.

Loaded modules are hooked at once, others when the agent imports them; the last user restores everything. A module that
the agent never imports is never imported by us.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeAlias

from replaykit.seam.own_code import Function

Make: TypeAlias = Callable[[Any], Any]
"""Takes a function, and returns its replacement."""
Rows: TypeAlias = tuple[tuple[str, str, Make], ...]
"""Classes of a module (or "" for the module itself), their methods, and the makers of replacements."""
Table: TypeAlias = Mapping[str, Rows]

_lock = threading.RLock()
_standing: list[Hooks] = []


def hook(function: Function) -> Make:
    """Turn `function(original, …)` into a maker of replacements. It adds one frame more than a closure does, so it is
    unsuitable for functions that run in every turn of an event loop, or look at the frame of their caller."""

    def make(original: Function) -> Function:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        return replacement

    return make


class Hooks:
    """The hooks of a table."""

    def __init__(self, table: Table, *, required: Collection[str] = (), takes_inherited: bool = False) -> None:
        """`required`: modules in which a missing function is worth a warning. `takes_inherited`: replace a method in a
        class that only inherits it."""
        self.table = table
        self._required = required
        self._takes_inherited = takes_inherited
        self._users = 0
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    @property
    def is_installed(self) -> bool:
        """True while somebody needs the hooks."""
        return self._users > 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Keep the hooks in place during the block; the last user removes them."""
        missing = self.install()
        try:
            _warn_of(missing)
            yield
        finally:
            self.uninstall()

    def install(self) -> list[str]:
        """Install the hooks unless they are; return the names of missing required functions."""
        missing: list[str] = []
        with _lock:
            self._users += 1
            if self._users > 1:
                return missing
            if not _standing:
                sys.meta_path.insert(0, _ON_IMPORT)
            _standing.append(self)
            for name in self.table:
                module = sys.modules.get(name)
                if isinstance(module, ModuleType):
                    missing += self.hook(module)
        return missing

    def uninstall(self) -> None:
        """Remove the hooks unless somebody else needs them."""
        with _lock:
            self._users -= 1
            if self._users:
                return
            _standing.remove(self)
            if not _standing:
                sys.meta_path.remove(_ON_IMPORT)
            while self._replaced:
                owner, name, original, replacement = self._replaced.pop()
                # Wrappers that others have added since stay; our hook behind them does nothing without a session.
                if vars(owner).get(name) is not replacement:
                    continue
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)

    def hook(self, module: ModuleType) -> list[str]:
        """Hook a module according to the table; return the names of missing required functions."""
        missing = []
        for class_name, method, make in self.table.get(module.__name__, ()):
            owner: Any = getattr(module, class_name, None) if class_name else module
            original = None if owner is None else vars(owner).get(method)
            if owner is module and original is None and hasattr(builtins, method):
                # The module then finds the replacement instead of a builtin.
                self._replace(owner, method, None, make(getattr(builtins, method)))
            elif original is not None or (self._takes_inherited and hasattr(owner, method)):
                current = getattr(owner, method)  # bound, if somebody has already wrapped it
                replacement = make(current)
                if not isinstance(replacement, type):
                    functools.update_wrapper(replacement, current)
                self._replace(owner, method, original, replacement)
            elif module.__name__ in self._required:
                missing.append(f"{module.__name__}.{class_name}.{method}")
        return missing

    def _replace(self, owner: Any, name: str, original: Any, replacement: Any) -> None:
        self._replaced.append((owner, name, original, replacement))
        setattr(owner, name, replacement)


def _warn_of(missing: list[str]) -> None:
    for name in missing:
        warnings.warn(f"{name} is not there: what passes through it is not recorded", RuntimeWarning, stacklevel=3)


class AfterImport:
    """A finder for `sys.meta_path` that processes modules right after their import."""

    def __init__(self, is_meant: Callable[[str], bool], action: Callable[[Any], None]) -> None:
        self._is_meant = is_meant
        self._action = action

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not self._is_meant(name):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load: Any = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                self._action(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _hook_imported(module: ModuleType) -> None:
    missing: list[str] = []
    with _lock:
        for hooks in _standing:
            missing += hooks.hook(module)
    _warn_of(missing)


_ON_IMPORT: Any = AfterImport(lambda name: any(name in hooks.table for hooks in _standing), _hook_imported)
