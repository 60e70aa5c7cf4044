"""Requests at the proxy: served from the tape, or forwarded to their upstream and recorded."""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import IO

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from replaykit.errors import Divergence, Unreplayable
from replaykit.programs.launch_options import Endpoint
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import ProcessLog
from replaykit.programs.proxy_addresses import UPSTREAM, end_to_end_headers, proxied_location
from replaykit.programs.proxy_responses import RecordedPace, drop_connection, send_live, send_recorded
from replaykit.programs.proxy_routing import (
    BAD_REQUEST,
    MISS,
    NOT_HERE,
    ProxyRefusal,
    ProxyTarget,
    refusal_response,
    route_request,
)
from replaykit.programs.upstream_client import UpstreamClient, UpstreamResponse
from replaykit.seam.http.call import HttpCall, HttpRequest, Served
from replaykit.seam.http.cleaning import SEEN
from replaykit.seam.http.request import WHOLE_BODY
from replaykit.seam.http.response import LEFT, header_pairs
from replaykit.seam.scope import Scope
from replaykit.wire.routes import api_of

WHOLE_QUESTION = 64 * 1024 * 1024
"""The largest request to a model that is held in memory: matching needs the whole of it."""

_BOUNDARY = re.compile(r'multipart/.*boundary="?([^";]+)"?', re.IGNORECASE)
_PIECE = 1 << 20


class Body:
    """The body of one request: held if it is small, identified by its hash if not."""

    def __init__(self, limit: int = WHOLE_BODY, content_type: str = "") -> None:
        self._limit = limit
        self._content_type = content_type
        self._head: list[bytes] = []
        self._rest: aiohttp.StreamReader | None = None
        self._file: IO[bytes] | None = None

    async def read(self, content: aiohttp.StreamReader) -> Body:
        """Read up to the limit; the rest stays in the stream, to be forwarded as it comes."""
        size = 0
        while chunk := await content.readany():
            self._head.append(chunk)
            size += len(chunk)
            if size > self._limit:
                self._rest = content
                for part in self._head:
                    self._digest.update(part)
                break
        return self

    @cached_property
    def _digest(self) -> _Digest:
        return _Digest(self._content_type)

    @property
    def is_large(self) -> bool:
        return self._rest is not None or self._file is not None

    @property
    def whole(self) -> bytes:
        """The whole body, if it is not large."""
        return b"".join(self._head)

    @property
    def match_bytes(self) -> bytes:
        """The bytes that are recorded and matched: the body itself, or for a large one its hash and size as JSON."""
        if self.is_large:
            return self._digest.as_json()
        return self.whole

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield a large body in chunks, as they come."""
        for chunk in self._head:
            yield chunk
        if self._file is not None:
            self._file.seek(0)
            while chunk := self._file.read(_PIECE):
                yield chunk
        elif self._rest is not None:
            self._head.clear()
            async for chunk in self._rest.iter_any():
                self._digest.update(chunk)
                yield chunk

    async def spool(self) -> None:
        """Read the rest of a large body into a file, so that its hash is known before it is forwarded."""
        if self._rest is None:
            return
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the request)
        async for chunk in self._rest.iter_any():
            self._digest.update(chunk)
            self._file.write(chunk)
        self._rest = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Digest:
    """The hash and size of a body in pieces, equal to those that `seam.http.request` takes of a whole body. A multipart
    boundary is random, and counts as one fixed word."""

    def __init__(self, content_type: str) -> None:
        match = _BOUNDARY.search(content_type)
        self._boundary = match[1].encode() if match else b""
        self._tail = b""  # possibly the beginning of a boundary
        self._hash = hashlib.sha256()
        self._size = 0

    def update(self, chunk: bytes) -> None:
        if not self._boundary:
            self._add(chunk)
            return
        *before, rest = (self._tail + chunk).split(self._boundary)
        for part in before:
            self._add(part)
            self._add(b"boundary")
        tail_size = min(len(rest), len(self._boundary) - 1)
        self._add(rest[: len(rest) - tail_size])
        self._tail = rest[len(rest) - tail_size :]

    def as_json(self) -> bytes:
        whole = self._hash.copy()
        whole.update(self._tail)
        return orjson.dumps({"sha256": whole.hexdigest(), "bytes": self._size + len(self._tail)})

    def _add(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)


class ProxyHandler:
    """Handles the requests to the proxy."""

    def __init__(self, plan: ProgramPlan, process_log: ProcessLog, upstreams: UpstreamClient) -> None:
        self.plan = plan
        self.process_log = process_log
        self.upstreams = upstreams
        self.endpoints: Mapping[str, Endpoint] = {}
        """Endpoints that answer for an upstream in their own ways."""
        self.failure: Exception | None = None
        """The first internal error: not one of a program or an upstream."""

    @cached_property
    def pace(self) -> RecordedPace:
        """The pace of the responses on the tape."""
        return RecordedPace(self.process_log.tape_calls, self.plan.speed, self.process_log.add_deviation)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            target = route_request(request, self.plan, self.process_log)
            if request.headers.get("expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if target.upstream in self.endpoints:
                return await self.endpoints[target.upstream].answer(request, target.address)
            return await _ProxyExchange(self, request, target).respond()
        except ProxyRefusal as error:
            return refusal_response(error.status, error.message, target=request.raw_path)
        except (Divergence, Unreplayable) as error:
            kind = "replay_miss" if isinstance(error, Divergence) else "unreplayable"
            return refusal_response(MISS, str(error), kind=kind, target=request.raw_path)
        except web.RequestPayloadError as error:
            return refusal_response(
                BAD_REQUEST, f"the body of the request cannot be read: {error}", target=request.raw_path
            )
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 (the outermost edge: a bug must not look like an answer)
            self.failure = self.failure or error
            return drop_connection(request)


class _ProxyExchange:
    """One request and its response."""

    def __init__(self, proxy_handler: ProxyHandler, request: web.BaseRequest, target: ProxyTarget) -> None:
        self._proxy_handler = proxy_handler
        self._request = request
        self._target = target
        self._headers = header_pairs(request.raw_headers)
        # Recorded by the process that makes it, or not at all, since it stays within the program.
        own_servers = proxy_handler.process_log.own_servers
        self._is_recorded_elsewhere = SEEN in request.headers or (
            own_servers is not None and own_servers.takes(target.url)
        )
        kind = request.headers.get("content-type", "")
        if self._is_recorded_elsewhere:
            limit = 0  # a body that is not recorded is only forwarded
        elif api_of(request.method, target.api_url, kind) is None:
            limit = WHOLE_BODY
        else:
            limit = WHOLE_QUESTION
        self._body = Body(limit, kind)
        self._call: HttpCall | None = None

    async def respond(self) -> web.StreamResponse:
        await self._body.read(self._request.content)
        try:
            is_whole = self._proxy_handler.plan.mode is Mode.REPLAY or not self._body.is_large
            if is_whole and not self._is_recorded_elsewhere:
                await self._body.spool()
                self._begin()
            call = self._call
            if call is not None and call.wait_s:
                await asyncio.sleep(call.wait_s)
            if call is not None and call.served is not None:
                return await self._send_recorded(call, call.served)
            return await self._forward()
        finally:
            self._body.close()

    async def _send_recorded(self, call: HttpCall, served: Served) -> web.StreamResponse:
        """Send a recorded response at its pace; one that a fault changed has its own."""
        if call.recorded is None:
            return await send_recorded(self._request, served)
        with self._proxy_handler.pace.turn(call.recorded, served) as turn:
            return await send_recorded(self._request, turn.response, turn)

    def _begin(self) -> None:
        """Begin the call. For a large body that needs its hash, which is known once it has passed."""
        if self._call is not None or self._is_recorded_elsewhere:
            return
        headers = self._headers
        if self._body.is_large:
            headers = (("content-type", "application/json"), *headers)
        http_request = HttpRequest(
            method=self._request.method,
            url=self._target.url,
            headers=headers,
            body=self._body.match_bytes,
            api_url=self._target.api_url,
        )
        self._call = HttpCall(Scope(self._proxy_handler.process_log.session, path=""), http_request)

    async def _forward(self) -> web.StreamResponse:
        """Ask the upstream, and pass its response on as it comes."""
        upstream, address = self._target.upstream, self._target.address
        if not address:
            self._record_failure(ConnectionError(f"it is not known where {upstream} is"))
            raise ProxyRefusal(NOT_HERE, f"the address of {upstream!r} is unknown\nName it: --upstream {upstream}=URL")
        try:
            async with await self._request_upstream(URL(address, encoded=True)) as answer:
                self._begin()
                if self._call is not None and self._call.is_altered:
                    return await self._send_altered(self._call, answer)
                return await send_live(self._request, answer, self._call, self._proxy_headers(answer))
        except asyncio.CancelledError:
            self._record_failure(BrokenPipeError(LEFT))
            raise
        except (aiohttp.ClientError, OSError) as error:
            self._record_failure(ConnectionError(f"{address.partition('?')[0]}: {str(error) or type(error).__name__}"))
            return drop_connection(self._request)

    def _proxy_headers(self, answer: UpstreamResponse) -> dict[str, str]:
        """Return the headers that the proxy adds: the upstream's name, and a redirect's address at the proxy."""
        upstream, location = self._target.upstream, answer.header(b"location")
        if not upstream:
            return {}
        if location is None:
            return {UPSTREAM: upstream}
        redirect = proxied_location(
            location, self._target.address, upstream, self._proxy_handler.plan.upstreams[upstream]
        )
        return {UPSTREAM: upstream, "location": redirect}

    async def _send_altered(self, call: HttpCall, answer: UpstreamResponse) -> web.StreamResponse:
        """Send the upstream's whole response as a fault changes it."""
        body = await answer.content.read()
        call.answered(answer.status, header_pairs(answer.raw_headers), reason=answer.reason)
        return await send_recorded(self._request, call.altered(body))

    def _record_failure(self, error: Exception) -> None:
        self._begin()
        if self._call is not None:
            self._call.broke(error)

    async def _request_upstream(self, address: URL) -> UpstreamResponse:
        headers = end_to_end_headers(self._headers)
        if not self._is_recorded_elsewhere:
            headers = [pair for pair in headers if pair[0].lower() != "accept-encoding"]
            headers.append(("accept-encoding", "identity"))
        body = self._body.chunks() if self._body.is_large else self._body.whole
        return await self._proxy_handler.upstreams.send(self._request.method, address, headers, body)
