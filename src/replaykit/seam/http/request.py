"""A request on the wire, and the call that it becomes at the seam."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlencode

import orjson
from msgspec import Struct

from replaykit.model.values import Json, JsonObject, canonical, canonical_read, sayable
from replaykit.seam.http.cleaning import SEEN, Headers, clean_json, clean_query, first_header, taken_apart
from replaykit.seam.scope import EXCHANGE, MODEL, PendingCall, Scope, pending_call, wall_time
from replaykit.wire.api import ModelApi
from replaykit.wire.request_keys import match_key
from replaykit.wire.routes import api_of

WHOLE_BODY = 16 * 1024 * 1024
"""A larger request body is represented by its hash."""
SESSION = "REPLAYKIT_SESSION"
"""Set if a proxy of ours, on loopback, may stand in front of an API."""

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("127.0.0.1", "localhost")
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")


def http_url(scheme: str, host: str, port: int | None, target: str) -> str:
    """Return the URL of a request to a host, without a default port."""
    if not target.startswith("/"):
        return target  # the absolute form for a proxy
    if ":" in host:
        host = f"[{host}]"
    if port not in (None, _PORTS.get(scheme)):
        host = f"{host}:{port}"
    return f"{scheme}://{host}{target}"


def joined_body(body: Any, encoding: str) -> bytes:
    """Return the whole body; one that can be read only once is read now."""
    if isinstance(body, str):
        return body.encode(encoding)
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if hasattr(body, "read"):
        body = (body.read(),)
    return b"".join(piece.encode(encoding) if isinstance(piece, str) else bytes(piece) for piece in body)


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request on the wire."""

    method: str
    url: str
    headers: Headers = ()
    body: bytes = b""
    api_url: str = ""
    """The URL by which the API is recognised, if its own does not show it."""

    def header(self, name: str) -> str:
        """Return the first value of a header, given its name in lower case."""
        return first_header(self.headers, name)

    @property
    def api(self) -> ModelApi | None:
        """The model API of the request, if it is one."""
        return api_of(self.method, self.api_url or self.url, self.header("content-type"))

    @property
    def amended(self) -> dict[str, str]:
        """The headers that replace those of the caller, with lower-case names.

        Uncompressed bodies are requested, so that they can be read, unless the caller has signed the header.
        """
        headers: dict[str, str] = {}
        if self.header("accept-encoding") and "accept-encoding" not in self.header("authorization"):
            headers["accept-encoding"] = "identity"
        if os.environ.get(SESSION) and taken_apart(self.url).place.partition(":")[0] in _LOOPBACK:
            headers[SEEN] = "1"
        return headers


class Amended:
    """Replaces the headers of a request while it is sent, and restores the caller's afterwards."""

    def __init__(self, headers: MutableMapping[str, str], request: HttpRequest) -> None:
        self._headers = headers
        self._amended = request.amended
        self._before = {name: headers.get(name) for name in self._amended}

    def __enter__(self) -> None:
        for name, value in self._amended.items():
            self._headers[name] = value

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                del self._headers[name]
            else:
                self._headers[name] = value


class _ModelCall(PendingCall, eq=False):
    """A call of a model. Its key for the tape is computed on first use: a recording does not need it."""

    _api: ModelApi | None = None
    _key: bytes | None = None

    @property  # type: ignore[misc]  # it replaces a field
    def key(self) -> bytes:
        if self._key is None:
            assert self._api is not None
            self._key = match_key(self._api, self.arguments)
        return self._key

    @key.setter
    def key(self, key: bytes) -> None:
        self._key = None if key is self.arguments else key


def _model_call(api: ModelApi, name: str, arguments: bytes, scope: Scope) -> PendingCall:
    number = next(scope.session.numbers)
    call = _ModelCall(
        MODEL, name, arguments, arguments, scope.path, scope.step, scope.parent, number, wall_time(), "none"
    )
    call._api = api
    return call


def pending(scope: Scope, request: HttpRequest, api: ModelApi | None) -> PendingCall:
    """Return the request as a call: of a model if it uses a known API, or else an exchange."""
    if api is not None:
        body = _json(request.body)
        if isinstance(body, dict):
            name = body.get("model") or api.model or api.name
            return _model_call(api, str(name), canonical_read(clean_json(body, request.body)), scope)
    url = taken_apart(request.url)
    method = request.method.upper()
    arguments: JsonObject = {}
    if url.query:
        arguments["query"] = [list(pair) for pair in url.query]
    if request.body:
        arguments["body"] = _body(request)
    effects = "none" if method in _SAFE else "external"
    name = sayable(f"{method} {url.place}{url.path}")
    return pending_call(EXCHANGE, name, canonical(arguments), scope, wall_time(), effects)


def text_or_bytes(data: bytes) -> str | bytes:
    """Return text if the data is readable text, or else the bytes."""
    if 0 in data:
        return data  # not for reading, even if it decodes
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _body(request: HttpRequest) -> Json:
    kind, body = request.header("content-type"), request.body
    boundary = _BOUNDARY.search(kind) if "multipart/" in kind.lower() else None
    if boundary:  # random in each request
        body = body.replace(boundary[1].encode(), b"boundary")
    if len(body) > WHOLE_BODY:
        import hashlib  # noqa: PLC0415 (few requests are that large)

        return {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
    if "json" in kind.lower():
        value = _json(body)
        if value is not None:
            return clean_json(value, body)
    text = text_or_bytes(body)
    if isinstance(text, str) and "x-www-form-urlencoded" in kind.lower():
        return urlencode(clean_query(text)) or text
    return text


def _json(body: bytes) -> Json:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
