"""MCP over HTTP: one endpoint, as a function from a request to a reply.

Streamable HTTP: POST carries messages, and is answered with JSON or a stream of events; GET opens a stream for the
server's own messages; DELETE ends a session. In the older transport, a stream names an address, and everything goes to
that stream, including the answers to messages posted there.

Session ids are never stored: a recording passes the server's own on, and a replay gives each handshake a new one.
Resuming a stream is passed on; a replay sends complete answers, so there is nothing to resume.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from urllib.parse import urlsplit

import msgspec

from replaykit.programs.mcp.conversation import McpConversation
from replaykit.programs.mcp.http_relay import McpHttpRelay, SendToServer
from replaykit.programs.mcp.http_replies import (
    EVENTS,
    McpReply,
    MessageStream,
    PostReply,
    empty_reply,
    event,
    json_reply,
)
from replaykit.programs.mcp.messages import CLIENT, PARSE_ERROR, Message, dump, failure, is_request, messages_in
from replaykit.programs.mcp.playback import RecordedServer
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.scope import RunSession

SESSION_ID, VERSION = "mcp-session-id", "mcp-protocol-version"


def speaks_mcp(request: HttpRequest) -> bool:
    """True if a request is for an MCP endpoint, judging by the headers that the protocol requires."""
    if request.header(SESSION_ID) or request.header(VERSION):
        return True
    accepts = request.header("accept")
    return request.method == "POST" and EVENTS in accepts and b'"jsonrpc"' in request.body


class McpHttpSession:
    """One session of a client with the server."""

    def __init__(self, shim: McpEndpoint) -> None:
        self.stream = MessageStream()
        self.is_old = False
        """True for the older transport, in which everything goes to the stream."""
        self.conversation = McpConversation(
            shim.server,
            shim.session,
            self.stream,
            has_server=shim.has_server,
            later=lambda seconds, do: asyncio.get_running_loop().call_later(seconds, do),
            recorded_server=shim.recorded_server,
        )


class McpEndpoint:
    """An MCP server over HTTP, recorded or replayed.

    `upstream` sends requests for real; without it, `recorded_server` answers. `map_address` maps addresses of the
    server to those for clients; by default only the path is kept. `as_sent` is False if faults may change the server's
    messages: its streams are then passed on event by event.
    """

    def __init__(
        self,
        server: str,
        session: RunSession,
        *,
        upstream: SendToServer | None = None,
        recorded_server: RecordedServer | None = None,
        map_address: Callable[[str], str] | None = None,
        as_sent: bool = True,
    ) -> None:
        self.server = server
        self.session = session
        self.has_server = upstream is not None
        self.recorded_server = recorded_server or RecordedServer(server)
        self._map_address = map_address or path_below
        self._relay = None
        if upstream is not None:
            self._relay = McpHttpRelay(upstream, self._map_address, self._register, as_sent=as_sent)
        self._sessions: dict[str, McpHttpSession] = {}  # by session id, or by the address of the older transport
        self._ended: set[str] = set()

    async def answer(self, request: HttpRequest) -> McpReply:
        """Return the reply to a request whose URL is the server's own."""
        if request.method == "POST":
            return await self._post(request)
        if request.method == "GET" and EVENTS in request.header("accept"):
            return await self._get(request)
        if request.method == "DELETE":
            return await self._delete(request)
        if self._relay:
            return await self._relay.upstream(request)
        return empty_reply(405)

    def knows(self, request: HttpRequest) -> bool:
        """True for an address of the older transport that a stream has announced."""
        return request.url in self._sessions

    def end(self) -> None:
        """End all sessions; pending requests stay unanswered."""
        busy = self._relay.busy if self._relay else ()
        for mcp_session in [*self._sessions.values(), *busy]:
            mcp_session.conversation.end()

    async def _post(self, request: HttpRequest) -> McpReply:
        mcp_session = self._session_of(request)
        if mcp_session is None:
            return empty_reply(404)
        messages = messages_in(request.body)
        if not messages:
            mcp_session.conversation.garbage(CLIENT, request.body)
            if self._relay is not None:
                return await self._relay.upstream(request)
            return json_reply(failure(None, PARSE_ERROR, "not a JSON-RPC message"), status=400)
        requests = list(filter(is_request, messages))
        posting = PostReply(requests, is_batch=request.body.lstrip().startswith(b"["))
        sink = mcp_session.stream if mcp_session.is_old else posting
        left = [message for message in messages if mcp_session.conversation.from_client(message, sink)]
        if left and self._relay is not None:
            if len(left) < len(messages):  # a fault has answered the others
                request = msgspec.structs.replace(request, body=dump(left))
            if wait_s := mcp_session.conversation.pause_s(left):
                await asyncio.sleep(wait_s)
            return await self._relay.post(request, mcp_session, list(filter(is_request, left)), posting.take_messages())
        if mcp_session.is_old or not requests:
            return empty_reply(202)

        def give_up() -> None:
            for request_id in list(posting.waiting.values()):
                mcp_session.conversation.cancel(request_id)

        return posting.reply(self._session_header(requests, mcp_session), give_up)

    async def _get(self, request: HttpRequest) -> McpReply:
        mcp_session = self._session_of(request)
        if mcp_session is None:
            return empty_reply(404)
        is_new = bool(request.header(SESSION_ID) or request.header(VERSION))
        if self._relay is not None:
            return await self._relay.get(request, mcp_session, is_new=is_new)
        headers = (("content-type", EVENTS), ("cache-control", "no-cache"))
        mcp_session.conversation.begin()
        chunks = mcp_session.stream.events() if is_new else self._older_stream(request, mcp_session)
        return McpReply(status=200, headers=headers, chunks=chunks)

    async def _older_stream(self, request: HttpRequest, mcp_session: McpHttpSession) -> AsyncGenerator[bytes, None]:
        """Yield the address to post to, then all messages of the server."""
        separator = "&" if "?" in request.url else "?"
        address = f"{request.url}{separator}session={secrets.token_hex(16)}"
        mcp_session.is_old = True
        self._register(address, mcp_session)
        yield event(self._map_address(address).encode(), "endpoint")
        async for chunk in mcp_session.stream.events(lambda: self._forget(address)):
            yield chunk

    async def _delete(self, request: HttpRequest) -> McpReply:
        reply = await self._relay.upstream(request) if self._relay else empty_reply(200)
        if reply.status < 300:
            self._forget(request.header(SESSION_ID))
        return reply

    def _session_of(self, request: HttpRequest) -> McpHttpSession | None:
        """Return the session of a request; None if it has ended. An unknown id is of a session that began elsewhere."""
        key = request.header(SESSION_ID)
        if not key:
            return self._sessions.get(request.url) or McpHttpSession(self)
        if key in self._ended and self._relay is None:
            return None
        if key not in self._sessions:
            self._sessions[key] = McpHttpSession(self)
        return self._sessions[key]

    def _register(self, key: str, mcp_session: McpHttpSession) -> None:
        self._sessions[key] = mcp_session

    def _forget(self, key: str) -> None:
        mcp_session = self._sessions.pop(key, None)
        if mcp_session is not None:
            self._ended.add(key)
            mcp_session.conversation.end()

    def _session_header(self, requests: list[Message], mcp_session: McpHttpSession) -> tuple[tuple[str, str], ...]:
        """Return a new session id for a handshake, unless the recorded server used none."""
        if not any(request["method"] == "initialize" for request in requests) or self._is_stateless():
            return ()
        key = secrets.token_hex(16)
        self._register(key, mcp_session)
        return ((SESSION_ID, key),)

    def _is_stateless(self) -> bool:
        """Return True if the recorded server gave no session ids: then its clients do not send any."""
        wires = [call.wire for call in self.recorded_server.handshakes() if call.wire is not None]
        return bool(wires) and not any(dict(wire.headers).get(SESSION_ID) for wire in wires)


def path_below(url: str, place: str = "") -> str:
    """Return the path and query of a URL, below a place."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{place}{parts.path}{query}"
