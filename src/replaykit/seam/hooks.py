"""Hooks: methods of other people's classes, and their modules' functions, that are replaced while a session is active.

What is loaded already is hooked when the first session begins, the rest at the moment the agent imports it; the last
session to end puts everything back. A module that the agent never imports is never imported by us.
"""

from __future__ import annotations

import builtins
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeAlias

from replaykit.seam import processes, propagate
from replaykit.seam.http import patches

Make: TypeAlias = Callable[[Any], Any]
"""Takes a method, gives what takes its place."""
Table: TypeAlias = Mapping[str, tuple[tuple[str, str, Make], ...]]
"""Module → classes in it (or "" for the module itself), their methods, and what makes the replacements."""

HOOKS: Table = {**propagate.HOOKS, **processes.HOOKS, **patches.HOOKS}

_lock = threading.RLock()
_standing: list[Hooks] = []


class Hooks:
    """The hooks of a table."""

    def __init__(self, table: Table, *, is_optional: bool = False, takes_inherited: bool = False) -> None:
        """`is_optional`: nobody is told of what is not there. `takes_inherited`: a method that a class only inherits
        is replaced in that class."""
        self.table = table
        self._is_optional = is_optional
        self._takes_inherited = takes_inherited
        self._users = 0
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Hooks are in place inside; the last one out takes them away."""
        missing = self.install()
        try:
            _tell(missing)
            yield
        finally:
            self.uninstall()

    def install(self) -> list[str]:
        """Put the hooks in place, if nobody has yet; gives the names of what is not there."""
        with _lock:
            self._users += 1
            return self._install() if self._users == 1 else []

    def uninstall(self) -> None:
        """Take the hooks away, if nobody else needs them."""
        with _lock:
            self._users -= 1
            if self._users == 0:
                self._uninstall()

    def _install(self) -> list[str]:
        if not _standing:
            sys.meta_path.insert(0, _ON_IMPORT)
        _standing.append(self)
        loaded = [sys.modules[name] for name in self.table if isinstance(sys.modules.get(name), ModuleType)]
        return [name for module in loaded for name in self.hook(module)]

    def _uninstall(self) -> None:
        _standing.remove(self)
        if not _standing:
            sys.meta_path.remove(_ON_IMPORT)
        while self._replaced:
            owner, name, original, replacement = self._replaced.pop()
            # What somebody else has put in front meanwhile stays; ours behind it does nothing without a session.
            if vars(owner).get(name) is not replacement:
                continue
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def hook(self, module: ModuleType) -> list[str]:
        """Hook what the table says of a module; gives the names of what is not there."""
        missing = []
        for class_name, method, make in self.table.get(module.__name__, ()):
            owner: Any = getattr(module, class_name, None) if class_name else module
            original = None if owner is None else vars(owner).get(method)
            if owner is module and original is None and hasattr(builtins, method):
                self._shadow(module, method, make)
                continue
            is_inherited = original is None and self._takes_inherited and hasattr(owner, method)
            if original is None and not is_inherited and module.__name__ in processes.HOOKS:
                continue  # not on this system, or somebody has put something else in its place, as tests do
            if original is None and not is_inherited:
                missing.append(f"{module.__name__}.{class_name}.{method}")
                continue
            callable_one = getattr(owner, method)  # bound by whoever has wrapped it already
            replacement = make(callable_one)
            if not isinstance(replacement, type):
                functools.update_wrapper(replacement, callable_one)
            self._replaced.append((owner, method, original, replacement))
            setattr(owner, method, replacement)
        return [] if self._is_optional else missing

    def _shadow(self, module: ModuleType, name: str, make: Make) -> None:
        """Let a module find something else in the place of a builtin."""
        replacement = make(getattr(builtins, name))
        self._replaced.append((module, name, None, replacement))
        setattr(module, name, replacement)


def _tell(missing: list[str]) -> None:
    for name in missing:
        warnings.warn(f"{name} is not there: what passes through it is not recorded", RuntimeWarning, stacklevel=3)


class _OnImport:
    """Hooks a module of the tables right after it was imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not any(name in hooks.table for hooks in _standing):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load: Any = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                with _lock:
                    missing = [name for hooks in _standing for name in hooks.hook(module)]
                _tell(missing)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_ON_IMPORT: Any = _OnImport()
_SESSION_HOOKS = Hooks(HOOKS)
installed = _SESSION_HOOKS.installed
"""The hooks that every session needs are in place inside."""
