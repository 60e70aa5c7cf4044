"""The HTTP messages about tapes: a world goes in, its id comes back, and later the log of what was done in it."""

from __future__ import annotations

from msgspec import Struct

from replaykit.handlers.replay.world import World
from replaykit.model.events import AnyEvent, ErrorInfo
from replaykit.model.result import Deviation

TAPE_FORMAT = 1
"""Version of these messages."""
TAPE_PATH = "/replaykit/tape"
TAPE_HEADER = "x-replaykit-tape"
"""Names the tape that a request is served inside of."""
TOKEN_HEADER = "x-replaykit-token"
TOKEN_VARIABLE = "REPLAYKIT_TAPE_TOKEN"


class TapeOffer(Struct, frozen=True, kw_only=True):
    """A world to serve requests in: `POST /replaykit/tape`."""

    replaykit: int = TAPE_FORMAT
    world: World


class TapeAccepted(Struct, frozen=True, kw_only=True):
    """The id of a world that was taken."""

    replaykit: int = TAPE_FORMAT
    tape: str
    process: str = ""
    """The process that has it: an application may run in several, and each has its own tapes."""


class TapeError(Struct, frozen=True, kw_only=True):
    """The error reply to a request about tapes."""

    replaykit: int
    error: str = ""
    process: str = ""
    """The process that replied."""


class RequestLog(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The log of one request to the application."""

    events: tuple[AnyEvent, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    error: ErrorInfo | None = None
    """The exception that it ended with, if any."""
    running: bool = False
    """True while it is still at work; an application may go on after it has answered."""


class TapeLog(Struct, frozen=True, kw_only=True):
    """The log of a tape, request by request: `GET /replaykit/tape/ID`."""

    replaykit: int = TAPE_FORMAT
    tape: str
    runs: tuple[RequestLog, ...] = ()
