"""The HTTP messages about tapes: an agent's world is posted, its id comes back, and later its log is fetched."""

from __future__ import annotations

from msgspec import Struct

from replaykit.handlers.replay.world import World
from replaykit.model.events import AnyEvent, ErrorInfo
from replaykit.model.result import Deviation

TAPE_FORMAT = 1
"""Version of these messages."""
TAPE_PATH = "/replaykit/tape"
TAPE_HEADER = "x-replaykit-tape"
"""Names the tape to serve a request from."""
TOKEN_HEADER = "x-replaykit-token"
TOKEN_VARIABLE = "REPLAYKIT_TAPE_TOKEN"


class TapeOffer(Struct, frozen=True, kw_only=True):
    """The world to serve requests in: the body of `POST /replaykit/tape`."""

    replaykit: int = TAPE_FORMAT
    world: World


class TapeAccepted(Struct, frozen=True, kw_only=True):
    """The id of an accepted world."""

    replaykit: int = TAPE_FORMAT
    tape: str
    process: str = ""
    """The process that holds the tape: an application may run in several, and each has tapes of its own."""


class TapeError(Struct, frozen=True, kw_only=True):
    """The error reply to a request about tapes."""

    replaykit: int
    error: str = ""
    process: str = ""
    """The process that answered."""


class RequestLog(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The log of one request to the application."""

    events: tuple[AnyEvent, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    error: ErrorInfo | None = None
    """The exception that ended the request, if any."""
    running: bool = False
    """True while the request is being served; an application may continue after it has answered."""


class TapeLog(Struct, frozen=True, kw_only=True):
    """The logs of all requests inside a tape: `GET /replaykit/tape/ID`."""

    replaykit: int = TAPE_FORMAT
    tape: str
    runs: tuple[RequestLog, ...] = ()
