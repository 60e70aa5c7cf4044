"""Requests at the proxy: served from the tape, or passed on to their upstream and written down as they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from aiohttp import web
from yarl import URL

from replaykit.errors import Divergence, Unreplayable
from replaykit.programs.bodies import WHOLE_QUESTION, Body
from replaykit.programs.handing import drop, hand_back, hand_out
from replaykit.programs.naming import UPSTREAM, end_to_end, led_back
from replaykit.programs.pacing import RecordedPace
from replaykit.programs.part import Part
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.props import Endpoint
from replaykit.programs.refusal import BAD_REQUEST, MISS, NOT_HERE, Refused, refusal
from replaykit.programs.routing import Target, target_of
from replaykit.programs.upstreams import Answer, Upstreams
from replaykit.seam.http.call import HttpCall, HttpRequest, Served
from replaykit.seam.http.cleaning import SEEN
from replaykit.seam.http.request import WHOLE_BODY
from replaykit.seam.http.response import LEFT, header_pairs
from replaykit.seam.scope import Scope
from replaykit.wire.routes import api_of


class Relay:
    """Handles what comes to the proxy."""

    def __init__(self, plan: Plan, part: Part, upstreams: Upstreams) -> None:
        self.plan = plan
        self.part = part
        self.upstreams = upstreams
        self.pace = RecordedPace(part.tape_calls, plan.speed, part.tell)
        self.endpoints: Mapping[str, Endpoint] = {}
        """Those who answer for an upstream in a way of their own."""
        self.failure: Exception | None = None
        """The first thing that went wrong here, and not with a program or an upstream."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The response to one request."""
        try:
            target = target_of(request, self.plan, self.part)
            if request.headers.get("expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if target.upstream in self.endpoints:
                return await self.endpoints[target.upstream].answer(request, target.address)
            return await _Exchange(self, request, target).answered()
        except Refused as error:
            return refusal(error.status, error.message, target=request.raw_path)
        except (Divergence, Unreplayable) as error:
            kind = "replay_miss" if isinstance(error, Divergence) else "unreplayable"
            return refusal(MISS, str(error), kind=kind, target=request.raw_path)
        except web.RequestPayloadError as error:
            return refusal(BAD_REQUEST, f"the body of the request cannot be read: {error}", target=request.raw_path)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 (the edge: what could not be written must not look like an answer)
            self.failure = self.failure or error
            return drop(request)


class _Exchange:
    """One request, and what becomes of it."""

    def __init__(self, relay: Relay, request: web.BaseRequest, target: Target) -> None:
        self._relay = relay
        self._request = request
        self._target = target
        self._headers = header_pairs(request.raw_headers)
        # Its own process writes it down, and was told to do it for real; or it stays within the program.
        self._is_seen = SEEN in request.headers or (relay.part.own is not None and relay.part.own.takes(target.url))
        self._body = Body(self._limit(), request.headers.get("content-type", ""))
        self._call: HttpCall | None = None

    def _limit(self) -> int:
        """How much of the body is held. What is not written down is only passed on."""
        if self._is_seen:
            return 0
        kind = self._request.headers.get("content-type", "")
        return WHOLE_BODY if api_of(self._request.method, self._target.api_url, kind) is None else WHOLE_QUESTION

    async def answered(self) -> web.StreamResponse:
        """The response to it."""
        await self._body.read(self._request.content)
        try:
            if not self._is_seen and (self._relay.plan.mode is Mode.REPLAY or not self._body.is_large):
                await self._body.put_aside()
                self._begin()
            if self._call is not None and self._call.wait_s:
                await asyncio.sleep(self._call.wait_s)
            if self._call is not None and self._call.served is not None:
                return await self._served(self._call, self._call.served)
            return await self._passed_on()
        finally:
            self._body.close()

    async def _served(self, call: HttpCall, served: Served) -> web.StreamResponse:
        """Hand out a recorded response at its pace. One that a fault changed has its own."""
        if call.recorded is None:
            return await hand_out(self._request, served)
        with self._relay.pace.turn(call.recorded, served) as turn:
            return await hand_out(self._request, turn.response, turn)

    def _begin(self) -> None:
        """Write down what is asked. Of a large body that is only known when it has passed."""
        if self._call is not None or self._is_seen:
            return
        headers = self._headers
        if self._body.is_large:
            headers = (("content-type", "application/json"), *headers)
        asked = HttpRequest(
            method=self._request.method,
            url=self._target.url,
            headers=headers,
            body=self._body.known_by,
            api_url=self._target.api_url,
        )
        self._call = HttpCall(Scope(self._relay.part.session, path=""), asked)

    async def _passed_on(self) -> web.StreamResponse:
        """Ask the upstream, and hand back what it says as it says it."""
        upstream, address = self._target.upstream, self._target.address
        if not address:
            self._break(ConnectionError(f"nobody has said where {upstream} is"))
            raise Refused(NOT_HERE, f"where is {upstream!r}?\nSay it: --upstream {upstream}=URL")
        try:
            async with await self._ask(URL(address, encoded=True)) as answer:
                self._begin()
                if self._call is not None and self._call.is_altered:
                    return await self._altered(self._call, answer)
                return await hand_back(self._request, answer, self._call, self._marks(answer))
        except asyncio.CancelledError:
            self._break(BrokenPipeError(LEFT))
            raise
        except (aiohttp.ClientError, OSError) as error:
            self._break(ConnectionError(f"{address.partition('?')[0]}: {str(error) or type(error).__name__}"))
            return drop(self._request)

    def _marks(self, answer: Answer) -> dict[str, str]:
        """What the proxy says in the head of a response: who answered, and by which way to go on from there."""
        upstream, location = self._target.upstream, answer.header(b"location")
        if not upstream:
            return {}
        if location is None:
            return {UPSTREAM: upstream}
        way = led_back(location, self._target.address, upstream, self._relay.plan.upstreams[upstream])
        return {UPSTREAM: upstream, "location": way}

    async def _altered(self, call: HttpCall, answer: Answer) -> web.StreamResponse:
        """What a fault makes of the upstream's whole answer."""
        body = await answer.content.read()
        call.answered(answer.status, header_pairs(answer.raw_headers), reason=answer.reason)
        return await hand_out(self._request, call.altered(body))

    def _break(self, error: Exception) -> None:
        self._begin()
        if self._call is not None:
            self._call.broke(error)

    async def _ask(self, address: URL) -> Answer:
        headers = end_to_end(self._headers)
        if not self._is_seen:
            headers = [
                *(pair for pair in headers if pair[0].lower() != "accept-encoding"),
                ("accept-encoding", "identity"),
            ]
        body = self._body.passed_on() if self._body.is_large else self._body.whole
        return await self._relay.upstreams.ask(self._request.method, address, headers, body)
