"""Ask over HTTP: one request, one answer, within a time that holds."""

from __future__ import annotations

import http.client
import ipaddress
import queue
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from replaykit.candidates.output import MAX_OUTPUT_BYTES
from replaykit.seam.foreign_threads import apart

T = TypeVar("T")
_PAUSE_S = 0.1  # before a connection that failed is tried again
_PIECE = 1 << 16


class Ask(Struct, frozen=True, kw_only=True):
    """A request."""

    method: str
    url: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """What came back; without a status nothing did, and `why` says so in words."""

    status: int | None = None
    body: bytes = b""
    content_type: str = ""
    location: str = ""
    """Where it sends us; nobody goes there."""
    retry_after: str = ""
    """When to ask again, as the server says it."""
    why: str = ""
    timed_out: bool = False
    never_connected: bool = False


def ask(request: Ask, timeout_s: float, *, retries: int = 0) -> HttpAnswer:
    """The answer to a request. A connection that was never made is tried again, if that is asked for."""
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
        time.sleep(min(_PAUSE_S, max(0.0, ends - time.monotonic())))
    return HttpAnswer(why=in_time(timeout_s), timed_out=True)


def in_time(timeout_s: float) -> str:
    """Why there is no answer when the time was up."""
    return f"gave no answer within {timeout_s:g} s"


def _once(request: Ask, timeout_s: float) -> HttpAnswer:
    ends = time.monotonic() + timeout_s
    try:
        outgoing = urllib.request.Request(
            request.url, data=request.body, headers=dict(request.headers), method=request.method
        )
        with apart(), _opener(request.url).open(outgoing, timeout=timeout_s) as reply:  # a run may be under way here
            return _read(reply.status, reply, ends)
    except urllib.error.HTTPError as error:
        with error:
            return _read(error.code, error, ends)
    except TimeoutError:
        return HttpAnswer(timed_out=True)
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            return HttpAnswer(timed_out=True)
        refused = isinstance(error.reason, ConnectionRefusedError | socket.gaierror)
        return HttpAnswer(why=f"cannot be reached: {error.reason}", never_connected=refused)
    except (http.client.InvalidURL, ValueError):
        return HttpAnswer(
            why="cannot be asked: its address, or a header, holds what cannot be sent"
        )  # the error itself would show the address
    except (OSError, http.client.HTTPException) as error:
        return HttpAnswer(why=f"broke off: {error!r}")


def _read(status: int, reply: Any, ends: float) -> HttpAnswer:
    """The answer's body. One that drips is left when the time is up: nobody waits for it any more."""
    pieces: list[bytes] = []
    room = MAX_OUTPUT_BYTES + 1
    while room > 0 and (piece := reply.read1(min(room, _PIECE))):
        if time.monotonic() > ends:
            return HttpAnswer(timed_out=True)
        pieces.append(piece)
        room -= len(piece)
    if room <= 0:
        return HttpAnswer(why=f"answered with more than {MAX_OUTPUT_BYTES:,} bytes")
    body = b"".join(pieces)
    if reply.length:  # `read` says so by itself, `read1` does not
        raise http.client.IncompleteRead(body, reply.length)
    names = ("content-type", "location", "retry-after")
    header_fields = {name.replace("-", "_"): reply.headers.get(name, "") for name in names}
    return HttpAnswer(status=status, body=body, **header_fields)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nobody elsewhere: the headers may hold secrets."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _opener(url: str) -> urllib.request.OpenerDirector:
    """A way to the address; to this machine never through a proxy."""
    parts = urlsplit(url)
    if not _is_here(parts.hostname or ""):
        return urllib.request.build_opener(_Stay())
    if parts.scheme == "https":
        return urllib.request.build_opener(_Stay(), urllib.request.ProxyHandler({}))
    # Without TLS: since Python 3.12, `build_opener` loads the certificates of the machine. That takes 80 ms a request.
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
    """The action's result, or None when it is not there in time: a socket's own timeout is for each read."""
    results: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put(action())
        except Exception as error:  # noqa: BLE001 (told to whoever waits)
            results.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        found = results.get(timeout=timeout_s)
    except queue.Empty:
        return None
    if isinstance(found, BaseException):
        raise found
    return found
