"""Where a request at the proxy is to go, or why it goes nowhere."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct

from replaykit.errors import nearest
from replaykit.model.unrecorded import Effect, Kind, Unrecorded
from replaykit.model.values import sayable
from replaykit.programs.access import has_credentials, is_handed
from replaykit.programs.naming import address_behind, split_target
from replaykit.programs.part import Part
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.refusal import FORBIDDEN, NEEDS_CREDENTIALS, NOT_HERE, Ends, Refused, program_at, who

_ANTHROPIC = ("anthropic", "anthropic_api")
_SHORT = re.compile(r"(?<!/v1)/messages(?=$|\?)")
_DONE = {Mode.RECORD: "recorded", Mode.REPLAY: "replayed"}
_HOW = "Its address with the token: $REPLAYKIT_PROXY, in the environment of that program."
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "::1", None})


class Target(Struct, frozen=True):
    """What a request is for."""

    url: str
    """As the program spells it: at the proxy, or elsewhere when it takes this for its forward proxy."""
    address: str
    """Where it is passed on to; nothing where a replay knows only that the recording went there."""
    upstream: str = ""

    @property
    def api_url(self) -> str:
        """The URL that tells which API it speaks: where SDKs take an address of Anthropic's to hold the version, the
        path that they add to it does not."""
        return _SHORT.sub("/v1/messages", self.url) if self.upstream in _ANTHROPIC else self.url


def target_of(request: web.BaseRequest, plan: Plan, part: Part) -> Target:
    """The target of a request; `Refused` where there is none. The part hears of connections that a replay stops."""
    path = request.raw_path
    is_elsewhere = path.startswith("http://") and not path.startswith(f"{plan.proxy}/")
    is_secure = request.method == "CONNECT" or path.startswith("https://")
    if (is_elsewhere or is_secure) and not has_credentials(plan.token, request.headers):
        raise Refused(NEEDS_CREDENTIALS, _stranger(plan))
    if is_secure:
        raise _stopped(request, path.removeprefix("https://").partition("/")[0], plan, part)
    if is_elsewhere:
        return Target(path, path)
    path = path.removeprefix(plan.proxy)
    # A page in a browser may be led here by a name that somebody else owns; it must not read recordings.
    if not _is_own(request.headers.get("host", "")):
        raise Refused(FORBIDDEN, "this proxy answers to its own machine only")
    if not is_handed(plan.token, path, request.headers):
        # What clients look for at the root of a host (`/.well-known/…`) is not here, and never was.
        is_known = split_target(path, plan.upstreams)[0] in plan.upstreams
        raise Refused(FORBIDDEN if is_known else NOT_HERE, _stranger(plan))
    name, rest = split_target(path, plan.upstreams)
    if request.headers.get("upgrade", "").lower() == "websocket":
        _note_refused(Kind.WEBSOCKET, urlsplit(plan.upstreams.get(name, "")).netloc or name, request, part)
        raise Refused(FORBIDDEN, "websockets cannot be recorded or replayed")
    if name not in plan.upstreams:
        known = nearest(name, plan.upstreams)
        raise Refused(NOT_HERE, f"no upstream {name!r}; {known}\nName it: --upstream {name or 'NAME'}=URL")
    url = f"{plan.proxy}/{name}{rest}"
    return Target(url, address_behind(url, plan.proxy, plan.upstreams) if plan.upstreams[name] else "", name)


def _note_refused(kind: Kind, place: str, request: web.BaseRequest, part: Part) -> None:
    """Note while recording what the proxy could only refuse."""
    if part.session.unrecorded is not None:
        program = program_at(_ends(request)) or request.headers.get("user-agent", "").partition("/")[0] or "a program"
        without_user = sayable(place.rpartition("@")[2])
        one = Unrecorded(kind=kind, place=without_user, program=sayable(program), effect=Effect.REFUSED)
        part.session.unrecorded.note(one)


def _ends(request: web.BaseRequest) -> Ends:
    if request.transport is None:
        return None, None
    return request.transport.get_extra_info("peername"), request.transport.get_extra_info("sockname")


def _stranger(plan: Plan) -> str:
    return f"this proxy serves the program that is {_DONE[plan.mode]} here, and nobody else\n{_HOW}"


@lru_cache(maxsize=16)
def _is_own(host: str) -> bool:
    return urlsplit(f"//{host}").hostname in _OWN_NAMES


def _stopped(request: web.BaseRequest, place: str, plan: Plan, part: Part) -> Refused:
    """TLS cannot be looked into: it would pass unrecorded, and be missing in the replay. What stays within the program
    needs no proxy; the guard in Node asks here whether it does."""
    if plan.mode is Mode.REPLAY and part.own is not None and part.own.may_be_at(place):
        return Refused(NOT_HERE, f"{place} is the program's own: connect to it directly")
    network = None if part.own is None else part.own.network
    caller = who(_ends(request), request.headers.get("user-agent", ""), network)
    text = f"a live connection to {place} was stopped: {caller} tried"
    if plan.mode is Mode.REPLAY:
        part.tell(text)
        return Refused(FORBIDDEN, text)
    _note_refused(Kind.CONNECTION, place, request, part)
    return Refused(FORBIDDEN, f"{text}\nRecord it: --upstream NAME=https://{place.removesuffix(':443')}")
