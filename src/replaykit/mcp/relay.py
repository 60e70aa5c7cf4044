"""HTTP exchanges with a real MCP server: passed on as they are, and what they say written down."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urljoin

from replaykit.mcp.calls import gone, refused_by_http
from replaykit.mcp.items import SERVER
from replaykit.mcp.live import Open
from replaykit.mcp.messages import Message, dump, is_response, is_unchanged, messages_in, parse
from replaykit.mcp.outlets import EVENTS, Reply, chunks_of, event
from replaykit.mcp.streams import whole_events, with_data
from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.seam.http.cleaning import HIDDEN, clean_url
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.scope import Outcome
from replaykit.wire.frames import Frame, SseSplitter

if TYPE_CHECKING:
    from replaykit.mcp.http import Talk

Upstream: TypeAlias = Callable[[HttpRequest], Awaitable[Reply]]
"""Does a request for real; an OSError when there is no response, or when its chunks break off."""

_EVENT_ID = re.compile(rb"(?:^|[\r\n])id:")
_KEPT_CHARS = 4000
_KEPT_HEADERS = ("content-type", "mcp-session-id")
_INFLATE = {"gzip": 47, "deflate": 15}


class Relay:
    """Between clients and one server."""

    def __init__(
        self,
        upstream: Upstream,
        lead: Callable[[str], str],
        register: Callable[[str, Talk], None],
        *,
        as_sent: bool = True,
    ) -> None:
        self.upstream = upstream
        self._as_sent = as_sent
        self.busy: set[Talk] = set()
        """Sessions with requests under way."""
        self._lead = lead
        self._register = register

    async def post(
        self, request: HttpRequest, talk: Talk, requests: list[Message], also: Sequence[Message] = ()
    ) -> Reply:
        """Pass messages on, and write down what is answered to the requests among them. What was answered here to
        others of the same batch is given along."""
        live = talk.conversation.live
        calls = [call for message in requests if (call := live.find(message)) is not None]
        if not calls:
            return await self.upstream(request)
        self.busy.add(talk)
        try:
            reply = await self.upstream(request)
            if (key := reply.header("mcp-session-id")) and any(m["method"] == "initialize" for m in requests):
                self._register(key, talk)
            return await self._read(request, reply, talk, calls, also)
        except OSError:
            self._left(talk, calls, gone())
            raise
        except BaseException:
            self._left(talk, calls)
            raise

    async def get(self, request: HttpRequest, talk: Talk, *, is_new: bool) -> Reply:
        """Pass on a stream of what the server says on its own."""
        reply = await self.upstream(request)
        if reply.status != 200 or not reply.header("content-type").startswith(EVENTS):
            return reply
        chunks = self._aside(reply, talk) if is_new else self._older(request, reply, talk)
        return Reply(status=reply.status, headers=_without_length(reply), chunks=chunks)

    async def _read(
        self, request: HttpRequest, reply: Reply, talk: Talk, calls: list[Open], also: Sequence[Message]
    ) -> Reply:
        if _wants_credentials(reply):  # it never reached the server, and no replay will ask for them
            for call in calls:
                talk.conversation.live.forget(call)
            self.busy.discard(talk)
            return reply
        if reply.status == 202:  # the answer comes on the stream
            self.busy.discard(talk)
            return reply
        for call in calls:
            call.wire = _wire(request, reply)
        if reply.status == 200 and reply.header("content-type").startswith(EVENTS):
            headers = reply.headers if self._as_sent else _without_length(reply)
            return Reply(status=200, headers=headers, chunks=self._events(reply, talk, calls, also))
        chunks = [chunk async for chunk in reply.chunks]
        other = self._answered(reply, b"".join(map(_decoder(reply), chunks)), talk, calls, also)
        if other is not None:
            return Reply(status=reply.status, headers=_without_length(reply), chunks=chunks_of(other))
        return Reply(status=reply.status, headers=reply.headers, chunks=chunks_of(*chunks))

    def _answered(
        self, reply: Reply, body: bytes, talk: Talk, calls: list[Open], also: Sequence[Message]
    ) -> bytes | None:
        """A whole body: JSON-RPC, or else an error of HTTP; gives another one where that is to be told."""
        try:
            messages = messages_in(parse(body))
        except ValueError:
            messages = []
        if len(calls) == 1 and len(messages) == 1 and messages[0].get("id") is None and "error" in messages[0]:
            messages = [{**messages[0], "id": calls[0].request["id"]}]  # refused before its id was read
        if not messages or not any(map(is_response, messages)):
            text = body[:_KEPT_CHARS].decode("utf-8", "replace")
            refused = refused_by_http(reply.status, reply.header("content-type"), text)
            for call in calls:
                talk.conversation.live.settle(call, Outcome(error=refused))
        told = [*also, *map(talk.conversation.from_server, messages)]
        self._left(talk, calls, gone())
        if reply.status >= 400 or (not also and is_unchanged(told, messages)):
            return None
        return dump(told if also or body.lstrip().startswith(b"[") else told[0])

    async def _events(
        self, reply: Reply, talk: Talk, calls: list[Open], also: Sequence[Message]
    ) -> AsyncGenerator[bytes, None]:
        """The events of an answer; a stream whose events have ids may go on elsewhere."""
        splitter, decode = SseSplitter(), _decoder(reply)
        inside = calls[0] if len(calls) == 1 else None
        resumable = False
        error: ErrorInfo | None = gone()
        try:
            for message in also:
                yield event(dump(message))
            async for chunk in reply.chunks if self._as_sent else whole_events(reply.chunks, decode):
                text = decode(chunk) if self._as_sent else chunk
                resumable = resumable or _EVENT_ID.search(text) is not None
                told = [_said(frame, talk, inside) for frame in splitter.feed(text)]
                yield chunk if self._as_sent else with_data(chunk, told)
        except OSError:
            raise
        except BaseException:
            error = None  # the client has gone
            raise
        finally:
            if resumable:
                self.busy.discard(talk)
            else:
                self._left(talk, calls, error)
            await reply.chunks.aclose()

    async def _aside(self, reply: Reply, talk: Talk) -> AsyncGenerator[bytes, None]:
        splitter, decode = SseSplitter(), _decoder(reply)
        try:
            async for chunk in reply.chunks if self._as_sent else whole_events(reply.chunks, decode):
                text = decode(chunk) if self._as_sent else chunk
                told = [_said(frame, talk, aside=True) for frame in splitter.feed(text)]
                yield chunk if self._as_sent else with_data(chunk, told)
        finally:
            await reply.chunks.aclose()

    async def _older(self, request: HttpRequest, reply: Reply, talk: Talk) -> AsyncGenerator[bytes, None]:
        """The stream of the older transport: its first event says where to post, and is led here."""
        splitter, decode = SseSplitter(), _decoder(reply)
        error: ErrorInfo | None = gone()
        try:
            async for chunk in reply.chunks:
                frames = splitter.feed(decode(chunk))
                for frame in frames:
                    yield event(self._older_event(frame, request, talk), frame.name or "message")
                if not frames:
                    yield b":\n\n"  # a sign of life
        except OSError:
            raise
        except BaseException:
            error = None
            raise
        finally:
            talk.conversation.live.end(error)
            await reply.chunks.aclose()

    def _older_event(self, frame: Frame, request: HttpRequest, talk: Talk) -> bytes:
        if frame.name != "endpoint":
            return _said(frame, talk) or frame.data
        address = urljoin(request.url, frame.data.decode("utf-8", "replace"))
        talk.is_old = True
        self._register(address, talk)
        return self._lead(address).encode()

    def _left(self, talk: Talk, calls: list[Open], error: ErrorInfo | None = None) -> None:
        talk.conversation.live.end(error, only=calls)
        self.busy.discard(talk)


def _said(frame: Frame, talk: Talk, inside: Open | None = None, *, aside: bool = False) -> bytes | None:
    """Take what a server says; gives what the client is told instead, where a fault changes it."""
    if not frame.data.strip():
        return None  # an event that only carries an id
    try:
        messages = messages_in(parse(frame.data))
    except ValueError:
        messages = []
    if not messages:
        talk.conversation.garbage(SERVER, frame.data)
    told = [talk.conversation.from_server(message, inside=inside, aside=aside) for message in messages]
    if is_unchanged(told, messages):
        return None
    return dump(told if frame.data.lstrip().startswith(b"[") else told[0])


def _wants_credentials(reply: Reply) -> bool:
    return reply.status == 401 or (reply.status == 403 and bool(reply.header("www-authenticate")))


def _wire(request: HttpRequest, reply: Reply) -> WireInfo:
    named = {name.lower(): value for name, value in reply.headers}
    kept = [(name, HIDDEN if "session" in name else named[name]) for name in _KEPT_HEADERS if name in named]
    return WireInfo(method=request.method, url=clean_url(request.url), status=reply.status, headers=tuple(kept))


def _without_length(reply: Reply) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in reply.headers if pair[0].lower() not in ("content-length", "content-encoding"))


def _decoder(reply: Reply) -> Callable[[bytes], bytes]:
    """Bytes as they came → what they say; as they are where the encoding is not known here."""
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
