"""Addresses at the proxy: its access token, and requests named by their upstream.

Only the processes of the program get the token. Without one, any process of this machine could use the proxy to reach
what this user can reach, and read or extend a recording. SDKs get the token in the path of an upstream's address: all
of them preserve a path, while credentials in the address would replace their own. Clients that use the proxy as a
forward proxy send the token as its password.

The proxy's port differs in every run. `POST 127.0.0.1:40123/openai/files` becomes `POST openai/files` in the log and on
the tape, so that a recording made through one address is found through another.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from urllib.parse import urljoin, urlsplit

import msgspec

from replaykit.model.events import AnyEvent, Exchange, WireInfo
from replaykit.model.values import Json
from replaykit.seam.http.cleaning import SEEN
from replaykit.seam.scope import CallAnswer, Handler, Outcome, PendingCall

USER = "replaykit"
CHALLENGE = 'Basic realm="replaykit"'
_SEGMENT = re.compile(r"/(replaykit-[0-9a-f]{32})(?=/)")
UPSTREAM = "x-replaykit-upstream"
"""The response header in which the proxy names the upstream; it is recorded with the others."""
_LOCATION = "location"
_EXCHANGE = str(Exchange.__struct_config__.tag)
_ANTHROPIC = "https://api.anthropic.com"
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "host", "expect", SEEN}
)


def new_token() -> str:
    """Return a token for one recording or replay, in a form that redaction knows."""
    return f"replaykit-{os.urandom(16).hex()}"


def base_address(proxy: str, token: str) -> str:
    """Return the address below which the upstreams are."""
    if token:
        return f"{proxy}/{token}"
    return proxy


def forward_address(proxy: str, token: str) -> str:
    """Return the address of the proxy with the credentials for a forward proxy."""
    if token:
        return proxy.replace("://", f"://{USER}:{token}@", 1)
    return proxy


def token_of(path: str) -> str:
    """Return the token at the start of a path; empty if there is none."""
    match = _SEGMENT.match(path)
    return match[1] if match else ""


def without_token(path: str) -> str:
    """Return the path without a token at its start."""
    if token := token_of(path):
        return path[len(token) + 1 :]
    return path


def is_authorized(token: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return True if a request holds the token, in its path or as credentials."""
    first = path[1 : len(token) + 1]  # without a regular expression: this runs for every request
    return not token or _is_same(first.encode("utf-8", "replace"), token) or has_credentials(token, headers)


def has_credentials(token: str, headers: Mapping[str, str]) -> bool:
    """Return True if the headers hold the token as credentials."""
    credentials = (headers.get("proxy-authorization", ""), headers.get("authorization", ""))
    return not token or any(_is_same(_password(value), token) for value in credentials if value)


def is_our_authorization(name: str, value: str) -> bool:
    """Return True for a header with a token of ours, which is for the proxy alone."""
    return name.lower() == "authorization" and bool(token_of(f"/{_password(value).decode('latin-1')}/"))


def _is_same(received: bytes, token: str) -> bool:
    return _compare()(received, token.encode())


@cache
def _compare() -> Callable[[bytes, bytes], bool]:
    from hmac import compare_digest  # noqa: PLC0415 (imports hashlib, and only the proxy compares)

    return compare_digest


def _password(value: str) -> bytes:
    scheme, _, encoded = value.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def end_to_end_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers without those for one connection, and without our own."""
    pairs = list(headers)
    named = [value for name, value in pairs if name.lower() == "connection"]
    if named:
        dropped = _HOP_BY_HOP.union(word.strip().lower() for word in ",".join(named).split(","))
    else:
        dropped = _HOP_BY_HOP
    return [
        (name, value) for name, value in pairs if name.lower() not in dropped and not is_our_authorization(name, value)
    ]


def headers_for_program(path: str, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of a response to this path; redirects to an upstream get the token of the path."""
    names = [name.lower() for name, _ in headers]
    token = token_of(path)
    if not token or _LOCATION not in names or UPSTREAM not in names:
        return headers
    own = []
    for name, value in headers:
        if name.lower() == _LOCATION and value.startswith("/"):
            value = f"/{token}{value}"
        own.append((name, value))
    return own


def split_target(target: str, upstreams: Mapping[str, str]) -> tuple[str, str]:
    """Return the upstream of a request to the proxy, and the rest of its path with the query."""
    path, mark, query = without_token(target).removeprefix("/").partition("?")
    name, slash, rest = path.partition("/")
    rest = f"{slash}{rest}{mark}{query}"
    # Some SDKs expect the version in the address, others add it: both mean the same API.
    if upstreams.get(name) == _ANTHROPIC and not rest.startswith("/v1/"):
        rest = f"/v1{rest}"
    return name, rest


def upstream_address(url: str, proxy: str, upstreams: Mapping[str, str]) -> str:
    """Return the upstream's address for one of the proxy; any other unchanged."""
    if not proxy or not url.startswith(f"{proxy}/"):
        return url
    name, rest = split_target(url.removeprefix(proxy), upstreams)
    base = upstreams.get(name, "")
    if base:
        return f"{base.rstrip('/')}{rest}"
    return url


def proxied_location(location: str, address: str, name: str, base: str) -> str:
    """Return a redirect's target as seen through the proxy. An address below the upstream becomes a path, which is
    valid at any port; any other stays absolute, since the proxy would get requests for a bare path."""
    try:
        target, own = urlsplit(urljoin(address, location)), urlsplit(base)
    except ValueError:
        return location
    place = target._replace(netloc=target.netloc.rpartition("@")[2])
    is_own = (place.scheme, place.netloc) == (own.scheme, own.netloc.rpartition("@")[2])
    root = own.path.rstrip("/")
    if is_own and f"{place.path}/".startswith(f"{root}/"):
        return place._replace(scheme="", netloc="", path=f"/{name}{place.path.removeprefix(root)}").geturl()
    return place.geturl()


class UpstreamRouter:
    """A handler in front of another one that removes the proxy's own address from everything recorded."""

    def __init__(
        self, handler: Handler, proxy: str, upstreams: Mapping[str, str], recorded: Collection[str] = ()
    ) -> None:
        self._handler = handler
        self._recorded = recorded
        self._proxy = proxy
        self._place = f" {urlsplit(proxy).netloc}/"
        self._upstreams = upstreams

    def serve(self, call: PendingCall) -> CallAnswer | None:
        if call.kind == _EXCHANGE:
            call.name = self._name(call.name)
        return self._handler.serve(call)

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        if outcome.wire is not None:
            outcome = msgspec.structs.replace(outcome, wire=self._behind(outcome.wire))
        self._handler.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        self._handler.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        return self._handler.amend(step, state)

    def _name(self, name: str) -> str:
        """Return the name by upstream; by address if the tape was recorded without a proxy."""
        method, _, place = name.partition(self._place)
        if method == name:
            return name
        place = without_token(f"/{place}").removeprefix("/")
        name_by_upstream = f"{method} {place}"
        if not self._recorded or name_by_upstream in self._recorded:
            return name_by_upstream
        parts = urlsplit(upstream_address(f"{self._proxy}/{place}", self._proxy, self._upstreams))
        usual = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
        direct = f"{method} {parts.netloc.lower().removesuffix(usual)}{parts.path}"
        return direct if direct in self._recorded else name_by_upstream

    def _behind(self, wire: WireInfo) -> WireInfo:
        url = self._without_token(upstream_address(wire.url, self._proxy, self._upstreams))
        has_token = any(name.lower() == _LOCATION and token_of(value) for name, value in wire.headers)
        if url == wire.url and not has_token:
            return wire
        headers = []
        for name, value in wire.headers:
            headers.append((name, without_token(value) if name.lower() == _LOCATION else value))
        return msgspec.structs.replace(wire, url=url, headers=tuple(headers))

    def _without_token(self, url: str) -> str:
        """Return a URL of the proxy for an unknown address without its token; any other unchanged."""
        if not url.startswith(f"{self._proxy}/"):
            return url
        return self._proxy + without_token(url.removeprefix(self._proxy))
