"""Tapes that an application holds, who may hand them over, and the requests that are served inside of them."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from replaykit.chaos.front import under_chaos
from replaykit.middleware.messages import (
    TAPE_FORMAT,
    TAPE_HEADER,
    TAPE_PATH,
    TOKEN_HEADER,
    TOKEN_VARIABLE,
    Offer,
    Taken,
    Taped,
    TapeLog,
)
from replaykit.model.events import Call, ErrorInfo
from replaykit.replayer.handler import Replayer
from replaykit.replayer.tape import Tape
from replaykit.replayer.world import World
from replaykit.seam.failures import describe

MAX_TAPE_BYTES = 64 * 1024 * 1024
MAX_TAPES = 256  # the oldest goes when another comes
MAX_REQUESTS = 64  # in one tape
_ON = ("1", "true", "yes", "on")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class Reply(msgspec.Struct, frozen=True):
    """An answer over HTTP."""

    status: int
    body: bytes


def is_enabled(enabled: bool | None) -> bool:
    """What was said, else what `REPLAYKIT_TAPE` says."""
    return os.environ.get("REPLAYKIT_TAPE", "").lower() in _ON if enabled is None else enabled


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at of a request; names of headers are small."""

    method: str
    path: str
    headers: Mapping[str, str]
    client: str = ""
    """The address it came from."""

    @property
    def is_about_tapes(self) -> bool:
        return self.path == TAPE_PATH or self.path.startswith(f"{TAPE_PATH}/")

    @property
    def tape(self) -> str | None:
        """The tape it wants to be served inside of."""
        return self.headers.get(TAPE_HEADER)


class Tapes:
    """The tapes of one application."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token or os.environ.get(TOKEN_VARIABLE) or None
        self._lock = threading.Lock()
        self._tapes: OrderedDict[str, _Held] = OrderedDict()

    def refusal(self, request: Request) -> Reply | None:
        """The answer to a request that may not speak of tapes; None when it may."""
        if self._token is not None:
            given = request.headers.get(TOKEN_HEADER, "")
            if hmac.compare_digest(given.encode(), self._token.encode()):
                return None
            return _say(403, f"the header {TOKEN_HEADER} does not hold the token of ${TOKEN_VARIABLE}")
        # A page in a browser on this machine, and whoever a proxy on this machine speaks for, are not local.
        if "origin" in request.headers or any(name in request.headers for name in _FORWARDED):
            return _say(403, f"a request of somebody else: set ${TOKEN_VARIABLE}, and send it as {TOKEN_HEADER}")
        if not _is_loopback(request.client):
            return _say(403, f"not from this machine: set ${TOKEN_VARIABLE}, and send it as {TOKEN_HEADER}")
        return None

    def answer(self, request: Request, body: bytes) -> Reply:
        """The answer to a request about tapes."""
        refused = self.refusal(request)
        if refused is not None:
            return refused
        name = request.path.removeprefix(TAPE_PATH).removeprefix("/")
        if request.method == "POST" and not name:
            return self._take(body)
        if request.method in ("GET", "DELETE") and name:
            return self._log_of(name, forget=request.method == "DELETE")
        return _say(405, f"POST {TAPE_PATH}, GET or DELETE {TAPE_PATH}/ID")

    def _take(self, body: bytes) -> Reply:
        if len(body) > MAX_TAPE_BYTES:
            return _say(413, f"a tape has at most {MAX_TAPE_BYTES:,} bytes")
        try:
            offer = msgspec.json.decode(body, type=Offer)
        except (msgspec.MsgspecError, RecursionError) as error:
            return _say(400, f"not a tape: {error}")
        if offer.replaykit != TAPE_FORMAT:
            return _say(400, f"a tape of version {offer.replaykit}; this reads {TAPE_FORMAT}")
        name = secrets.token_hex(16)
        with self._lock:
            self._tapes[name] = _Held(offer.world)
            while len(self._tapes) > MAX_TAPES:
                self._tapes.popitem(last=False)
        return Reply(200, msgspec.json.encode(Taken(tape=name)))

    def _log_of(self, name: str, *, forget: bool) -> Reply:
        with self._lock:
            held = self._tapes.pop(name, None) if forget else self._tapes.get(name)
        if held is None:
            return _unknown(name)
        return Reply(200, msgspec.json.encode(TapeLog(tape=name, runs=held.log())))

    def begin(self, request: Request) -> Serving | Reply:
        """What serves a request inside of the tape that it names; or the answer to one that cannot be."""
        refused = self.refusal(request)
        if refused is not None:
            return refused
        with self._lock:
            held = self._tapes.get(request.tape or "")
        if held is None:
            return _unknown(request.tape or "")
        return held.begin() or _say(429, f"a tape serves at most {MAX_REQUESTS} requests")


class _Held:
    """A world, and the requests that were served in it. Each begins at the beginning of the tape."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._served: list[Serving] = []
        self._lock = threading.Lock()

    def begin(self) -> Serving | None:
        with self._lock:
            if len(self._served) >= MAX_REQUESTS:
                return None
            self._served.append(serving := Serving(self._world))
        return serving

    def log(self) -> tuple[Taped, ...]:
        return tuple(serving.taped() for serving in list(self._served))


class Serving:
    """One request inside of a tape."""

    def __init__(self, world: World) -> None:
        tape = Tape((call for call in world.calls if isinstance(call, Call)), name=world.case_id)
        self._replayer = Replayer(tape, world.rules, tools=world.tools, models=world.models)
        self._chaos = world.chaos
        self._error: ErrorInfo | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Calls made inside are answered from the tape. The clock and chance stay as they are: others use them too."""
        with self._replayer.at_work(under_chaos(self._replayer, self._chaos)):
            try:
                yield
            except Exception as error:
                self._error = describe(error)
                raise

    def taped(self) -> Taped:
        """What happened so far."""
        replayer = self._replayer
        return Taped(events=tuple(replayer.events()), deviations=tuple(replayer.all_deviations()), error=self._error)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _unknown(name: str) -> Reply:
    return _say(404, f"no tape {name[:40]!r}: it was never handed over, or forgotten")


def _say(status: int, message: str) -> Reply:
    return Reply(status, msgspec.json.encode({"replaykit": TAPE_FORMAT, "error": message}))
