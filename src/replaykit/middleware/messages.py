"""What is said about tapes over HTTP: a world goes in, its id comes back, and later the log of what was done in it."""

from __future__ import annotations

from msgspec import Struct

from replaykit.model.events import AnyEvent, ErrorInfo
from replaykit.model.result import Deviation
from replaykit.replayer.world import World

TAPE_FORMAT = 1
"""Version of these messages."""
TAPE_PATH = "/replaykit/tape"
TAPE_HEADER = "x-replaykit-tape"
"""Names the tape that a request is served inside of."""
TOKEN_HEADER = "x-replaykit-token"
TOKEN_VARIABLE = "REPLAYKIT_TAPE_TOKEN"


class Offer(Struct, frozen=True, kw_only=True):
    """A world to serve requests in: `POST /replaykit/tape`."""

    replaykit: int = TAPE_FORMAT
    world: World


class Taken(Struct, frozen=True, kw_only=True):
    """The id of a world that was taken."""

    replaykit: int = TAPE_FORMAT
    tape: str
    process: str = ""
    """Who has it: an application may run in several processes, and each has its own tapes."""


class Told(Struct, frozen=True, kw_only=True):
    """What is said about tapes that is neither an id nor a log: why not."""

    replaykit: int
    error: str = ""
    process: str = ""
    """Who says so."""


class Taped(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the application did in one request."""

    events: tuple[AnyEvent, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    error: ErrorInfo | None = None
    """The exception that it ended with, if any."""
    running: bool = False
    """True while it is still at work; an application may go on after it has answered."""


class TapeLog(Struct, frozen=True, kw_only=True):
    """What was done inside of a tape, request by request: `GET /replaykit/tape/ID`."""

    replaykit: int = TAPE_FORMAT
    tape: str
    runs: tuple[Taped, ...] = ()
