"""The tapes that an application holds, and the rules for handing one over.

Each process of an application has tapes of its own. A process that does not have the requested tape answers with its
name and does nothing else, so the caller can repeat the request until it reaches the right one.
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
MAX_HELD_BYTES = 4 * MAX_TAPE_BYTES  # of all tapes; a new one pushes the oldest out
MAX_TAPES = 256
EXPIRES_S = 600.0  # after its last use; the caller fetches the log within moments
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
    """True for the paths of the requests about tapes."""
    return path.startswith(TAPE_PATH) and path[len(TAPE_PATH) :][:1] in ("", "/")


class TapeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request that concern tapes; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    client: str = ""
    """The address of the client."""

    @property
    def tape(self) -> str | None:
        """The id of the tape to serve it from."""
        return self.headers.get(TAPE_HEADER)


class TapeRegistry:
    """The tapes of one application."""

    def __init__(self, token: str | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token or os.environ.get(TOKEN_VARIABLE) or None
        self._clock = clock
        self._lock = threading.Lock()
        self._tapes: OrderedDict[str, ServedTape] = OrderedDict()
        self._background: BackgroundWork | None = None  # nothing is watched until the first request
        self._secret = secrets.token_hex(4)

    @property
    def process(self) -> str:
        """An id for the tapes of this process; a process forked from it has tapes of its own."""
        return f"{os.getpid()}-{self._secret}"

    def refusal(self, request: TapeRequest) -> TapeReply | None:
        """Return the refusal of a request that must not use tapes; None if it may."""
        if self._token is not None:
            token = request.headers.get(TOKEN_HEADER, "")
            # In constant time: a plain comparison reveals how much of a guess is right.
            if hmac.compare_digest(token.encode(), self._token.encode()):
                return None
            return _error_reply(403, f"the header {TOKEN_HEADER} does not hold the token of ${TOKEN_VARIABLE}")
        # A page in a browser on this machine is not local, and neither is a client of a reverse proxy on it.
        problem = ""
        if "origin" in request.headers or any(name in request.headers for name in _FORWARDED):
            problem = "a request from another machine"
        elif not _is_loopback(request.client):
            problem = "not from this machine"
        elif not _is_local_host(request.headers.get("host", "localhost")):
            problem = f"asked for as {request.headers['host'][:80]!r}, which is not an address of this machine"
        if problem:
            return _error_reply(403, f"{problem}: set ${TOKEN_VARIABLE} on both sides")
        return None

    def answer(self, request: TapeRequest, body: bytes) -> TapeReply:
        """Answer a request about tapes."""
        refused = self.refusal(request)
        if refused is not None:
            return refused
        name = request.path.removeprefix(TAPE_PATH).removeprefix("/")
        if request.method == "POST" and not name:
            return self._add(body)
        if request.method in ("GET", "DELETE") and name:
            return self._log_of(name, delete=request.method == "DELETE")
        return _error_reply(405, f"POST {TAPE_PATH}, GET or DELETE {TAPE_PATH}/ID")

    def _add(self, body: bytes) -> TapeReply:
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

    def _log_of(self, name: str, *, delete: bool) -> TapeReply:
        tape = self._find(name)
        if tape is None:
            return self._unknown(name)
        log = TapeLog(tape=name, runs=tape.log())
        if delete and not any(run.running for run in log.runs):
            with self._lock:
                self._tapes.pop(name, None)
        return TapeReply(200, msgspec.json.encode(log))

    def begin(self, request: TapeRequest) -> ServedRequest | TapeReply:
        """Start a request inside the tape it names, or return the reply that refuses it."""
        # Checked before the lookup: a stranger must not learn which tapes exist.
        refused = self.refusal(request)
        if refused is not None:
            return refused
        tape = self._find(request.tape or "")
        if tape is None:
            return self._unknown(request.tape or "")
        return tape.begin(self._watched_background()) or _error_reply(
            429, f"a tape serves at most {MAX_REQUESTS} requests"
        )

    def _watched_background(self) -> BackgroundWork:
        with self._lock:
            if self._background is None:
                self._background = BackgroundWork(self)
            return self._background

    def _find(self, name: str) -> ServedTape | None:
        with self._lock:
            self._sweep()
            return self._tapes.get(name)

    def _sweep(self) -> None:
        """Drop the expired tapes."""
        too_old = self._clock() - EXPIRES_S
        for name, tape in list(self._tapes.items()):
            if tape.is_idle_since(too_old):
                del self._tapes[name]

    def _unknown(self, name: str) -> TapeReply:
        message = f"no tape {name[:40]!r} in process {self.process}: it never arrived here, or has expired"
        return _error_reply(404, message, self.process)


def _is_local_host(host: str) -> bool:
    """True if a `Host` header names this machine; guards against hidden proxies and DNS rebinding."""
    match = _HOST.fullmatch(host.lower())
    return match is not None and (match[1] == "localhost" or _is_loopback(match[1].strip("[]")))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _error_reply(status: int, message: str, process: str = "") -> TapeReply:
    error = TapeError(replaykit=TAPE_FORMAT, error=message, process=process)
    return TapeReply(status, msgspec.json.encode(error))
