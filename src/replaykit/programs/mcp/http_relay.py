"""HTTP exchanges with a real MCP server: passed on unchanged, and recorded."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin

from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.programs.mcp.http_replies import EVENTS, McpReply, chunks_of, event, whole_events, with_data
from replaykit.programs.mcp.messages import (
    SERVER,
    Message,
    dump,
    http_error,
    is_response,
    is_unchanged,
    messages_in,
    server_gone_error,
)
from replaykit.programs.mcp.pending_requests import PendingRequest
from replaykit.seam.http.cleaning import HIDDEN, clean_url
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.scope import Outcome
from replaykit.wire.frames import Frame, SseSplitter

if TYPE_CHECKING:
    from replaykit.programs.mcp.http_endpoint import McpHttpSession

SendToServer: TypeAlias = Callable[[HttpRequest], Awaitable[McpReply]]
"""Sends a request for real; raises OSError if there is no response, or its chunks break off."""

_EVENT_ID = re.compile(rb"(?:^|[\r\n])id:")
_KEPT_CHARS = 4000
_KEPT_HEADERS = ("content-type", "mcp-session-id")
_INFLATE = {"gzip": 47, "deflate": 15}


class McpHttpRelay:
    """Relays between clients and one server."""

    def __init__(
        self,
        upstream: SendToServer,
        map_address: Callable[[str], str],
        register: Callable[[str, McpHttpSession], None],
        *,
        as_sent: bool,
    ) -> None:
        self.upstream = upstream
        self._as_sent = as_sent
        self.busy: set[McpHttpSession] = set()
        """Sessions with pending requests."""
        self._map_address = map_address
        self._register = register

    async def post(
        self, request: HttpRequest, mcp_session: McpHttpSession, requests: list[Message], also: Sequence[Message] = ()
    ) -> McpReply:
        """Forward messages, and record the answers to the requests among them. `also` are answers to others of the same
        batch."""
        live = mcp_session.conversation.live
        calls = list(filter(None, map(live.find, requests)))
        if not calls:
            return await self.upstream(request)
        self.busy.add(mcp_session)
        try:
            reply = await self.upstream(request)
            is_handshake = any(message["method"] == "initialize" for message in requests)
            if (key := reply.header("mcp-session-id")) and is_handshake:
                self._register(key, mcp_session)
            return await self._read(request, reply, mcp_session, calls, also)
        except OSError:
            self._end_requests(mcp_session, calls, server_gone_error())
            raise
        except BaseException:
            self._end_requests(mcp_session, calls)
            raise

    async def get(self, request: HttpRequest, mcp_session: McpHttpSession, *, is_new: bool) -> McpReply:
        """Pass on a stream with the server's own messages."""
        reply = await self.upstream(request)
        if reply.status != 200 or not reply.header("content-type").startswith(EVENTS):
            return reply
        if is_new:
            chunks = self._side_stream(reply, mcp_session)
        else:
            chunks = self._sse_transport(request, reply, mcp_session)
        return McpReply(status=reply.status, headers=_without_length(reply), chunks=chunks)

    async def _read(
        self,
        request: HttpRequest,
        reply: McpReply,
        mcp_session: McpHttpSession,
        calls: list[PendingRequest],
        also: Sequence[Message],
    ) -> McpReply:
        if _wants_credentials(reply):  # it never reached the server, and a replay needs no credentials
            for call in calls:
                mcp_session.conversation.live.forget(call)
            self.busy.discard(mcp_session)
            return reply
        if reply.status == 202:  # the answer comes on the stream
            self.busy.discard(mcp_session)
            return reply
        for call in calls:
            call.wire = _wire(request, reply)
        if reply.status == 200 and reply.header("content-type").startswith(EVENTS):
            headers = reply.headers if self._as_sent else _without_length(reply)
            return McpReply(status=200, headers=headers, chunks=self._events(reply, mcp_session, calls, also))
        chunks = [chunk async for chunk in reply.chunks]
        other = self._answered(reply, b"".join(map(_decoder(reply), chunks)), mcp_session, calls, also)
        if other is not None:
            return McpReply(status=reply.status, headers=_without_length(reply), chunks=chunks_of(other))
        return McpReply(status=reply.status, headers=reply.headers, chunks=chunks_of(*chunks))

    def _answered(
        self,
        reply: McpReply,
        body: bytes,
        mcp_session: McpHttpSession,
        calls: list[PendingRequest],
        also: Sequence[Message],
    ) -> bytes | None:
        """Record a whole body: JSON-RPC or an HTTP error. Return another body if a fault or a batch changes it."""
        messages = messages_in(body)
        if len(calls) == 1 and len(messages) == 1 and messages[0].get("id") is None and "error" in messages[0]:
            messages = [{**messages[0], "id": calls[0].request["id"]}]  # refused before its id was read
        if not any(map(is_response, messages)):
            text = body[:_KEPT_CHARS].decode("utf-8", "replace")
            refused = http_error(reply.status, reply.header("content-type"), text)
            for call in calls:
                mcp_session.conversation.live.settle(call, Outcome(error=refused))
        passed_messages = [*also, *map(mcp_session.conversation.from_server, messages)]
        self._end_requests(mcp_session, calls, server_gone_error())
        if reply.status >= 400 or (not also and is_unchanged(passed_messages, messages)):
            return None
        return dump(passed_messages if also or body.lstrip().startswith(b"[") else passed_messages[0])

    async def _events(
        self, reply: McpReply, mcp_session: McpHttpSession, calls: list[PendingRequest], also: Sequence[Message]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of an answer; a stream whose events have ids may be resumed elsewhere."""
        inside = calls[0] if len(calls) == 1 else None
        resumable = False
        error: ErrorInfo | None = server_gone_error()
        try:
            for message in also:
                yield event(dump(message))
            async with aclosing(self._recorded_chunks(reply, mcp_session, inside=inside)) as chunks:
                async for text, chunk in chunks:
                    resumable = resumable or _EVENT_ID.search(text) is not None
                    yield chunk
        except OSError:
            raise
        except BaseException:
            error = None  # the client is gone
            raise
        finally:
            if resumable:
                self.busy.discard(mcp_session)
            else:
                self._end_requests(mcp_session, calls, error)
            await reply.chunks.aclose()

    async def _side_stream(self, reply: McpReply, mcp_session: McpHttpSession) -> AsyncGenerator[bytes, None]:
        async with aclosing(reply.chunks), aclosing(self._recorded_chunks(reply, mcp_session, aside=True)) as chunks:
            async for _, chunk in chunks:
                yield chunk

    async def _recorded_chunks(
        self, reply: McpReply, mcp_session: McpHttpSession, *, inside: PendingRequest | None = None, aside: bool = False
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Record a stream; yield the text of each chunk, and the bytes to send for it."""
        splitter, decode = SseSplitter(), _decoder(reply)
        chunks = reply.chunks if self._as_sent else whole_events(reply.chunks, decode)
        async for chunk in chunks:
            text = decode(chunk) if self._as_sent else chunk
            replacements = [_record_frame(frame, mcp_session, inside, aside=aside) for frame in splitter.feed(text)]
            yield text, chunk if self._as_sent else with_data(chunk, replacements)

    async def _sse_transport(
        self, request: HttpRequest, reply: McpReply, mcp_session: McpHttpSession
    ) -> AsyncGenerator[bytes, None]:
        """Pass on the stream of the older transport, with the address in its first event mapped."""
        splitter, decode = SseSplitter(), _decoder(reply)
        error: ErrorInfo | None = server_gone_error()
        try:
            async for chunk in reply.chunks:
                frames = splitter.feed(decode(chunk))
                for frame in frames:
                    yield event(self._sse_transport_event(frame, request, mcp_session), frame.name or "message")
                if not frames:
                    yield b":\n\n"  # a sign of life
        except OSError:
            raise
        except BaseException:
            error = None
            raise
        finally:
            mcp_session.conversation.live.end(error)
            await reply.chunks.aclose()

    def _sse_transport_event(self, frame: Frame, request: HttpRequest, mcp_session: McpHttpSession) -> bytes:
        if frame.name != "endpoint":
            return _record_frame(frame, mcp_session) or frame.data
        address = urljoin(request.url, frame.data.decode("utf-8", "replace"))
        mcp_session.is_old = True
        self._register(address, mcp_session)
        return self._map_address(address).encode()

    def _end_requests(
        self, mcp_session: McpHttpSession, calls: list[PendingRequest], error: ErrorInfo | None = None
    ) -> None:
        mcp_session.conversation.live.end(error, only=calls)
        self.busy.discard(mcp_session)


def _record_frame(
    frame: Frame, mcp_session: McpHttpSession, inside: PendingRequest | None = None, *, aside: bool = False
) -> bytes | None:
    """Record an event of the server; return its new data if a fault changes it, else None."""
    if not frame.data.strip():
        return None  # an event that only carries an id
    messages = messages_in(frame.data)
    if not messages:
        mcp_session.conversation.garbage(SERVER, frame.data)
    passed_messages = [
        mcp_session.conversation.from_server(message, inside=inside, aside=aside) for message in messages
    ]
    if is_unchanged(passed_messages, messages):
        return None
    return dump(passed_messages if frame.data.lstrip().startswith(b"[") else passed_messages[0])


def _wants_credentials(reply: McpReply) -> bool:
    return reply.status == 401 or (reply.status == 403 and bool(reply.header("www-authenticate")))


def _wire(request: HttpRequest, reply: McpReply) -> WireInfo:
    named = {name.lower(): value for name, value in reply.headers}
    if "mcp-session-id" in named:
        named["mcp-session-id"] = HIDDEN
    headers = [(name, named[name]) for name in _KEPT_HEADERS if name in named]
    return WireInfo(method=request.method, url=clean_url(request.url), status=reply.status, headers=tuple(headers))


def _without_length(reply: McpReply) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in reply.headers if pair[0].lower() not in ("content-length", "content-encoding"))


def _decoder(reply: McpReply) -> Callable[[bytes], bytes]:
    """Return a function that decompresses chunks; the identity for an unknown encoding."""
    bits = _INFLATE.get(reply.header("content-encoding").lower())
    if bits is None:
        return lambda data: data
    inflate = zlib.decompressobj(wbits=bits)

    def decode(data: bytes) -> bytes:
        try:
            return inflate.decompress(data)
        except zlib.error:
            return b""

    return decode
