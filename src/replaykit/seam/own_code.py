"""Tell the agent's own code from that of Python, of installed packages and of ReplayKit, by its file."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_INSTALLED = ("site-packages", "dist-packages")
_NOT_OWN = (str(Path(__file__).parents[1]) + os.sep, os.path.dirname(os.__file__), "<frozen")


@functools.lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """True for a file of Python, of an installed package or of ReplayKit."""
    return file.startswith(_NOT_OWN) or any(place in file for place in _INSTALLED)
