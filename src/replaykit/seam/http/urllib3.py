"""urllib3, and so requests, botocore and everything else based on it.

One attempt is one exchange: retries and redirects are the caller's, and happen again in a replay. urllib3 itself reads
a recorded response, from a connection whose socket holds it, so it has every property of a live one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from urllib3 import exceptions
from urllib3.connection import HTTPConnection
from urllib3.response import HTTPResponse

from replaykit.errors import ReplayKitError
from replaykit.model.values import Opaque
from replaykit.seam.http.call import PORTION, HttpCall, HttpRequest, Served, listening
from replaykit.seam.http.cleaning import header_text, text_pairs
from replaykit.seam.http.recorded_socket import RecordedSocket
from replaykit.seam.http.request import http_url, joined_body
from replaykit.seam.own_code import Function

_TUNNEL = "_replaykit_tunnel"


def prepare_proxy(original: Function, pool: Any, conn: Any) -> None:
    """Wrap `HTTPSConnectionPool._prepare_proxy`, which connects: deferred until the request is known to be live."""
    if listening() is None:
        original(pool, conn)
    else:
        setattr(conn, _TUNNEL, original)


def make_request(original: Function, pool: Any, conn: Any, method: str, url: str, **options: Any) -> Any:
    """Wrap `HTTPConnectionPool._make_request`, which makes one attempt."""
    target = http_url(pool.scheme, pool.host, pool.port, url)
    here = listening(target)
    if here is None:
        return original(pool, conn, method, url, **options)
    headers = options.get("headers")
    if headers is None:
        headers = pool.headers
    body, options["body"] = _read(options.get("body"))
    call = HttpCall(here, HttpRequest(method=method, url=target, headers=text_pairs(headers.items()), body=body))
    if call.served is not None:
        return original(pool, _recorded(pool, conn, call.served), method, url, **options)
    options["headers"] = _outgoing(headers, call.request.amended)
    preload = options.pop("preload_content", True)
    with call.live():
        tunnel = vars(conn).pop(_TUNNEL, None)
        if tunnel is not None:
            tunnel(pool, conn)
        call.pause()
        response = original(pool, conn, method, url, preload_content=False, **options)
        if call.is_altered:
            body = response.read(decode_content=False)
    if call.is_altered:
        _begin(response, call)
        other = _recorded(pool, conn, call.altered(body))
        return original(pool, other, method, url, preload_content=preload, **options)
    _tap(response, call)
    if preload and isinstance(response, HTTPResponse):
        response._body = response.read(decode_content=options.get("decode_content", True))
    return response


def send_of_botocore(original: Function, session: Any, request: Any) -> Any:
    """Wrap `URLLib3Session.send` of botocore, which wraps unknown exceptions: unwrap those that stop a call."""
    try:
        return original(session, request)
    except Exception as error:
        inner = getattr(error, "kwargs", {}).get("error")
        if isinstance(inner, ReplayKitError):
            raise inner from None
        raise


def _outgoing(headers: Any, amended: dict[str, str]) -> Any:
    """Return the headers to send: a copy in the caller's own kind of mapping, since some callers look at it again."""
    copied = headers.copy() if hasattr(headers, "copy") else dict(headers)
    for name in list(copied):
        if header_text(name).lower() in amended:
            del copied[name]
    copied.update(amended)
    return copied


def _read(body: Any) -> tuple[bytes, Any]:
    """Return the whole body, and a body to send instead: one that can be read only once has been read now."""
    if body is None:
        return b"", None
    if isinstance(body, str):
        return body.encode(), body
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), body
    whole = joined_body(body, "utf-8")
    return whole, [whole]  # as a list, which has no length: the caller's headers announce it


def _recorded(pool: Any, conn: Any, served: Served) -> HTTPConnection:
    """Return a connection with the recorded response; the request that is written to it is ignored."""
    error = served.failure(vars(exceptions))
    for name, thing in (("pool", pool), ("conn", conn)):
        if isinstance(getattr(error, "__dict__", {}).get(name), Opaque):
            setattr(error, name, thing)
    if error is not None and not served.status:
        served.wait()
        raise error
    connection = HTTPConnection(conn.host, conn.port)
    connection.sock = RecordedSocket(served, error)
    connection.is_verified = True
    return connection


def _begin(response: Any, call: HttpCall) -> None:
    call.answered_in_http1(response, text_pairs(response.headers.items()))


def _tap(response: Any, call: HttpCall) -> None:
    """Record what is read of the response from here on."""
    _begin(response, call)
    if not isinstance(response, HTTPResponse):  # HTTP/2, which comes as a whole
        call.chunk(response.data)
        call.ended()
    elif response.isclosed():
        call.ended()
    else:
        response.__class__ = _tapped(type(response))
        response._replaykit = call  # type: ignore[attr-defined]


class _Tapped(HTTPResponse):
    """A response that records its bytes as they come, before they are decompressed."""

    _replaykit: HttpCall
    _replaykit_kind: type[HTTPResponse]
    _replaykit_fails = False
    _replaykit_portion = 0  # how much of the current piece was passed on, if it is read in portions

    def _fp_read(self, *args: Any, **options: Any) -> bytes:
        data: bytes = super()._fp_read(*args, **options)
        self._note(data, starts=self._replaykit_portion >= PORTION)
        if self.isclosed() and not self._lacks(len(data)):
            self._replaykit.ended()
        return data

    def _lacks(self, came: int) -> bool:
        """True if less has come than announced: urllib3 reports that in a moment, unless told not to."""
        return self.enforce_content_length and (self.length_remaining or 0) > came

    def _handle_chunk(self, amt: int | None) -> bytes:
        data: bytes = super()._handle_chunk(amt)
        self._note(data, starts=False)
        return data

    def _note(self, data: bytes, *, starts: bool) -> None:
        if starts or not self._replaykit_portion:
            self._replaykit_portion = 0
            self._replaykit.chunk(data)
        else:
            self._replaykit.more(data)
        self._replaykit_portion += len(data)

    def _update_chunk_length(self) -> None:
        begins = self.chunk_left is None
        self._replaykit_fails = True  # on failure, it closes itself before it raises
        super()._update_chunk_length()
        self._replaykit_fails = False
        if begins:
            self._replaykit_portion = 0
        if self.chunk_left == 0:
            self._replaykit.ended()

    @contextmanager
    def _error_catcher(self) -> Iterator[None]:
        try:
            with super()._error_catcher():
                try:
                    yield
                except BaseException:
                    self._replaykit_fails = True
                    raise
        except GeneratorExit:  # nobody reads on; whether it was closed or dropped is unknown yet
            self._replaykit_fails = False
            raise
        except BaseException as error:
            self._replaykit.broke(error)
            raise

    def close(self) -> None:
        super().close()
        self._left()

    def release_conn(self) -> None:
        super().release_conn()
        self._left()

    def _left(self) -> None:
        if not self._replaykit_fails:
            self._replaykit.broke()

    def __del__(self) -> None:
        # It was dropped, and closes itself. It is recorded at the end of the run, not here: this may be the garbage
        # collector, at any moment.
        kind = self._replaykit_kind
        self.__class__ = kind  # type: ignore[assignment]
        kind.__del__(self)


@lru_cache(maxsize=8)
def _tapped(kind: type[HTTPResponse]) -> Any:
    return type(kind.__name__, (_Tapped, kind), {"_replaykit_kind": kind})
