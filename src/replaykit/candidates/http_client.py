"""HTTP client: one request and one response within a hard time limit."""

from __future__ import annotations

import http.client
import ipaddress
import os
import queue
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.output import MAX_OUTPUT_BYTES
from replaykit.errors import ReplayKitError, UsageError
from replaykit.handlers.replay.world import World
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
from replaykit.model.values import sayable
from replaykit.seam.foreign_threads import apart

T = TypeVar("T")
_PAUSE_S = 0.1  # pause before the first retry; it doubles with each further one
_LONGEST_PAUSE_S = 2.0
_PIECE = 1 << 16


class Ask(Struct, frozen=True, kw_only=True):
    """An HTTP request."""

    method: str
    url: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """The response to a request. Without a status, there was none, and `why` says so."""

    status: int | None = None
    body: bytes = b""
    content_type: str = ""
    location: str = ""
    """The redirect target, which is not followed."""
    retry_after: str = ""
    """The server's `Retry-After` header."""
    why: str = ""
    timed_out: bool = False
    never_connected: bool = False


def check_url(url: str, shown: str) -> None:
    """Raise `UsageError` unless a text is an HTTP address. `shown` is the text without secrets."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UsageError(f"{shown!r} is not an address of an agent", hint="Write http://host:port/path")


def ask(request: Ask, timeout_s: float, *, retries: int = 0) -> HttpAnswer:
    """Send a request and return the response. Failed connections are retried up to `retries` times."""
    ends = time.monotonic() + timeout_s
    for attempt in range(retries + 1):
        left = ends - time.monotonic()
        if left <= 0:
            break
        answer = _within(left, partial(_once, request, left))
        if answer is None or answer.timed_out:
            break
        if not answer.never_connected or attempt == retries:
            return answer
        pause_s = min(_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)
        time.sleep(min(pause_s, max(0.0, ends - time.monotonic())))
    return HttpAnswer(why=in_time(timeout_s), timed_out=True)


def in_time(timeout_s: float) -> str:
    """Return the message for a timeout."""
    return f"gave no answer within {timeout_s:g} s"


def _once(request: Ask, timeout_s: float) -> HttpAnswer:
    ends = time.monotonic() + timeout_s
    try:
        outgoing = urllib.request.Request(
            request.url, data=request.body, headers=dict(request.headers), method=request.method
        )
        with apart(), _opener(request.url).open(outgoing, timeout=timeout_s) as reply:  # outside of any run here
            return _read(reply.status, reply, ends)
    except urllib.error.HTTPError as error:
        with error:
            return _read(error.code, error, ends)
    except TimeoutError:
        return HttpAnswer(timed_out=True)
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            return HttpAnswer(timed_out=True)
        # The agent cannot have seen this request, so sending it again is safe.
        refused = isinstance(error.reason, ConnectionRefusedError | socket.gaierror)
        return HttpAnswer(why=f"cannot be reached: {error.reason}", never_connected=refused)
    except (http.client.InvalidURL, ValueError):
        return HttpAnswer(
            why="cannot be called: its address or a header contains characters that cannot be sent"
        )  # without the original error, which would show the address
    except (OSError, http.client.HTTPException) as error:
        return HttpAnswer(why=f"broke off: {error!r}")


def _read(status: int, reply: Any, ends: float) -> HttpAnswer:
    """Read the response body, giving up on a slow one when the time is up."""
    pieces: list[bytes] = []
    room = MAX_OUTPUT_BYTES + 1
    # `read1` returns what has arrived, while `read` would block until the piece is full.
    while room > 0 and (piece := reply.read1(min(room, _PIECE))):
        if time.monotonic() > ends:
            return HttpAnswer(timed_out=True)
        pieces.append(piece)
        room -= len(piece)
    if room <= 0:
        return HttpAnswer(why=f"answered with more than {MAX_OUTPUT_BYTES:,} bytes")
    body = b"".join(pieces)
    if reply.length:  # `read` raises this error itself, `read1` does not
        raise http.client.IncompleteRead(body, reply.length)
    names = ("content-type", "location", "retry-after")
    header_fields = {name.replace("-", "_"): reply.headers.get(name, "") for name in names}
    return HttpAnswer(status=status, body=body, **header_fields)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Never follows redirects, because the headers may hold secrets."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Return an opener for the address, which bypasses proxies for this machine."""
    parts = urlsplit(url)
    if not _is_here(parts.hostname or ""):
        return urllib.request.build_opener(_Stay())
    if parts.scheme == "https":
        return urllib.request.build_opener(_Stay(), urllib.request.ProxyHandler({}))
    # Leave TLS out: since Python 3.12, `build_opener` loads the machine's certificates, which takes 80 ms per request.
    plain = (urllib.request.HTTPHandler, urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor)
    opener = urllib.request.OpenerDirector()
    for handler in (*(kind() for kind in plain), _Stay()):
        opener.add_handler(handler)
    return opener


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _within(timeout_s: float, action: Callable[[], T]) -> T | None:
    """Run an action and return its result, or None after a timeout. A socket's own timeout only limits each read."""
    results: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(action())
        except Exception as error:  # noqa: BLE001 (re-raised in the waiting thread)
            results.put(error)

    # A daemon, so that a read that never returns does not keep this process alive.
    threading.Thread(target=work, daemon=True).start()
    try:
        found = results.get(timeout=timeout_s)
    except queue.Empty:
        return None
    if isinstance(found, BaseException):
        raise found
    return found


Headers: TypeAlias = tuple[tuple[str, str], ...]
UNWATCHED = "unwatched"
"""The deviation of a run whose tools were neither served nor watched."""
MOST_TRIES = 1000  # attempts to reach one of several processes, time permitting
_LOOK_PAUSE_S = 0.02  # pause between polls of an agent that has responded but is still working


class TapeRefused(ReplayKitError):
    """The agent has the middleware but does not accept the tape."""


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """A tape that an agent has accepted."""

    tape: str
    process: str
    """The process that holds the tape."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of probing an agent."""

    takes_tapes: bool
    nobody: str = ""
    """The reason why there was no response at all."""


class TapeClient:
    """A client for the middleware of an agent, if it has one."""

    def __init__(self, url: str, headers: Headers = ()) -> None:
        """`headers` are sent with every request, because whatever protects the agent also protects its tapes."""
        parts = urlsplit(url)
        self._root = urlunsplit((parts.scheme, parts.netloc, TAPE_PATH, "", ""))
        token = os.environ.get(TOKEN_VARIABLE)
        self._token: Headers = ((TOKEN_HEADER, token),) if token else ()
        self._headers = tuple(pair for pair in headers if pair[0].lower() != "content-type")

    def look(self, timeout_s: float, *, retries: int = 0) -> Looked:
        """Check whether the agent accepts tapes. An agent without the middleware only gets a GET request."""
        answer = ask(Ask(method="GET", url=self._root, headers=self._headers), timeout_s, retries=retries)
        return Looked(takes_tapes=_tape_error(answer) is not None, nobody=answer.why if answer.status is None else "")

    def offer(self, world: World, timeout_s: float) -> Handed:
        """Send the world to the agent."""
        answer = self._ask("POST", "", timeout_s, msgspec.json.encode(TapeOffer(world=world)))
        if answer.status != 200:
            raise TapeRefused(_why(answer))
        try:
            taken = msgspec.json.decode(answer.body, type=TapeAccepted)
        except msgspec.MsgspecError as error:
            raise TapeRefused(f"its answer cannot be read: {sayable(str(error))}") from None
        return Handed(tape=taken.tape, process=taken.process)

    def ask_within(self, handed: Handed, request: Ask, timeout_s: float, *, retries: int = 0) -> HttpAnswer:
        """Send a request that is served inside the tape, and return the response."""
        headers = (*request.headers, (TAPE_HEADER, handed.tape), *self._token)
        inside = replace(request, headers=headers)
        return _met(handed, timeout_s, lambda left: ask(inside, left, retries=retries))

    def log(self, handed: Handed, timeout_s: float, *, work_s: float = 0.0) -> TapeLog:
        """Return what the agent did inside the tape and make it forget the tape.

        Wait up to `work_s` if it is still working.
        """
        ends = time.monotonic() + work_s
        while True:
            log = self._log(handed, timeout_s)
            if not any(run.running for run in log.runs) or time.monotonic() >= ends:
                return log
            time.sleep(_LOOK_PAUSE_S)

    def _log(self, handed: Handed, timeout_s: float) -> TapeLog:
        answer = _met(handed, timeout_s, lambda left: self._ask("DELETE", f"/{handed.tape}", left))
        if answer.status != 200:
            raise TapeRefused(_why(answer))
        try:
            return msgspec.json.decode(answer.body, type=TapeLog)
        except msgspec.MsgspecError as error:
            raise TapeRefused(f"its log cannot be read: {sayable(str(error))}") from None

    def _ask(self, method: str, path: str, timeout_s: float, body: bytes | None = None) -> HttpAnswer:
        headers = (*self._headers, ("content-type", "application/json"), *self._token)
        return ask(Ask(method=method, url=self._root + path, body=body, headers=headers), timeout_s)


def _met(handed: Handed, timeout_s: float, once: Callable[[float], HttpAnswer]) -> HttpAnswer:
    """Repeat a request until it reaches the process with the tape; raise `TapeRefused` if only others respond."""
    others: set[str] = set()
    ends, tries = time.monotonic() + timeout_s, 0
    while tries < MOST_TRIES and (not others or time.monotonic() < ends):
        tries += 1
        answer = once(max(0.0, ends - time.monotonic()))
        error = _tape_error(answer) if answer.status == 404 else None
        if error is None or error.process in ("", handed.process):
            if answer.timed_out:
                return replace(answer, why=in_time(timeout_s))
            return answer
        others.add(error.process)
    problem = f"process {handed.process} has it, and {tries} requests got to {len(others)} others"
    raise TapeRefused(f"{problem}\n{_ONE_PROCESS}")


_ONE_PROCESS = "Run it as one process: uvicorn --workers 1, gunicorn --workers 1 --threads 8"


def refusal_of(answer: HttpAnswer) -> str:
    """Return the middleware's reason for refusing a request inside a tape; empty if there is none."""
    if answer.status is not None and answer.status >= 400:
        error = _tape_error(answer)
    else:
        error = None
    if error is not None:
        return error.error
    return ""


def _why(answer: HttpAnswer) -> str:
    error = _tape_error(answer)
    return (error.error if error else "") or answer.why or f"it answered {answer.status}"


def _tape_error(answer: HttpAnswer) -> TapeError | None:
    try:
        error = msgspec.json.decode(answer.body, type=TapeError)
    except msgspec.MsgspecError:
        return None
    if error.replaykit == TAPE_FORMAT:
        return error
    return None
