"""A client for the proxy's upstreams.

An aiohttp session does more for a request than a proxy needs (cookies, redirects, timers, a task for each body), and
takes twice as long. This client uses the layer below: connections, their pool, the writer and the parser.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.http import HttpProcessingError, StreamWriter
from yarl import URL

from replaykit.seam.http.response import header_bytes

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection, SocketFactoryType
    from aiohttp.http import RawResponseMessage


_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


def ssl_context(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """Trust the machine's own certificates, and those that the user has named for any of the usual clients."""
    context = ssl.create_default_context()
    for name in _BUNDLES:
        if environment.get(name):
            with contextlib.suppress(OSError):  # the client that reads the file reports the error
                context.load_verify_locations(environment[name])
    has_own = context.get_ca_certs() or os.path.isdir(ssl.get_default_verify_paths().capath or "")
    if not has_own and find_spec("certifi") is not None:
        import certifi  # noqa: PLC0415 (not a dependency of ours, but most SDKs have it)

        context.load_verify_locations(certifi.where())
    return context


LONGEST_LINE = 64 * 1024
"""The longest line of a head, in either direction."""
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30)
_SKIPPED_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
# Methods that may be retried if a pooled connection turns out to be closed.
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_IMMEDIATE_BYTES = 64 * 1024  # a longer body is sent concurrently: the upstream may answer before it has read it
_INFORMATIONAL = frozenset(range(100, 200)) - {101}

Headers = Sequence[tuple[str, str]]
Body = bytes | AsyncIterator[bytes]


class UpstreamResponse:
    """An upstream's response whose body is still coming. Close it, or use it as a context manager."""

    __slots__ = ("_connection", "_upload", "content", "raw_headers", "reason", "status")

    def __init__(
        self,
        connection: Connection,
        message: RawResponseMessage,
        content: aiohttp.StreamReader,
        upload: asyncio.Task[None] | None,
    ) -> None:
        self._connection = connection
        self._upload = upload
        self.status = message.code
        self.reason = message.reason
        self.raw_headers = message.raw_headers
        self.content = content

    def header(self, name: bytes) -> str | None:
        """Return the first value of a header, given its name in lower case."""
        return next((value.decode("latin-1") for key, value in self.raw_headers if key.lower() == name), None)

    def close(self) -> None:
        """Read no more of it. The connection is reused if the request and the response are complete."""
        if self._upload is None or not self._upload.cancel():
            self._connection.release()
            return
        if self._connection.transport is not None:
            self._connection.transport.abort()  # a plain close would wait until the upstream has read everything
        self._connection.close()

    async def __aenter__(self) -> UpstreamResponse:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class UpstreamClient:
    """Sends requests to upstreams, through the user's proxies and with the user's certificates.

    Raises `OSError` or `aiohttp.ClientError` for everything that goes wrong on the way.
    """

    def __init__(self, new_socket: SocketFactoryType | None = None) -> None:
        """`new_socket` creates the sockets, if they are not ordinary ones."""
        self._connector = aiohttp.TCPConnector(limit=0, socket_factory=new_socket)
        self._loop = asyncio.get_running_loop()
        self._proxies = getproxies()
        self._trust = cache(ssl_context)
        self._route = lru_cache(maxsize=256)(self._route_to)

    async def close(self) -> None:
        """Close all connections."""
        await self._connector.close()

    async def send(self, method: str, address: URL, headers: Headers, body: Body = b"") -> UpstreamResponse:
        """Send a request and return the response; adds the headers for the connection and for a body in one piece."""
        request = _UpstreamRequest(method, address, headers, body)
        may_repeat = method in _REPEATABLE and isinstance(body, bytes)
        route = self._route(address.scheme, address.raw_authority)
        while True:
            connection = await self._connector.connect(route, traces=[], timeout=_TIMEOUT)
            try:
                return await self._send(request, route, connection)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                connection.close()
                if not may_repeat:
                    raise
                may_repeat = False
            except BaseException:
                connection.close()
                raise

    def _route_to(self, scheme: str, place: str) -> aiohttp.ClientRequest:
        """Return a request that stands for all to that place: the pool finds connections by it."""
        address = URL(f"{scheme}://{place}/", encoded=True)
        proxy = None if proxy_bypass(address.host or "") else self._proxies.get(scheme)
        return aiohttp.ClientRequest(
            "GET",
            address,
            skip_auto_headers=_SKIPPED_HEADERS,
            loop=self._loop,
            proxy=None if proxy is None else URL(proxy),
            ssl=self._trust() if scheme == "https" else True,
        )

    async def _send(
        self, request: _UpstreamRequest, route: aiohttp.ClientRequest, connection: Connection
    ) -> UpstreamResponse:
        protocol = connection.protocol
        if protocol is None or protocol.transport is None:
            raise aiohttp.ServerDisconnectedError
        protocol.set_response_params(
            skip_payload=request.method == "HEAD",
            read_until_eof=True,
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
        )
        head, body, upload = request.head(route), request.body, None
        if isinstance(body, bytes) and len(body) <= _IMMEDIATE_BYTES:
            protocol.transport.write(head + body)
        else:
            upload = self._loop.create_task(_upload(protocol, head, body, is_chunked=request.is_chunked))
        try:
            message, content = await protocol.read()
            while message.code in _INFORMATIONAL:
                message, content = await protocol.read()
        except BaseException as error:
            if upload is not None:
                upload.cancel()
            if isinstance(error, HttpProcessingError):
                raise aiohttp.ClientPayloadError(f"the answer is not HTTP: {error.message}") from error
            raise
        return UpstreamResponse(connection, message, content, upload)


class _UpstreamRequest(NamedTuple):
    method: str
    address: URL
    headers: Headers
    body: Body

    @property
    def is_chunked(self) -> bool:
        """True if the length of the body is unknown."""
        return not isinstance(self.body, bytes) and all(name.lower() != "content-length" for name, _ in self.headers)

    def head(self, route: aiohttp.ClientRequest) -> bytes:
        """Return the head of the request; the route adds the host, and credentials for a proxy."""
        own = {name.lower() for name, _ in self.headers}
        lines = [*(pair for pair in route.headers.items() if pair[0].lower() not in own), *self.headers]
        if self.is_chunked:
            lines.append(("Transfer-Encoding", "chunked"))
        elif isinstance(self.body, bytes) and (self.body or self.method not in _WITHOUT_BODY):
            lines = [pair for pair in lines if pair[0].lower() != "content-length"]
            lines.append(("Content-Length", str(len(self.body))))
        target = self.address.raw_path_qs
        if route.proxy and not route.is_ssl():
            target = str(self.address)
        first = f"{self.method} {target} HTTP/1.1\r\n".encode("utf-8", "surrogateescape")
        return first + header_bytes("".join([f"{name}: {value}\r\n" for name, value in lines])) + b"\r\n"


async def _upload(protocol: ResponseHandler, head: bytes, body: Body, *, is_chunked: bool) -> None:
    """Send a long or chunked request; on failure, the response fails as well."""
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    try:
        await writer.write(head)
        if isinstance(body, bytes):
            await writer.write(body)
            return
        writer.chunked = is_chunked
        async for chunk in body:
            await writer.write(chunk)
        await writer.write_eof()
    except Exception as error:  # noqa: BLE001 (re-raised where the response is awaited)
        protocol.set_exception(aiohttp.ClientConnectionError(f"the request cannot be sent: {error!r}"), error)
