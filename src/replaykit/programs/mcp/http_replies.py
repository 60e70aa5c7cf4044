"""Replies over HTTP, and the messages in them.

Streams whose data may change are cut into whole events; everything else is passed on byte for byte.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

from msgspec import Struct

from replaykit.model.values import Json
from replaykit.programs.mcp.messages import Message, dump, exit_code_of, http_error_of, id_key, is_response, response_of
from replaykit.seam.http.cleaning import Headers
from replaykit.seam.scope import CallAnswer

EVENTS = "text/event-stream"
JSON = "application/json"


class McpReply(Struct, frozen=True, kw_only=True):
    """A response. Close its chunks (`aclose`) unless you read them to the end."""

    status: int
    """0 for no response: the connection breaks off."""
    headers: Headers = ()
    chunks: AsyncGenerator[bytes, None]
    """May end in an OSError: the connection breaks off there."""

    def header(self, name: str) -> str:
        """Return the first value of a header, given its name in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), "")


async def chunks_of(*chunks: bytes) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk


def json_reply(value: Json, headers: Headers = (), *, status: int = 200) -> McpReply:
    return McpReply(status=status, headers=(("content-type", JSON), *headers), chunks=chunks_of(dump(value)))


def empty_reply(status: int, headers: Headers = ()) -> McpReply:
    return McpReply(status=status, headers=headers, chunks=chunks_of())


def event(data: bytes, name: str = "message") -> bytes:
    lines = b"".join(b"data: %s\n" % line for line in data.split(b"\n"))
    return b"event: %s\n%s\n" % (name.encode(), lines)


class MessageStream:
    """The messages of a server, read as server-sent events."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._broken = False

    def send(self, message: Message) -> None:
        self._messages.append(message)
        self._changed.set()

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        if answer is not None and http_error_of(answer) is not None:
            self.send(response_of(answer, request["id"]))
        elif answer is not None and exit_code_of(answer) is not None:
            self._broken = True
        self._changed.set()

    def is_done(self) -> bool:
        """Return True if no more messages will come."""
        return False

    async def events(self, closed: Callable[[], None] = lambda: None) -> AsyncGenerator[bytes, None]:
        """Yield messages as they come; `closed` is called when the client leaves or the stream ends."""
        try:
            while True:
                while self._messages:
                    yield event(dump(self._messages.popleft()))
                if self._broken:
                    raise ConnectionResetError("the recorded server closed the connection here")
                if self.is_done():
                    return
                self._changed.clear()
                await self._changed.wait()
        finally:
            closed()


class PostReply(MessageStream):
    """The answers to posted requests, and the messages before them."""

    def __init__(self, requests: Sequence[Message], *, is_batch: bool) -> None:
        super().__init__()
        self.waiting = {id_key(request["id"]): request["id"] for request in requests}
        """The requests without an answer."""
        self._is_batch = is_batch
        self._refused: tuple[int, str, str] | None = None

    def send(self, message: Message) -> None:
        if is_response(message):
            self.waiting.pop(id_key(message["id"]), None)
        super().send(message)

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        refused = None if answer is None else http_error_of(answer)
        self._refused = self._refused or refused
        if answer is None or refused is not None:
            self.waiting.pop(id_key(request["id"]), None)
            self._changed.set()
        else:
            super().end_request(request, answer)

    def is_done(self) -> bool:
        return not self.waiting

    def take_messages(self) -> list[Message]:
        """Return and remove the waiting messages."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def reply(self, headers: Headers, closed: Callable[[], None]) -> McpReply:
        """Return one JSON value if all requests are answered and there is no other message; otherwise a stream."""
        if self._refused is not None:
            status, content_type, body = self._refused
            return McpReply(status=status, headers=(("content-type", content_type),), chunks=chunks_of(body.encode()))
        if self._broken and not self._messages:
            return empty_reply(0)
        if self.is_done() and not self._messages:  # cancelled within its own batch
            return empty_reply(202, headers)
        if self.is_done() and all(map(is_response, self._messages)):
            return json_reply(list(self._messages) if self._is_batch else self._messages[0], headers)
        streamed = (("content-type", EVENTS), ("cache-control", "no-cache"), *headers)
        return McpReply(status=200, headers=streamed, chunks=self.events(closed))


_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = re.compile(rb"(?:^|(?<=[\r\n]))data(?::[^\r\n]*)?(?:\r\n|\r|\n|$)")


async def whole_events(
    chunks: AsyncGenerator[bytes, None], decode: Callable[[bytes], bytes]
) -> AsyncGenerator[bytes, None]:
    """Yield the same bytes, one whole event at a time, and an unfinished rest at the end."""
    rest = b""
    async for chunk in chunks:
        rest += decode(chunk)
        while match := _END.search(rest):
            yield rest[: match.end()]
            rest = rest[match.end() :]
    if rest:
        yield rest


def with_data(event: bytes, replacements: Sequence[bytes | None]) -> bytes:
    """Return an event with other data, if there is any; id and name stay."""
    for data in replacements:
        if data is not None:
            fields = _DATA.sub(b"", event).strip(b"\r\n")
            prefix = fields + b"\n" if fields else b""
            return b"%sdata: %s\n\n" % (prefix, data)
    return event
