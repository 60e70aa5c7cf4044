"""Access to the proxy: a token that only the processes of the program are handed.

Without one, any process of this machine could use the proxy to reach what this user reaches, and read or add to a
recording. SDKs that are led to an upstream have the token in the path of its address: each of them keeps a path, and
credentials in an address would take the place of their own. Clients that take the proxy for their forward proxy send it
as the password of the proxy, as they would to any other.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from functools import cache

USER = "replaykit"
CHALLENGE = 'Basic realm="replaykit"'
_SEGMENT = re.compile(r"/(replaykit-[0-9a-f]{32})(?=/)")


def new_token() -> str:
    """Return a token for one recording or replay; redaction knows its form."""
    return f"replaykit-{os.urandom(16).hex()}"


def base_address(proxy: str, token: str) -> str:
    """Return the address below which the upstreams are, for who is handed it."""
    if token:
        return f"{proxy}/{token}"
    return proxy


def forward_address(proxy: str, token: str) -> str:
    """Return the address of the proxy with the credentials that a forward proxy is sent."""
    if token:
        return proxy.replace("://", f"://{USER}:{token}@", 1)
    return proxy


def token_of(path: str) -> str:
    """Return the token that a path begins with; nothing where there is none."""
    match = _SEGMENT.match(path)
    if match:
        return match[1]
    return ""


def without_token(path: str) -> str:
    """Return the path without the token that it may begin with."""
    if token := token_of(path):
        return path[len(token) + 1 :]
    return path


def is_authorized(token: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return True when whoever asks for a path was handed the token; also with credentials of the address itself."""
    first = path[1 : len(token) + 1]  # without a search: every request comes here
    return not token or _is_same(first.encode("utf-8", "replace"), token) or has_credentials(token, headers)


def has_credentials(token: str, headers: Mapping[str, str]) -> bool:
    """Return True when the headers hold the token as credentials."""
    credentials = (headers.get("proxy-authorization", ""), headers.get("authorization", ""))
    return not token or any(_is_same(_password(value), token) for value in credentials if value)


def is_our_authorization(name: str, value: str) -> bool:
    """Return True for a header that holds a token of ours: it is for the proxy alone."""
    return name.lower() == "authorization" and bool(token_of(f"/{_password(value).decode('latin-1')}/"))


def _is_same(received: bytes, token: str) -> bool:
    return _compare()(received, token.encode())


@cache
def _compare() -> Callable[[bytes, bytes], bool]:
    from hmac import compare_digest  # noqa: PLC0415 (brings in hashlib, and only the proxy compares)

    return compare_digest


def _password(value: str) -> bytes:
    scheme, _, encoded = value.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""
