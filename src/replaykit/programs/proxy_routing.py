"""Routing at the proxy: the upstream address of a request, or the reason why it is refused.

The proxy's own errors have the form that the SDK of the requested API understands.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from msgspec import Struct

from replaykit.errors import nearest
from replaykit.model.unrecorded import Unrecorded, UnrecordedEffect, UnrecordedKind
from replaykit.model.values import sayable
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import ProcessLog
from replaykit.programs.proxy_addresses import CHALLENGE, has_credentials, is_authorized, split_target, upstream_address
from replaykit.seam.sockets import connected, holders

BAD_REQUEST = 400
"""A request that is not HTTP."""
MISS = 409
"""A request that is not on the tape."""
NOT_HERE = 404
"""A path that leads to no upstream."""
NEEDS_CREDENTIALS = 407
"""A forward-proxy request without credentials."""
FORBIDDEN = 403
"""A request that the proxy does not serve."""


ConnectionEnds = tuple[object, object]
"""The addresses of the two ends of a connection: the other one first."""


class ProxyRefusal(Exception):
    """The proxy refuses the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def refusal_response(status: int, message: str, *, kind: str = "replaykit", target: str) -> web.Response:
    """Return an error response that tells SDKs not to retry; `target` is the requested path."""
    text = orjson.dumps(_error_body(status, message, kind, target))
    headers = {"x-should-retry": "false", "x-replaykit": kind}
    if status == NEEDS_CREDENTIALS:
        headers["proxy-authenticate"] = CHALLENGE
    return web.Response(status=status, body=text, content_type="application/json", headers=headers)


def _error_body(status: int, message: str, kind: str, target: str) -> dict[str, object]:
    """Return one object for nearly all SDKs: each reads the members it knows."""
    if "/api/chat" in target or "/api/generate" in target:
        return {"error": message}  # Ollama
    error = {"type": kind, "message": message, "code": kind, "param": None, "status": kind.upper()}
    if ":generateContent" in target or ":streamGenerateContent" in target:
        error["code"] = status  # type: ignore[assignment]
    return {"type": "error", "message": message, "error": error}


def describe_client(ends: ConnectionEnds, agent: str, network: Path | None = None) -> str:
    """Describe the program at the other end of a connection: its process, if known, and its user agent.

    `network` has the socket tables of a program with a network of its own.
    """
    name, number = _client_process(ends, network)
    process = f"`{name}` (process {number})" if name else ""
    return ", ".join(filter(None, (process, agent.partition(" ")[0]))) or "the program"


def _client_process(ends: ConnectionEnds, network: Path | None = None) -> tuple[str, str]:
    """Return name and number of the process at the other end of a loopback connection; empty if it is unknown."""
    peer, own = ends
    if not isinstance(peer, tuple) or not isinstance(own, tuple) or len(peer) < 2 or len(own) < 2:
        return "", ""
    for socket in connected(int(peer[1]), int(own[1]), network):
        for home in holders(socket):
            try:
                return (home / "comm").read_text().strip(), home.name
            except OSError:  # the process has ended
                return "", ""
    return "", ""


_ANTHROPIC = ("anthropic", "anthropic_api")
_SHORT = re.compile(r"(?<!/v1)/messages(?=$|\?)")
_DONE = {Mode.RECORD: "recorded", Mode.REPLAY: "replayed"}
_HOW = "Its address with the token: $REPLAYKIT_PROXY, in the environment of that program."
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "::1", None})


class ProxyTarget(Struct, frozen=True):
    """The destination of a request."""

    url: str
    """The URL in the program's spelling: at the proxy, or elsewhere if it uses the proxy as a forward proxy."""
    address: str
    """The address to forward to; empty if a replay does not know it."""
    upstream: str = ""

    @property
    def api_url(self) -> str:
        """The URL by which the API is recognised. SDKs that expect the version in Anthropic's address add paths without
        it."""
        if self.upstream in _ANTHROPIC:
            return _SHORT.sub("/v1/messages", self.url)
        return self.url


def route_request(request: web.BaseRequest, plan: ProgramPlan, process_log: ProcessLog) -> ProxyTarget:
    """Return the target of a request, or raise `ProxyRefusal`; connections that a replay stops are logged."""
    path = request.raw_path
    is_elsewhere = path.startswith("http://") and not path.startswith(f"{plan.proxy}/")
    is_secure = request.method == "CONNECT" or path.startswith("https://")
    if (is_elsewhere or is_secure) and not has_credentials(plan.token, request.headers):
        raise ProxyRefusal(NEEDS_CREDENTIALS, _unauthorized_text(plan))
    if is_secure:
        raise _refuse_tls(request, path.removeprefix("https://").partition("/")[0], plan, process_log)
    if is_elsewhere:
        return ProxyTarget(path, path)
    path = path.removeprefix(plan.proxy)
    # DNS rebinding could lead a page in a browser here; it must not read recordings.
    if not _is_own(request.headers.get("host", "")):
        raise ProxyRefusal(FORBIDDEN, "this proxy answers to its own machine only")
    if not is_authorized(plan.token, path, request.headers):
        # Requests for well-known paths at the root of a host get a plain 404.
        is_known = split_target(path, plan.upstreams)[0] in plan.upstreams
        raise ProxyRefusal(FORBIDDEN if is_known else NOT_HERE, _unauthorized_text(plan))
    name, rest = split_target(path, plan.upstreams)
    if request.headers.get("upgrade", "").lower() == "websocket":
        place = urlsplit(plan.upstreams.get(name, "")).netloc or name
        _note_refused(UnrecordedKind.WEBSOCKET, place, request, process_log)
        raise ProxyRefusal(FORBIDDEN, "websockets cannot be recorded or replayed")
    if name not in plan.upstreams:
        known = nearest(name, plan.upstreams)
        raise ProxyRefusal(NOT_HERE, f"no upstream {name!r}; {known}\nName it: --upstream {name or 'NAME'}=URL")
    url = f"{plan.proxy}/{name}{rest}"
    address = upstream_address(url, plan.proxy, plan.upstreams) if plan.upstreams[name] else ""
    return ProxyTarget(url, address, name)


def _note_refused(kind: UnrecordedKind, place: str, request: web.BaseRequest, process_log: ProcessLog) -> None:
    """Note in a recording what the proxy had to refuse."""
    if process_log.session.unrecorded is None:
        return
    agent = request.headers.get("user-agent", "").partition("/")[0]
    program = sayable(_client_process(_ends(request))[0] or agent or "a program")
    without_user = sayable(place.rpartition("@")[2])
    refused = Unrecorded(kind=kind, place=without_user, program=program, effect=UnrecordedEffect.REFUSED)
    process_log.session.unrecorded.note(refused)


def _ends(request: web.BaseRequest) -> ConnectionEnds:
    if request.transport is None:
        return None, None
    return request.transport.get_extra_info("peername"), request.transport.get_extra_info("sockname")


def _unauthorized_text(plan: ProgramPlan) -> str:
    return f"this proxy serves the program that is {_DONE[plan.mode]} here, and no other\n{_HOW}"


@lru_cache(maxsize=16)  # called for every request with few different hosts; parsing one takes 1.4 µs
def _is_own(host: str) -> bool:
    return urlsplit(f"//{host}").hostname in _OWN_NAMES


def _refuse_tls(request: web.BaseRequest, place: str, plan: ProgramPlan, process_log: ProcessLog) -> ProxyRefusal:
    """Refuse TLS, whose contents cannot be recorded or served. Connections within the program need no proxy; the guard
    in Node asks here whether one is."""
    if plan.mode is Mode.REPLAY and process_log.own_servers is not None and process_log.own_servers.may_be_at(place):
        return ProxyRefusal(NOT_HERE, f"{place} is the program's own: connect to it directly")
    network = None if process_log.own_servers is None else process_log.own_servers.network
    caller = describe_client(_ends(request), request.headers.get("user-agent", ""), network)
    text = f"a live connection to {place} was stopped: {caller} tried"
    if plan.mode is Mode.REPLAY:
        process_log.add_deviation(text)
        return ProxyRefusal(FORBIDDEN, text)
    _note_refused(UnrecordedKind.CONNECTION, place, request, process_log)
    return ProxyRefusal(FORBIDDEN, f"{text}\nRecord it: --upstream NAME=https://{place.removesuffix(':443')}")
