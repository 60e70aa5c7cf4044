"""Clients of services: addresses and keys from the environment, never from a file, and checked answers."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from replaykit.errors import FetchFailed, InvalidFile, UsageError
from replaykit.formats.core.json_text import decode_lenient
from replaykit.formats.core.source import Source, spelled
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject, encode
from replaykit.terminal import visible
from replaykit.wire.json_fields import as_object, without_nulls

_MIN_HIDDEN_CHARS = 6  # shorter values occur by chance, and are no keys


class ServiceAccount(Struct, frozen=True, kw_only=True):
    """The address of a service and the credentials for it."""

    service: str
    root: str
    variable: str
    refused: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    """Secrets, with the names that replace them in messages."""

    def __repr__(self) -> str:
        return f"ServiceAccount({self.service!r}, {self.root!r})"

    def hide(self, text: str) -> str:
        """Replace the keys in a text by their names, in case the service echoes them."""
        for name, value in self.secrets:
            if len(value) >= _MIN_HIDDEN_CHARS:
                text = text.replace(value, f"${{{name}}}")
        return text


def setting(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable; empty if it is not set."""
    return environment.get(name, "").strip()


def first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the first of these variables that is set, or else the first."""
    return next((name for name in names if setting(environment, name)), names[0])


def header_safe(name: str, value: str) -> str:
    """Return a value that is valid in a header; otherwise raise an error that, unlike a library's, does not show it."""
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"{name} contains characters that headers cannot hold")
    return value


def basic(user: str, password: str) -> str:
    """Return the value of a header for basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def root_of(text: str, variable: str, *, suffixes: tuple[str, ...] = (), is_secret: bool = True) -> str:
    """Return the root of the API's paths. A key is sent over TLS, or stays on this machine."""
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname or "", parts.username or parts.password, parts.port
    except ValueError:
        host, user, parts = "", None, urlsplit("")
    if user or parts.query or parts.fragment:
        raise UsageError(f"{variable} is not a plain address", hint="Write https://host, and nothing else.")
    is_plain = parts.scheme == "http" and (is_loopback(host) or not is_secret)
    if not host or not (parts.scheme == "https" or is_plain):
        raise UsageError(f"{variable} is {text[:200]!r}", hint="Give an https:// address, or one on loopback.")
    path = parts.path.rstrip("/")
    for suffix in suffixes:
        if path.endswith(suffix):
            path = path.removesuffix(suffix).rstrip("/")
            break
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


MAX_PAGES = 200
MAX_TRACE_BYTES = 256 * 1024 * 1024
UNKNOWN = (404, 405, 410, 501)
"""The statuses of servers that do not know a path."""
_REFUSED = (401, 403)
_SHOWN_CHARS = 200


class ServiceRequest(Struct, frozen=True, kw_only=True):
    """A request; only requests to the API itself carry the key."""

    method: str
    url: str
    body: bytes | None = None
    with_key: bool = True


class ServiceReply(Struct, frozen=True):
    """A response."""

    status: int
    body: bytes = b""


Send = Callable[[ServiceRequest], ServiceReply]
Ask = Callable[[str | None], ServiceReply]
"""Asks for the page at a cursor; None is the first."""
Page = tuple[Json, Json]
"""The items of a page, and the cursor of the next; either may be of any type."""


class ServiceClient:
    """Sends requests to one account, and turns bad answers into errors."""

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self.account = account
        self.send = send

    def get(self, path: str, **query: Json) -> ServiceReply:
        """Send a GET request; parameters that are None are left out, and lists are repeated."""
        parameters = urlencode(without_nulls(query), doseq=True)
        if parameters:
            path += f"?{parameters}"
        return self.send(ServiceRequest(method="GET", url=self.account.root + path))

    def post(self, path: str, body: Json) -> ServiceReply:
        """Send a POST request with a JSON body."""
        return self.send(ServiceRequest(method="POST", url=self.account.root + path, body=encode(body)))

    def json(self, reply: ServiceReply) -> Json:
        """Return the JSON of a reply; raise `FetchFailed` for an error status or invalid JSON."""
        if reply.status in _REFUSED:
            raise self.failed(f"refused the key ({reply.status})", self.account.refused)
        if not 200 <= reply.status < 300:
            hint = None
            if reply.status in UNKNOWN or 300 <= reply.status < 400:
                hint = f"Check {self.account.variable}."
            body_text = visible(self.account.hide(reply.body.decode("utf-8", "replace")))[:_SHOWN_CHARS]
            answer = ": ".join(filter(None, (f"answered {reply.status}", body_text)))
            raise self.failed(answer, hint)
        try:
            return decode_lenient(reply.body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self.failed(f"returned something that is not JSON: {error}") from None

    def pages(
        self,
        ask: Ask,
        read: Callable[[JsonObject], Page],
        limit_bytes: int | None = None,
        first: ServiceReply | None = None,
    ) -> Iterator[list[Json]]:
        """Yield the items of each page, following the cursors; `first` is a page that was fetched already."""
        following: str | None = None
        seen: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            reply, first = first or ask(following), None
            size += len(reply.body)
            if limit_bytes is not None and size > limit_bytes:
                raise self.failed(f"gave more than {limit_bytes:,} bytes for one trace")
            items, after = read(as_object(self.json(reply)))
            if not isinstance(items, list) or not isinstance(after, str | None):
                raise self.failed("returned something that is not a page of results")
            yield items
            if not after:
                return
            if after in seen:  # a cycle would go on until the page limit
                raise self.failed("leads from a page back to it")
            seen.add(after)
            following = after
        raise self.failed(f"gave more than {MAX_PAGES} pages")

    def failed(self, what: str, hint: str | None = None) -> FetchFailed:
        """Return an error about something the service did."""
        return FetchFailed(f"{self.account.service} at {self.account.root} {what}", hint=hint)


class FetchedSource(Source):
    """A fetched document; errors name a path in it, since there are no lines."""

    def __init__(self, value: Json, origin: str) -> None:
        super().__init__(b"", origin, value=value)
        self._text = None

    def error(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> InvalidFile:
        return InvalidFile(f"{message} (at {spelled(path)})", file=self.file, hint=hint)

    def _load(self) -> bytes:
        return encode(self.value)
