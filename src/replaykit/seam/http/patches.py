"""Patches: which methods of the HTTP libraries pass through the seam, and which module here translates each.

Only libraries that the agent has imported are touched (`seam.hooks`), and a translator is imported when the first
request is made inside a session: a run without HTTP does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from replaykit.seam.scope import active_sessions, current

Make: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def _late(translator: str, name: str, *more: str) -> Make:
    """What makes a replacement out of `translator.name`, which is looked up at the first call inside a session."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        translated: Callable[..., Any] | None = None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal translated
            if current() is None and not active_sessions:
                return original(*args, **kwargs)
            if translated is None:
                translated = getattr(import_module(f"replaykit.seam.http.{translator}"), name)(original, *more)
            return translated(*args, **kwargs)

        return call

    return make


def _httpx(library: str) -> tuple[tuple[str, str, Make], ...]:
    return (
        ("HTTPTransport", "handle_request", _late("httpx", "handle_request", library)),
        ("AsyncHTTPTransport", "handle_async_request", _late("httpx", "handle_async_request", library)),
        ("Client", "send", _late("httpx", "send", library)),
        ("AsyncClient", "send", _late("httpx", "asend", library)),
    )


HOOKS: dict[str, tuple[tuple[str, str, Make], ...]] = {
    "httpx": _httpx("httpx"),
    "httpx2": _httpx("httpx2"),
    "urllib3.connectionpool": (
        ("HTTPConnectionPool", "_make_request", _late("urllib3", "make_request")),
        ("HTTPSConnectionPool", "_prepare_proxy", _late("urllib3", "prepare_proxy")),
    ),
    "http.client": (
        ("HTTPConnection", "connect", _late("http_client", "connect")),
        ("HTTPSConnection", "connect", _late("http_client", "connect")),
        ("HTTPConnection", "endheaders", _late("http_client", "end_headers")),
        ("HTTPConnection", "getresponse", _late("http_client", "get_response")),
    ),
    "aiohttp.client": (("ClientSession", "_request", _late("aiohttp", "request")),),
    "botocore.httpsession": (("URLLib3Session", "send", _late("botocore", "send")),),
}
"""Module → classes in it, their methods, and what makes the replacements. `requests` has no row: it sits on urllib3."""
