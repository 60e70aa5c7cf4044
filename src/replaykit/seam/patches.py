"""Patches: everything that is replaced while a session is active, so that calls pass through the seam.

Only libraries that the agent has imported are touched (`seam.hooks`). The translator of an HTTP library is imported on
the first request inside a session, so a run without HTTP does not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from replaykit.seam import processes, propagate
from replaykit.seam.hooks import Hooks, Make, Rows, Table
from replaykit.seam.own_code import Function
from replaykit.seam.scope import active_sessions, current


def _late(translator: str, name: str, *more: str) -> Make:
    """Return a replacement by `translator.name`, which is imported on the first call inside a session. It is called
    with the original and `more`, followed by the arguments of the call."""

    def make(original: Function) -> Function:
        translated: Function | None = None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal translated
            if current() is None and not active_sessions:
                return original(*args, **kwargs)
            if translated is None:
                translated = getattr(import_module(f"replaykit.seam.http.{translator}"), name)
            return translated(original, *more, *args, **kwargs)

        return call

    return make


def _httpx(library: str) -> Rows:
    return (
        ("HTTPTransport", "handle_request", _late("httpx", "handle_request", library)),
        ("AsyncHTTPTransport", "handle_async_request", _late("httpx", "handle_async_request", library)),
        ("Client", "send", _late("httpx", "send", library)),
        ("AsyncClient", "send", _late("httpx", "asend", library)),
    )


HTTP: dict[str, Rows] = {
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
    "botocore.httpsession": (("URLLib3Session", "send", _late("urllib3", "send_of_botocore")),),
}
"""`requests` has no entry, because it is based on urllib3."""
HOOKS: Table = {**propagate.HOOKS, **processes.HOOKS, **HTTP}
# Functions that start processes are not required: some systems lack them, and tests replace them.
installed = Hooks(HOOKS, required={*propagate.HOOKS, *HTTP}).installed
"""Keep the hooks that every session needs in place during a block."""
