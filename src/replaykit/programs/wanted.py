"""What is wanted around a program. Apart from the stage itself, which takes longer to import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.model.values import Json

if TYPE_CHECKING:
    from replaykit.programs.props import MakeProps

ORIGINAL = ".replaykit-original"
"""Ends the name of a file that another one has taken the place of; see `swapping`."""


class Staging(Struct, frozen=True, kw_only=True):
    """What of the stage is wanted."""

    proxy: bool = True
    inject: bool = True
    upstreams: dict[str, str] = {}
    """Further upstreams of the proxy, by name."""
    speed: float = 0.0
    """The pace of a replay; see `Session.speed`."""
    props: MakeProps | None = None
    """Makes what else is put there."""
    swapped: tuple[Path, ...] = ()
    """Files that another one takes the place of while the program runs."""
    facts: dict[str, Json] = {}
    """What a recording says of it among the facts of its program."""
