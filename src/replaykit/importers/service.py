"""A service that keeps traces, as its API is asked: who asks, what is sent, answers as JSON, page after page.

Sends nothing itself: `send` does, and keeps to its limits of time and retries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from replaykit.errors import FetchFailed, InvalidFile
from replaykit.importers.mending import decoded
from replaykit.importers.source import JsonPath, Source, spelled
from replaykit.model.values import Json, encode
from replaykit.terminal import visible

MAX_PAGES = 200
MAX_TRACE_BYTES = 256 * 1024 * 1024
UNKNOWN = (404, 405, 410, 501)
"""What a server answers that does not know what it is asked for."""
_REFUSED = (401, 403)
_SHOWN_CHARS = 200


class Account(Protocol):
    """An address of a service, and what it takes to be let in there."""

    @property
    def service(self) -> str:
        """What people call the service."""

    @property
    def root(self) -> str:
        """The address that the paths of the API come after."""

    @property
    def variable(self) -> str:
        """The variable that says where it is."""

    @property
    def refused(self) -> str:
        """What to look at where the key is refused."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What a request to the API carries; one to any other address carries none of it."""

    def hide(self, text: str) -> str:
        """The text without the key, if somebody says it back."""


class Request(Struct, frozen=True, kw_only=True):
    """What is asked. Only one that goes to the API itself carries the key."""

    method: str
    url: str
    body: bytes | None = None
    with_key: bool = True


class Reply(Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes = b""


Send = Callable[[Request], Reply]
Page = tuple[Json, Json]
"""What a page holds, and where the next one is: an answer may hold anything there."""


class Client:
    """Asks one account, and says in words what is wrong with an answer."""

    def __init__(self, account: Account, send: Send) -> None:
        self.account = account
        self.send = send

    def get(self, path: str, **query: Json) -> Reply:
        """The answer to a question whose parameters are these; None is none, and a list is each of its members."""
        said = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
        return self.send(Request(method="GET", url=f"{self.account.root}{path}{'?' if said else ''}{said}"))

    def post(self, path: str, body: Json) -> Reply:
        """The answer to a question that is this JSON."""
        return self.send(Request(method="POST", url=self.account.root + path, body=encode(body)))

    def json(self, reply: Reply) -> Json:
        """The JSON of an answer; `FetchFailed` where it says no, or is none."""
        if reply.status in _REFUSED:
            said = f"{self.account.service} at {self.account.root} refused the key ({reply.status})"
            raise FetchFailed(said, hint=self.account.refused)
        if not 200 <= reply.status < 300:
            said = visible(self.account.hide(reply.body.decode("utf-8", "replace")))[:_SHOWN_CHARS]
            elsewhere = reply.status in UNKNOWN or 300 <= reply.status < 400
            told = f"answered {reply.status}{': ' if said else ''}{said}"
            raise self.failed(told, f"Check {self.account.variable}." if elsewhere else None)
        try:
            return decoded(reply.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self.failed(f"gave something that is not JSON: {error}") from None

    def pages(
        self,
        ask: Callable[[str | None], Reply],
        read: Callable[[dict[str, Json]], Page],
        limit_bytes: int | None = None,
    ) -> Iterator[list[Json]]:
        """What is on the pages, each asked for with what the one before it says comes next."""
        following: str | None = None
        seen: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            reply = ask(following)
            size += len(reply.body)
            if limit_bytes is not None and size > limit_bytes:
                raise self.failed(f"gave more than {limit_bytes:,} bytes for one trace")
            value = self.json(reply)
            found, after = read(value if isinstance(value, dict) else {})
            if not isinstance(found, list) or not isinstance(after, str | None):
                raise self.failed("gave something that is no page of what was asked for")
            yield found
            if not after:
                return
            if after in seen:
                raise self.failed("leads from a page back to it")
            seen.add(after)
            following = after
        raise self.failed(f"gave more than {MAX_PAGES} pages")

    def failed(self, what: str, hint: str | None = None) -> FetchFailed:
        """The error that says what the service did."""
        return FetchFailed(f"{self.account.service} at {self.account.root} {what}", hint=hint)


class Fetched(Source):
    """What a service gave: its value is known, and errors name a place by its path, for nobody has the text."""

    def __init__(self, value: Json, origin: str) -> None:
        super().__init__(b"", origin, value=value)
        self._text = None

    def error(self, message: str, path: JsonPath = (), *, hint: str | None = None) -> InvalidFile:
        return InvalidFile(f"{message} (at {spelled(path)})", file=self.file, hint=hint)

    def _load(self) -> bytes:
        return encode(self.value)
