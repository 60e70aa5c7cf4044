"""Tell the agent's own code from that of Python, of installed packages and of ReplayKit, by file or frame."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

Function: TypeAlias = Callable[..., Any]
"""A function of any signature, the agent's or a library's."""
_INSTALLED = ("site-packages", "dist-packages")
_NOT_OWN = (str(Path(__file__).parents[1]) + os.sep, os.path.dirname(os.__file__), "<frozen")


@functools.lru_cache(maxsize=4096)  # called for the frames of many stacks
def is_library(file: str) -> bool:
    """True for a file of Python, of an installed package or of ReplayKit."""
    return file.startswith(_NOT_OWN) or any(place in file for place in _INSTALLED)


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def module_name(frame: FrameType) -> str:
    """Return the name of a frame's module."""
    name: str = frame.f_globals.get("__name__", "")
    return name


def qualified_name(what: Any) -> str:
    """Return the name of a function, or of an object's class, that is the same in every execution."""
    name = getattr(what, "__qualname__", None) or type(what).__qualname__
    return str(name).replace("<locals>.", "")


def is_ours(frame: FrameType) -> bool:
    """True for a frame of ReplayKit's own code."""
    return module_name(frame).startswith("replaykit.")
