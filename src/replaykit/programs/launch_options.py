"""Options of a launch. Apart from the launcher itself, which takes longer to import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.model.values import Json

if TYPE_CHECKING:
    from replaykit.programs.launch_extension import MakeLaunchExtension

ORIGINAL = ".replaykit-original"
"""Ends the name of a file that another one has taken the place of; see `swapping`."""


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """The options with which a program is launched."""

    proxy: bool = True
    inject: bool = True
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, by name."""
    speed: float = 0.0
    """The pace of a replay; see `Session.speed`."""
    extension: MakeLaunchExtension | None = None
    """Makes what else is put there."""
    swapped: tuple[Path, ...] = ()
    """Files that another one takes the place of while the program runs."""
    facts: dict[str, Json] = {}
    """Facts that a recording notes in the header of its run."""
