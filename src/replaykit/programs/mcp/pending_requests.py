"""Requests that a real server answers, and the recording of the messages about them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

import msgspec

from replaykit.model.events import ErrorInfo, Note, WireInfo
from replaykit.model.values import NULL, Json, Raw, canonical, raw, sayable
from replaykit.programs.mcp.messages import (
    CANCELLED,
    CLIENT,
    EXCHANGE,
    HANDSHAKE,
    PING,
    SERVER,
    Message,
    attached,
    belongs,
    detached,
    id_key,
    interim_name,
    is_request,
    is_response,
    item,
    outcome_of,
    params_of,
    response_of,
    server_end_name,
    server_message_name,
    unanswered,
)
from replaykit.seam.scope import Outcome, PendingCall, RunSession, Scope, pending_call

_LASTING = "subscriptions/listen"
_KEPT_CHARS = 4000


class PendingRequest(msgspec.Struct, eq=False):
    """A request without an answer yet."""

    call: PendingCall
    request: Message
    items: list[Raw] = []
    wire: WireInfo | None = None
    began: float = msgspec.field(default_factory=time.perf_counter)


class PendingRequests:
    """The pending requests between one client and one server."""

    def __init__(self, server: str, session: RunSession) -> None:
        self._server = server
        self._session = session
        self._open: dict[int, PendingRequest] = {}  # by the number of the call, latest last
        self._by_id: dict[bytes, deque[PendingRequest]] = {}
        self._asking: dict[bytes, PendingRequest] = {}  # questions of the server inside a call
        self._unasked: dict[bytes, PendingRequest] = {}  # questions of the server outside of any call
        self._pings: dict[str, set[bytes]] = {CLIENT: set(), SERVER: set()}  # by sender
        self._last: int | None = None  # the latest call to end: unsolicited messages are placed after it

    def begin(self, call: PendingCall, request: Message) -> PendingRequest:
        """Note that a request goes to the server."""
        begun = PendingRequest(call, request)
        if request["method"] in HANDSHAKE:  # the client's description of itself, which is not part of the call
            begun.items.append(item(CLIENT, {"method": request["method"], "params": params_of(request)}, request))
        self._open[call.seq] = begun
        self._by_id.setdefault(id_key(request["id"]), deque()).append(begun)
        return begun

    def pinged(self, who: str, request: Message) -> None:
        """Note a ping, so that neither it nor its answer is recorded."""
        self._pings[who].add(id_key(request["id"]))

    def find(self, request: Message) -> PendingRequest | None:
        """Return the pending request for a message."""
        return self._of_id(request["id"], last=True)

    def forget(self, call: PendingRequest) -> None:
        """Drop a request that did not reach the server after all."""
        call.call.is_forgotten = True
        if self._open.pop(call.call.seq, None) is not None:
            self._leave(call)

    def client_says(self, message: Message) -> None:
        """Record an answer or a notification of the client."""
        if is_response(message):
            self._client_answers(message)
            return
        cancelled = self._of_id(params_of(message).get("requestId")) if message["method"] == CANCELLED else None
        inside = cancelled or self._latest()
        if inside is None:
            self.note(f"hears {message['method']}", message.get("params"))
            return
        inside.items.append(item(CLIENT, message, inside.request))
        if cancelled is not None:
            self.settle(cancelled, unanswered())

    def server_says(self, message: Message, *, inside: PendingRequest | None, aside: bool) -> Message:
        """Record a message of the server, and return the message for the client."""
        if is_response(message):
            answered = self._of_id(message.get("id"))
            if answered is not None:
                return self._answered(answered, message)
            if not self._is_pong(message, CLIENT):
                self.note("answers what nobody asked", message)
            return message
        if is_request(message) and message["method"] == PING:
            self.pinged(SERVER, message)
            return message
        owner = inside if inside is not None and inside.call.seq in self._open else self._owner(message)
        if owner is None:
            self._says_unasked(message)
            return message
        owner.items.append(item(SERVER, message, owner.request, aside=aside))
        if is_request(message):
            self._asking[id_key(message["id"])] = owner
        return message

    def _answered(self, call: PendingRequest, message: Message) -> Message:
        """Record the answer, changed if a fault says so, and return it."""
        outcome = outcome_of(detached(message, call.request))
        injected = call.call.injected
        outcome_sent = outcome if injected is None else injected.applied(outcome)
        self.settle(call, outcome_sent)  # type: ignore[arg-type]
        if outcome_sent is outcome:
            return message
        return attached(response_of(outcome_sent, message["id"], call.call.kind), call.request) or message

    def settle(self, call: PendingRequest, outcome: Outcome) -> None:
        """Record the end of a request."""
        if self._open.pop(call.call.seq, None) is None:
            return
        self._leave(call)
        self._last = call.call.seq
        if call.items:
            meanwhile = self._begun(interim_name(self._server), {"call": call.call.name}, call.call.seq)
            self._settle_own(meanwhile, Outcome(items_json=tuple(call.items)))
        outcome_sent = msgspec.structs.replace(outcome, wire=call.wire)
        self._session.handler.settle(call.call, outcome_sent, time.perf_counter() - call.began)

    def end(self, error: ErrorInfo | None = None, *, only: Iterable[PendingRequest] | None = None) -> bool:
        """Record pending requests as unanswered; return True if there were any."""
        requests = self._open.values() if only is None else only
        left = [request for request in requests if request.call.seq in self._open]
        for request in left:
            self.settle(request, unanswered(error))
        if only is None:
            for exchange in self._unasked.values():
                self._settle_own(exchange, unanswered())
            self._unasked.clear()
        return bool(left)

    def server_ended(self, error: ErrorInfo) -> None:
        """Note that the server is gone while the client is still there."""
        if not self.end(error):
            self._settle_own(self._begun(server_end_name(self._server), {}, self._last), unanswered(error))

    def note(self, what: str, content: Json = None) -> None:
        """Note a message that belongs to no call."""
        shortened = content[:_KEPT_CHARS] if isinstance(content, str) else content
        self._session.keep(Note, name=sayable(f"MCP {self._server} {what}"), content_json=raw(shortened))

    def _client_answers(self, message: Message) -> None:
        key = id_key(message.get("id"))
        inside, unasked = self._asking.pop(key, None), self._unasked.pop(key, None)
        if unasked is not None:
            self._settle_own(unasked, outcome_of(message))
        elif inside is not None and inside.call.seq in self._open:
            inside.items.append(item(CLIENT, message, inside.request))
        elif not self._is_pong(message, SERVER):
            self.note("hears an answer to nothing", message)

    def _is_pong(self, message: Message, asked_by: str) -> bool:
        """True for the answer to a ping."""
        key = id_key(message.get("id"))
        known = key in self._pings[asked_by]
        self._pings[asked_by].discard(key)
        return known

    def _says_unasked(self, message: Message) -> None:
        exchange = self._begun(server_message_name(self._server, message), message.get("params", {}), self._last)
        if is_request(message):
            self._unasked[id_key(message["id"])] = exchange
        else:
            self._settle_own(exchange, Outcome(result_json=NULL))

    def _begun(self, name: str, arguments: Json, parent: int | None) -> PendingRequest:
        """Begin an exchange of the server's own."""
        scope = Scope(self._session, path=self._session.root.path, parent=parent)
        return PendingRequest(pending_call(EXCHANGE, name, canonical(arguments), scope, time.time()), {})

    def _settle_own(self, exchange: PendingRequest, outcome: Outcome) -> None:
        self._session.handler.settle(exchange.call, outcome, time.perf_counter() - exchange.began)

    def _leave(self, call: PendingRequest) -> None:
        key = id_key(call.request["id"])
        self._by_id[key].remove(call)
        if not self._by_id[key]:
            del self._by_id[key]

    def _of_id(self, request_id: Json, *, last: bool = False) -> PendingRequest | None:
        waiting = self._by_id.get(id_key(request_id))
        if waiting:
            return waiting[-1 if last else 0]
        return None

    def _owner(self, message: Message) -> PendingRequest | None:
        """Return the request that a message of the server names, or else the latest one."""
        for pending in reversed(self._open.values()):
            if belongs(message, pending.request):
                return pending
        return self._latest()

    def _latest(self) -> PendingRequest | None:
        for pending in reversed(self._open.values()):
            if pending.request["method"] != _LASTING:
                return pending
        return None
