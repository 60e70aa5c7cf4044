"""MCP over HTTP: one endpoint, as a function from a request to a reply.

Streamable HTTP: POST brings messages, and is answered with JSON or a stream of events; GET opens a stream for what the
server says on its own; DELETE ends a session. The older transport (a stream that names an address, and answers what is
posted there) is a conversation whose only outlet is the stream.

Session ids are never written down: in a recording the server's own pass through, in a replay each handshake gets a new
one. Where a client resumes a stream, that is passed on; a replay answers whole, so there is nothing to resume.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from urllib.parse import urlsplit

import msgspec

from replaykit.mcp.backstage import Backstage
from replaykit.mcp.conversation import Conversation
from replaykit.mcp.items import CLIENT
from replaykit.mcp.messages import PARSE_ERROR, Message, dump, failure, is_request, messages_in, parse
from replaykit.mcp.outlets import EVENTS, Posting, Reply, Stream, empty_reply, event, json_reply
from replaykit.mcp.relay import Relay, Upstream
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.scope import Session

SESSION_ID, VERSION = "mcp-session-id", "mcp-protocol-version"


def speaks_mcp(request: HttpRequest) -> bool:
    """True when a request looks like one to an MCP endpoint, by the headers that the protocol demands."""
    if request.header(SESSION_ID) or request.header(VERSION):
        return True
    accepts = request.header("accept")
    return request.method == "POST" and EVENTS in accepts and b'"jsonrpc"' in request.body


class Talk:
    """One session of a client with the server."""

    def __init__(self, shim: McpEndpoint) -> None:
        self.stream = Stream()
        self.is_old = False
        """True for the older transport: the stream is its only outlet."""
        self.conversation = Conversation(
            shim.server,
            shim.session,
            self.stream,
            has_server=shim.has_server,
            later=lambda seconds, do: asyncio.get_running_loop().call_later(seconds, do),
            backstage=shim.backstage,
        )


class McpEndpoint:
    """An MCP server that speaks HTTP, recorded or replayed.

    `upstream` does a request for real; without it nothing is, and `backstage` has what was recorded. `lead` gives the
    address by which a client reaches one of the server's; without it the paths are the same. `as_sent` is False where
    faults may change what the server says: then its streams are passed on event by event.
    """

    def __init__(
        self,
        server: str,
        session: Session,
        *,
        upstream: Upstream | None = None,
        backstage: Backstage | None = None,
        lead: Callable[[str], str] | None = None,
        as_sent: bool = True,
    ) -> None:
        self.server = server
        self.session = session
        self.has_server = upstream is not None
        self.backstage = backstage or Backstage(server)
        self._relay = None
        if upstream is not None:
            self._relay = Relay(upstream, lead or _same_path, self._register, as_sent=as_sent)
        self._lead = lead or _same_path
        self._talks: dict[str, Talk] = {}  # by session id, or by the address of the older transport
        self._ended: set[str] = set()

    async def answer(self, request: HttpRequest) -> Reply:
        """The reply to a request whose URL is the server's own."""
        if request.method == "POST":
            return await self._post(request)
        if request.method == "GET" and EVENTS in request.header("accept"):
            return await self._get(request)
        if request.method == "DELETE":
            return await self._delete(request)
        return await self._relay.upstream(request) if self._relay else empty_reply(405)

    def knows(self, request: HttpRequest) -> bool:
        """True for an address of the older transport that a stream has named."""
        return request.url in self._talks

    def end(self) -> None:
        """Nothing more comes: what is under way stays without an answer."""
        talks = [*self._talks.values(), *(self._relay.busy if self._relay else ())]
        for talk in talks:
            talk.conversation.end()

    async def _post(self, request: HttpRequest) -> Reply:
        talk = self._talk_of(request)
        if talk is None:
            return empty_reply(404)
        messages = _messages(request.body)
        if not messages:
            talk.conversation.garbage(CLIENT, request.body)
            if self._relay is not None:
                return await self._relay.upstream(request)
            return json_reply(failure(None, PARSE_ERROR, "not a JSON-RPC message"), status=400)
        requests = [message for message in messages if is_request(message)]
        posting = Posting(requests, is_batch=request.body.lstrip().startswith(b"["))
        outlet = talk.stream if talk.is_old else posting
        left = [message for message in messages if talk.conversation.from_client(message, outlet)]
        if left and self._relay is not None:
            if len(left) < len(messages):  # a fault has answered the others
                request = msgspec.structs.replace(request, body=dump(left))
            if wait_s := talk.conversation.pause_s(left):
                await asyncio.sleep(wait_s)
            return await self._relay.post(request, talk, list(filter(is_request, left)), posting.said())
        if talk.is_old or not requests:
            return empty_reply(202)
        return posting.reply(self._session_header(requests, talk), lambda: _give_up(talk, posting))

    async def _get(self, request: HttpRequest) -> Reply:
        talk = self._talk_of(request)
        if talk is None:
            return empty_reply(404)
        is_new = bool(request.header(SESSION_ID) or request.header(VERSION))
        if self._relay is not None:
            return await self._relay.get(request, talk, is_new=is_new)
        headers = (("content-type", EVENTS), ("cache-control", "no-cache"))
        talk.conversation.begin()
        chunks = talk.stream.events() if is_new else self._older_stream(request, talk)
        return Reply(status=200, headers=headers, chunks=chunks)

    async def _older_stream(self, request: HttpRequest, talk: Talk) -> AsyncGenerator[bytes, None]:
        """First where to post, then everything that the server says."""
        address = f"{request.url}{'&' if '?' in request.url else '?'}session={secrets.token_hex(16)}"
        talk.is_old = True
        self._register(address, talk)
        yield event(self._lead(address).encode(), "endpoint")
        async for chunk in talk.stream.events(lambda: self._forget(address)):
            yield chunk

    async def _delete(self, request: HttpRequest) -> Reply:
        reply = await self._relay.upstream(request) if self._relay else empty_reply(200)
        if reply.status < 300:
            self._forget(request.header(SESSION_ID))
        return reply

    def _talk_of(self, request: HttpRequest) -> Talk | None:
        """The session that a request is part of; None when it has ended. Whose id is not known here began elsewhere."""
        key = request.header(SESSION_ID)
        if not key:
            return self._talks.get(request.url) or Talk(self)
        if key in self._ended and self._relay is None:
            return None
        if key not in self._talks:
            self._talks[key] = Talk(self)
        return self._talks[key]

    def _register(self, key: str, talk: Talk) -> None:
        self._talks[key] = talk

    def _forget(self, key: str) -> None:
        talk = self._talks.pop(key, None)
        if talk is not None:
            self._ended.add(key)
            talk.conversation.end()

    def _session_header(self, requests: list[Message], talk: Talk) -> tuple[tuple[str, str], ...]:
        """A new session id for a handshake, unless the recorded server gave none."""
        if not any(request["method"] == "initialize" for request in requests) or self._is_stateless():
            return ()
        key = secrets.token_hex(16)
        self._register(key, talk)
        return ((SESSION_ID, key),)

    def _is_stateless(self) -> bool:
        wires = [call.wire for call in self.backstage.handshakes() if call.wire is not None]
        return bool(wires) and not any(dict(wire.headers).get(SESSION_ID) for wire in wires)


def _messages(body: bytes) -> list[Message]:
    try:
        return messages_in(parse(body))
    except ValueError:
        return []


def _give_up(talk: Talk, posting: Posting) -> None:
    for request_id in list(posting.waiting.values()):
        talk.conversation.cancel(request_id)


def _same_path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
