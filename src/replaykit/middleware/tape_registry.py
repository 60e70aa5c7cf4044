"""Tapes that an application holds, and who may hand them over.

Each process of an application has its own. One that is asked for a tape of another says who it is, and does nothing: so
whoever asks can ask again, until the request gets to the one that has it.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgspec

from replaykit.middleware.messages import (
    TAPE_FORMAT,
    TAPE_HEADER,
    TAPE_PATH,
    TOKEN_HEADER,
    TOKEN_VARIABLE,
    TapeAccepted,
    TapeError,
    TapeLog,
    TapeOffer,
)
from replaykit.middleware.served_tape import MAX_REQUESTS, BackgroundWork, ServedRequest, ServedTape
from replaykit.model.nesting import decode_json

MAX_TAPE_BYTES = 64 * 1024 * 1024
MAX_HELD_BYTES = 4 * MAX_TAPE_BYTES  # of all tapes; the oldest goes when another comes
MAX_TAPES = 256
EXPIRES_S = 600.0  # after it was last used; whoever handed it over asks for its log within moments
_HOST = re.compile(r"(localhost|[\d.]+|\[[\da-f:]+\])(?::\d*)?")
_ON = ("1", "true", "yes", "on")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class TapeReply(msgspec.Struct, frozen=True):
    """An answer over HTTP."""

    status: int
    body: bytes


def is_enabled(enabled: bool | None) -> bool:
    """Return the argument or, if it is None, the setting of `REPLAYKIT_TAPE`."""
    if enabled is None:
        return os.environ.get("REPLAYKIT_TAPE", "").lower() in _ON
    return enabled


def is_about_tapes(path: str) -> bool:
    """True for the addresses that tapes are spoken of at."""
    return path.startswith(TAPE_PATH) and path[len(TAPE_PATH) :][:1] in ("", "/")


class TapeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that matter here; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    client: str = ""
    """The address it came from."""

    @property
    def tape(self) -> str | None:
        """The tape it wants to be served inside of."""
        return self.headers.get(TAPE_HEADER)


class TapeRegistry:
    """The tapes of one application."""

    def __init__(self, token: str | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token or os.environ.get(TOKEN_VARIABLE) or None
        self._clock = clock
        self._lock = threading.Lock()
        self._tapes: OrderedDict[str, ServedTape] = OrderedDict()
        self._left: BackgroundWork | None = None  # until the first request comes nothing is watched
        self._secret = secrets.token_hex(4)

    @property
    def process(self) -> str:
        """Names these tapes in this process: one that is forked from it has tapes of its own."""
        return f"{os.getpid()}-{self._secret}"

    def refusal(self, request: TapeRequest) -> TapeReply | None:
        """The answer to a request that may not speak of tapes; None when it may."""
        if self._token is not None:
            token = request.headers.get(TOKEN_HEADER, "")
            if hmac.compare_digest(token.encode(), self._token.encode()):
                return None
            return _error_reply(403, f"the header {TOKEN_HEADER} does not hold the token of ${TOKEN_VARIABLE}")
        # A page in a browser on this machine, and whoever a proxy on this machine speaks for, are not local.
        what = ""
        if "origin" in request.headers or any(name in request.headers for name in _FORWARDED):
            what = "a request of somebody else"
        elif not _is_loopback(request.client):
            what = "not from this machine"
        elif not _is_here(request.headers.get("host", "localhost")):
            what = f"asked for as {request.headers['host'][:80]!r}, which is no address of this machine"
        if what:
            return _error_reply(403, f"{what}: set ${TOKEN_VARIABLE} on both sides")
        return None

    def answer(self, request: TapeRequest, body: bytes) -> TapeReply:
        """The answer to a request about tapes."""
        refused = self.refusal(request)
        if refused is not None:
            return refused
        name = request.path.removeprefix(TAPE_PATH).removeprefix("/")
        if request.method == "POST" and not name:
            return self._take(body)
        if request.method in ("GET", "DELETE") and name:
            return self._log_of(name, forget=request.method == "DELETE")
        return _error_reply(405, f"POST {TAPE_PATH}, GET or DELETE {TAPE_PATH}/ID")

    def _take(self, body: bytes) -> TapeReply:
        if len(body) > MAX_TAPE_BYTES:
            return _error_reply(413, f"a tape has at most {MAX_TAPE_BYTES:,} bytes")
        try:
            offer = decode_json(body, TapeOffer)
        except msgspec.MsgspecError as error:
            return _error_reply(400, f"not a tape: {error}")
        if offer.replaykit != TAPE_FORMAT:
            return _error_reply(400, f"a tape of version {offer.replaykit}; this reads {TAPE_FORMAT}")
        name = secrets.token_hex(16)
        with self._lock:
            self._sweep()
            self._tapes[name] = ServedTape(offer.world, len(body), self._clock)
            while len(self._tapes) > MAX_TAPES or sum(tape.size for tape in self._tapes.values()) > MAX_HELD_BYTES:
                self._tapes.popitem(last=False)
        return TapeReply(200, msgspec.json.encode(TapeAccepted(tape=name, process=self.process)))

    def _log_of(self, name: str, *, forget: bool) -> TapeReply:
        tape = self._find(name)
        if tape is None:
            return self._unknown(name)
        log = TapeLog(tape=name, runs=tape.log())
        if forget and not any(run.running for run in log.runs):
            with self._lock:
                self._tapes.pop(name, None)
        return TapeReply(200, msgspec.json.encode(log))

    def begin(self, request: TapeRequest) -> ServedRequest | TapeReply:
        """Return what serves a request inside the tape it names, or the reply that refuses it."""
        # Before the tape is looked up: who may not speak of tapes does not learn which there are.
        refused = self.refusal(request)
        if refused is not None:
            return refused
        tape = self._find(request.tape or "")
        if tape is None:
            return self._unknown(request.tape or "")
        return tape.begin(self._stragglers()) or _error_reply(429, f"a tape serves at most {MAX_REQUESTS} requests")

    def _stragglers(self) -> BackgroundWork:
        with self._lock:
            if self._left is None:
                self._left = BackgroundWork(self)
            return self._left

    def _find(self, name: str) -> ServedTape | None:
        with self._lock:
            self._sweep()
            return self._tapes.get(name)

    def _sweep(self) -> None:
        """Forget the tapes that were left behind."""
        too_old = self._clock() - EXPIRES_S
        for name, tape in list(self._tapes.items()):
            if tape.is_idle_since(too_old):
                del self._tapes[name]

    def _unknown(self, name: str) -> TapeReply:
        message = f"no tape {name[:40]!r} in process {self.process}: it was never handed over here, or is forgotten"
        return _error_reply(404, message, self.process)


def _is_here(host: str) -> bool:
    """True where a `Host` means this machine. A proxy may hide itself, and a page may have a name that leads here."""
    found = _HOST.fullmatch(host.lower())
    return found is not None and (found[1] == "localhost" or _is_loopback(found[1].strip("[]")))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _error_reply(status: int, message: str, process: str = "") -> TapeReply:
    error = TapeError(replaykit=TAPE_FORMAT, error=message, process=process)
    return TapeReply(status, msgspec.json.encode(error))
