"""http.client of the standard library, and so urllib.request, httplib2 and xmlrpc.

A request passes through the seam when its head and body are complete, which is when it is sent. http.client itself
reads a recorded response, from a socket that holds it. urllib3 is based on http.client too, and has a module of its
own.
"""

from __future__ import annotations

import http.client
import weakref
from functools import lru_cache
from typing import Any

from replaykit.seam.http.call import PORTION, HttpCall, HttpRequest, Served, listening
from replaykit.seam.http.cleaning import Headers
from replaykit.seam.http.recorded_socket import RecordedSocket
from replaykit.seam.http.request import http_url, joined_body
from replaykit.seam.http.response import header_pairs
from replaykit.seam.own_code import Function
from replaykit.seam.unrecorded import accounted

_CALL = "_replaykit_call"
# Marks a connection whose request does not pass through the seam.
_LEFT_ALONE = "_replaykit_left_alone"


def connect(original: Function, conn: Any) -> None:
    """Wrap `HTTPConnection.connect`: a replay defers it until the request is known to be live."""
    here = None
    if not _is_urllib3(conn.__class__) and _LEFT_ALONE not in vars(conn):
        here = listening(_url(conn, "/"))
    if here is None:
        original(conn)
    elif here.session.refuse is None:
        with accounted():  # its requests are recorded when they are sent
            original(conn)
    else:
        conn.sock = RecordedSocket()


def end_headers(original: Function, conn: Any, message_body: Any = None, **options: Any) -> None:
    """Wrap `HTTPConnection.endheaders`, which sends the request."""
    if _is_urllib3(conn.__class__):
        original(conn, message_body, **options)
        return
    if isinstance(conn.sock, RecordedSocket):
        conn.sock = None  # this request may be made
    vars(conn).pop(_LEFT_ALONE, None)
    url = _url(conn, conn._buffer[0].split(b" ")[1].decode("latin-1"))
    headers = _headers(conn)
    here = None
    if message_body is not None or not _has_body(headers):
        here = listening(url)
    if here is None or here.session.leaves(url):
        setattr(conn, _LEFT_ALONE, True)
        original(conn, message_body, **options)
        return
    body = None if message_body is None else joined_body(message_body, "latin-1")
    call = HttpCall(here, HttpRequest(method=conn._method, url=url, headers=headers, body=body or b""))
    if call.served is not None:
        _prepare(conn, call.served)
        original(conn, body, **options)
        return
    _amend(conn, call.request.amended)
    with call.live():
        call.pause()
        original(conn, body, **options)
    call.sent()
    setattr(conn, _CALL, call)


def get_response(original: Function, conn: Any) -> Any:
    """Wrap `HTTPConnection.getresponse`."""
    call: HttpCall | None = vars(conn).pop(_CALL, None)
    if call is None:
        return original(conn)
    body = b""
    with call.live():
        response = original(conn)
        if call.is_altered:
            body = response.read()
    call.answered_in_http1(response, tuple(response.getheaders()))
    if call.is_altered:
        return _altered(conn, call, body)
    _tap(response, call)
    return response


@lru_cache(maxsize=64)
def _is_urllib3(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] == "urllib3" for base in kind.__mro__)


def _url(conn: Any, target: str) -> str:
    scheme = "https" if isinstance(conn, getattr(http.client, "HTTPSConnection", ())) else "http"
    host, port = conn.host, conn.port
    if conn._tunnel_host:
        host, port = conn._tunnel_host, conn._tunnel_port
    return http_url(scheme, host, port, target)


def _headers(conn: Any) -> Headers:
    lines = (line.partition(b":") for line in conn._buffer[1:])
    return header_pairs((name, value.strip()) for name, _, value in lines)


def _has_body(headers: Headers) -> bool:
    """True if the head announces a body."""
    announced = {name.lower(): value for name, value in headers}
    return announced.get("content-length", "0") != "0" or "transfer-encoding" in announced


def _amend(conn: Any, amended: dict[str, str]) -> None:
    """Replace headers of the request that is about to be sent."""
    first, *lines = conn._buffer
    others = [line for line in lines if line.partition(b":")[0].decode("latin-1").lower() not in amended]
    conn._buffer = [first, *others, *(f"{name}: {value}".encode("latin-1") for name, value in amended.items())]


def _prepare(conn: Any, served: Served) -> None:
    """Put a recorded response where the connection reads from; raise an error that kept the request from being sent."""
    error = served.failure(vars(http.client))
    if error is not None and not served.was_sent:
        served.wait()
        raise error
    if isinstance(error, http.client.IncompleteRead):
        error = None  # http.client notices by itself that data is missing
    if conn.sock is not None:
        conn.sock.close()
    conn.sock = RecordedSocket(served, error)


def _altered(conn: Any, call: HttpCall, body: bytes) -> Any:
    """Return the response as a fault has changed it."""
    served = call.altered(body)
    error = served.failure(vars(http.client))
    if error is not None and not served.status:
        raise error
    response = conn.response_class(RecordedSocket(served, error), method=conn._method)
    response.begin()
    return response


def _tap(response: Any, call: HttpCall) -> None:
    """Record what is read of the response from here on."""
    if response.length == 0 or response.fp is None:
        call.ended()
        return
    response.fp = _TappedFile(response, call)
    response.__class__ = _tapped(response.__class__)


class _TappedFile:
    """The file that a response is read from; records the bytes of its body."""

    def __init__(self, response: Any, call: HttpCall) -> None:
        self._file = response.fp
        self._response = weakref.proxy(response)  # dropping a response must still close it
        self._call = call
        self._left = response.length
        self._begins_chunk = True
        self._portion = 0
        self.is_dropped = False
        """True if nobody has closed the response, and it closes itself."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, *size: Any) -> bytes:
        data = self._noted(self._watched(self._file.read, *size), *size)
        if size and size[0] is not None and len(data) < size[0]:
            self._note_end()
        return data

    def read1(self, size: int = -1) -> bytes:
        data = self._noted(self._watched(self._file.read1, size), size)
        if not self._response.chunked:
            self._begins_chunk = not 0 <= size <= len(data)  # the read returned all that had come
        return data

    def readinto(self, buffer: Any) -> int:
        size: int = self._watched(self._file.readinto, buffer)
        self._noted(bytes(memoryview(buffer)[:size]), len(buffer))
        if size < len(buffer):
            self._note_end()
        return size

    def readline(self, *size: Any) -> bytes:
        line: bytes = self._watched(self._file.readline, *size)
        if not self._response.chunked:
            return self._noted(line, *size)
        self._begins_chunk = True  # the line gives the length of the next chunk
        if line.partition(b";")[0].strip(b"0 \r\n") == b"" and line:
            self._call.ended()
        elif not line:
            self._note_end()
        return line

    def close(self) -> None:
        self._file.close()
        if self.is_dropped:
            return  # recorded at the end of the run: this may be the garbage collector, at any moment
        self._call.broke()

    def _watched(self, read: Function, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except BaseException as error:
            self._call.broke(error)
            raise

    def _noted(self, data: bytes, *size: Any) -> bytes:
        if not data:
            self._note_end(*size)
        elif not self._response.chunked or self._response.chunk_left:  # otherwise it ends a chunk
            self._note(data)
        return data

    def _note_end(self, *size: Any) -> None:
        """Note the end of the response, or that it ended too early."""
        if size and size[0] == 0:
            return
        if self._left is None and not self._response.chunked:
            self._call.ended()
        else:
            self._call.interrupted(http.client.IncompleteRead(b""))

    def _note(self, data: bytes) -> None:
        if self._begins_chunk or (self._portion >= PORTION and not self._response.chunked):
            self._begins_chunk, self._portion = False, 0
            self._call.chunk(data)
        else:
            self._call.more(data)
        self._portion += len(data)
        if self._left is not None:
            self._left -= len(data)
            if not self._left:
                self._call.ended()


@lru_cache(maxsize=8)
def _tapped(kind: Any) -> Any:
    def finalize(response: Any) -> None:
        file = response.fp
        if isinstance(file, _TappedFile):
            file.is_dropped = True
        kind.__del__(response)

    return type(kind.__name__, (kind,), {"__del__": finalize, "__module__": kind.__module__})
