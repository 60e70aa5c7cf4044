"""The middleware for WSGI applications."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
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

Environ: TypeAlias = dict[str, Any]
App: TypeAlias = Callable[[Environ, Any], Iterable[bytes]]
_HEADER = f"HTTP_{TAPE_HEADER.upper().replace('-', '_')}"


def wsgi(app: App, *, enabled: bool | None = None, token: str | None = None) -> App:
    """Return an application that can serve requests inside a tape; the application itself unless that is enabled."""
    if is_enabled(enabled):
        return _Wsgi(app, TapeRegistry(token))
    return app


class _Wsgi:
    def __init__(self, app: App, tapes: TapeRegistry) -> None:
        self._app = app
        self._tapes = tapes

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if _HEADER not in environ and not is_about_tapes(_path(environ)):
            # An ordinary request must not join the only run in progress, which serves another one.
            with apart():
                return self._app(environ, start_response)
        request = _request(environ)
        if is_about_tapes(request.path):
            return _answer(start_response, self._tapes.answer(request, _body(environ)))
        serving = self._tapes.begin(request)
        if isinstance(serving, TapeReply):
            return _answer(start_response, serving)
        with serving.at_work():
            # The whole body is built here: a generator would run on after the block, and call its tools for real.
            parts = self._app(environ, start_response)
            try:
                return list(parts)
            finally:
                close = getattr(parts, "close", None)
                if close is not None:
                    close()

    def __getattr__(self, name: str) -> Any:
        """Return the application's other attributes, such as its configuration."""
        return getattr(self._app, name)


def _path(environ: Environ) -> str:
    return str(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))


def _request(environ: Environ) -> TapeRequest:
    headers = {}
    for key, value in environ.items():
        if key.startswith("HTTP_"):
            headers[key[5:].replace("_", "-").lower()] = str(value)
    client = environ.get("REMOTE_ADDR", "")
    return TapeRequest(method=environ["REQUEST_METHOD"].upper(), path=_path(environ), headers=headers, client=client)


def _body(environ: Environ) -> bytes:
    try:
        # One byte above the limit is enough for the registry to refuse the body.
        size = min(int(environ.get("CONTENT_LENGTH") or 0), MAX_TAPE_BYTES + 1)
    except ValueError:
        return b""
    if size > 0:
        return bytes(environ["wsgi.input"].read(size))
    return b""


def _answer(start_response: Any, reply: TapeReply) -> Iterable[bytes]:
    status = f"{reply.status} {HTTPStatus(reply.status).phrase}"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(reply.body)))]
    start_response(status, headers)
    return [reply.body]
