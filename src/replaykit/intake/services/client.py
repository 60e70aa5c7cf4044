"""Addresses and keys of services, which come from the environment, never from a file."""

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

_MIN_HIDDEN_CHARS = 6  # a shorter key occurs by chance, and is none


class ServiceAccount(Struct, frozen=True, kw_only=True):
    """An address of a service, and what it takes to be let in there."""

    service: str
    root: str
    variable: str
    refused: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    """Secrets, each with the name that replaces it in messages."""

    def __repr__(self) -> str:
        return f"ServiceAccount({self.service!r}, {self.root!r})"

    def hide(self, text: str) -> str:
        """The text with names in the place of the keys, if somebody says them back."""
        for name, value in self.secrets:
            if len(value) >= _MIN_HIDDEN_CHARS:
                text = text.replace(value, f"${{{name}}}")
        return text


def setting(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable; empty where it says nothing."""
    return environment.get(name, "").strip()


def first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the first of these variables that is set; the first of all where none is."""
    return next((name for name in names if setting(environment, name)), names[0])


def header_safe(name: str, value: str) -> str:
    """The value, where a header can carry it; else an error that does not show it, as a library would."""
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"{name} holds characters that no header can")
    return value


def basic(user: str, password: str) -> str:
    """The two as a header says them."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def root_of(text: str, variable: str, *, suffixes: tuple[str, ...] = (), is_secret: bool = True) -> str:
    """The address that the paths of the API come after; a key goes over TLS, or stays on this machine."""
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname or "", parts.username or parts.password, parts.port
    except ValueError:
        host, user, parts = "", None, urlsplit("")
    if user or parts.query or parts.fragment:
        raise UsageError(f"{variable} is no plain address", hint="Write https://host, and nothing but that.")
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
    """True for this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


MAX_PAGES = 200
MAX_TRACE_BYTES = 256 * 1024 * 1024
UNKNOWN = (404, 405, 410, 501)
"""Statuses of servers that do not know a path."""
_REFUSED = (401, 403)
_SHOWN_CHARS = 200


class ServiceRequest(Struct, frozen=True, kw_only=True):
    """A request. Only requests to the API itself carry the key."""

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
    """Asks one account, and says in words what is wrong with an answer."""

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self.account = account
        self.send = send

    def get(self, path: str, **query: Json) -> ServiceReply:
        """The answer to a question whose parameters are these; None is none, and a list is each of its members."""
        parameters = urlencode(without_nulls(query), doseq=True)
        if parameters:
            path += f"?{parameters}"
        return self.send(ServiceRequest(method="GET", url=self.account.root + path))

    def post(self, path: str, body: Json) -> ServiceReply:
        """The answer to a question that is this JSON."""
        return self.send(ServiceRequest(method="POST", url=self.account.root + path, body=encode(body)))

    def json(self, reply: ServiceReply) -> Json:
        """The JSON of an answer; `FetchFailed` where it says no, or is none."""
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
            raise self.failed(f"gave something that is not JSON: {error}") from None

    def pages(
        self,
        ask: Ask,
        read: Callable[[JsonObject], Page],
        limit_bytes: int | None = None,
        first: ServiceReply | None = None,
    ) -> Iterator[list[Json]]:
        """Return the items of each page, following the cursors; `first` is a page that was asked for already."""
        following: str | None = None
        seen: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            reply, first = first or ask(following), None
            size += len(reply.body)
            if limit_bytes is not None and size > limit_bytes:
                raise self.failed(f"gave more than {limit_bytes:,} bytes for one trace")
            found, after = read(as_object(self.json(reply)))
            if not isinstance(found, list) or not isinstance(after, str | None):
                raise self.failed("gave something that is no page of what was asked for")
            yield found
            if not after:
                return
            if after in seen:  # else it would be asked for the same until the pages run out
                raise self.failed("leads from a page back to it")
            seen.add(after)
            following = after
        raise self.failed(f"gave more than {MAX_PAGES} pages")

    def failed(self, what: str, hint: str | None = None) -> FetchFailed:
        """The error that says what the service did."""
        return FetchFailed(f"{self.account.service} at {self.account.root} {what}", hint=hint)


class FetchedSource(Source):
    """A fetched document; errors name a place by its path, since there is no file with lines."""

    def __init__(self, value: Json, origin: str) -> None:
        super().__init__(b"", origin, value=value)
        self._text = None

    def error(self, message: str, path: DocumentPath = (), *, hint: str | None = None) -> InvalidFile:
        return InvalidFile(f"{message} (at {spelled(path)})", file=self.file, hint=hint)

    def _load(self) -> bytes:
        return encode(self.value)
