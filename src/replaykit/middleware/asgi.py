"""The middleware for ASGI applications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from replaykit.middleware.messages import TAPE_HEADER
from replaykit.middleware.tape_registry import (
    MAX_TAPE_BYTES,
    TapeRegistry,
    TapeReply,
    TapeRequest,
    is_about_tapes,
    is_enabled,
)
from replaykit.seam.foreign_threads import apart

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
_HEADER = TAPE_HEADER.encode()


def asgi(app: App, *, enabled: bool | None = None, token: str | None = None) -> App:
    """Return an application that can serve requests inside a tape; the application itself unless that is enabled."""
    if is_enabled(enabled):
        return _Asgi(app, TapeRegistry(token))
    return app


class _Asgi:
    def __init__(self, app: App, tapes: TapeRegistry) -> None:
        self._app = app
        self._tapes = tapes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _concerns_tapes(scope):
            # An ordinary request must not join the only run in progress, which serves another one.
            with apart():
                await self._app(scope, receive, send)
            return
        request = _request(scope)
        if is_about_tapes(request.path):
            await _answer(send, self._tapes.answer(request, await _body(receive)))
            return
        serving = self._tapes.begin(request)
        if isinstance(serving, TapeReply):
            await _answer(send, serving)
            return
        with serving.at_work():
            await self._app(scope, receive, send)

    def __getattr__(self, name: str) -> Any:
        """Return the application's other attributes, such as its routes."""
        return getattr(self._app, name)


def _concerns_tapes(scope: Scope) -> bool:
    """True for a request about tapes or inside one; all others pass untouched."""
    return is_about_tapes(scope["path"]) or any(name.lower() == _HEADER for name, _ in scope["headers"])


def _request(scope: Scope) -> TapeRequest:
    client = scope.get("client")
    return TapeRequest(
        method=scope["method"].upper(),
        path=scope["path"],
        headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
        client=str(client[0]) if client else "",
    )


async def _body(receive: Receive) -> bytes:
    """Return the body of a request, cut off just above the largest tape."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        part = message.get("body", b"")
        size += len(part)
        parts.append(part)
        # One part above the limit is enough for the registry to refuse the body.
        if not message.get("more_body") or size > MAX_TAPE_BYTES:
            return b"".join(parts)


async def _answer(send: Send, reply: TapeReply) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(reply.body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
