"""Patches: which methods of the HTTP libraries pass through the seam, and which module here translates each.

Only libraries that the agent has imported are touched (`seam.hooks`), and a translator is imported when the first
request is made inside a session: a run without HTTP does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from replaykit.seam.scope import current


def _late(translator: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes a replacement out of `translator.name`, which is looked up at the first call inside a session."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        translated: Callable[..., Any] | None = None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal translated
            if current() is None:
                return original(*args, **kwargs)
            if translated is None:
                translated = getattr(import_module(f"replaykit.seam.http.{translator}"), name)(original)
            return translated(*args, **kwargs)

        return call

    return make


_HTTPX = (
    ("HTTPTransport", "handle_request", _late("httpx", "handle_request")),
    ("AsyncHTTPTransport", "handle_async_request", _late("httpx", "handle_async_request")),
    ("Client", "send", _late("httpx", "send")),
    ("AsyncClient", "send", _late("httpx", "asend")),
)

HOOKS = {
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "urllib3.connectionpool": (
        ("HTTPConnectionPool", "_make_request", _late("urllib3", "make_request")),
        ("HTTPSConnectionPool", "_prepare_proxy", _late("urllib3", "prepare_proxy")),
    ),
    "aiohttp.client": (("ClientSession", "_request", _late("aiohttp", "request")),),
    "botocore.httpsession": (("URLLib3Session", "send", _late("botocore", "send")),),
}
"""Module → classes in it, their methods, and what makes the replacements. `requests` has no row: it sits on urllib3."""
