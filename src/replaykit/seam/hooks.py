"""Hooks: methods of other people's classes that are replaced while a session is active.

What is loaded already is hooked when the first session begins, the rest at the moment the agent imports it; the last
session to end puts everything back. A module that the agent never imports is never imported by us.
"""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeAlias

from replaykit.seam import propagate
from replaykit.seam.http import patches

Make: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Takes a method, gives what takes its place."""

HOOKS: dict[str, tuple[tuple[str, str, Make], ...]] = {**propagate.HOOKS, **patches.HOOKS}
"""Module → classes in it, their methods, and what makes the replacements."""

_lock = threading.Lock()
_users = 0
_replaced: list[tuple[Any, str, Any, Any]] = []


@contextmanager
def installed() -> Iterator[None]:
    """Hooks are in place inside; the last one out takes them away."""
    global _users
    with _lock:
        _users += 1
        missing = _install() if _users == 1 else []
    try:
        _tell(missing)
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _uninstall()


def _install() -> list[str]:
    sys.meta_path.insert(0, _ON_IMPORT)
    loaded = [sys.modules[name] for name in HOOKS if isinstance(sys.modules.get(name), ModuleType)]
    return [name for module in loaded for name in _hook(module)]


def _uninstall() -> None:
    sys.meta_path.remove(_ON_IMPORT)
    while _replaced:
        owner, name, original, replacement = _replaced.pop()
        # What somebody else has put in front meanwhile stays; ours behind it does nothing without a session.
        if vars(owner).get(name) is replacement:
            setattr(owner, name, original)


def _hook(module: ModuleType) -> list[str]:
    """Hook what the table says of a module; gives the names of what is not there."""
    missing = []
    for class_name, method, make in HOOKS[module.__name__]:
        owner = getattr(module, class_name, None)
        original = None if owner is None else vars(owner).get(method)
        if original is None:
            missing.append(f"{module.__name__}.{class_name}.{method}")
            continue
        callable_one = getattr(owner, method)  # bound by whoever has wrapped it already
        replacement = functools.wraps(callable_one)(make(callable_one))
        _replaced.append((owner, method, original, replacement))
        setattr(owner, method, replacement)
    return missing


def _tell(missing: list[str]) -> None:
    for name in missing:
        warnings.warn(f"{name} is not there: what passes through it is not recorded", RuntimeWarning, stacklevel=3)


class _OnImport:
    """Hooks a module of the table right after it was imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in HOOKS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load: Any = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                with _lock:
                    missing = _hook(module) if _users else []
                _tell(missing)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_ON_IMPORT: Any = _OnImport()
