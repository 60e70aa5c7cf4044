"""One connection of a client with a server, over any transport.

Each request of the client is a call at the seam. A request that the handler lets through goes to the server, and `live`
records its outcome. A request that the handler answers gets a playback and needs no server.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from replaykit.errors import ReplayKitError
from replaykit.model.events import Call, ErrorInfo
from replaykit.model.values import Json
from replaykit.programs.mcp.messages import (
    CANCELLED,
    CLIENT,
    EXCHANGE,
    INITIALIZED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISS,
    PING,
    SERVER,
    Message,
    call_of,
    exit_code_of,
    failure,
    id_key,
    is_notification,
    is_request,
    is_response,
    miss_response,
    params_of,
    response_of,
    rpc_error,
    server_end_name,
)
from replaykit.programs.mcp.pending_requests import PendingRequest, PendingRequests
from replaykit.programs.mcp.playback import AnswerPlayback, MessageSink, RecordedServer, send_answer
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall, RunSession, Scope, pending_call

ScheduleLater = Callable[[float, Callable[[], None]], object]
"""Schedules a function after so many seconds, without blocking."""


def run_later(seconds: float, do: Callable[[], None]) -> None:
    """Call a function later, in a thread of its own."""
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()


class McpConversation:
    """The messages of one connection. Safe to use from two threads, one for each side."""

    def __init__(
        self,
        server: str,
        session: RunSession,
        aside: MessageSink,
        *,
        has_server: bool,
        later: ScheduleLater = run_later,
        recorded_server: RecordedServer | None = None,
    ) -> None:
        self.aside = aside
        self.live = PendingRequests(server, session)
        self.gone: int | None = None
        """In a replay: the exit code of the server, once it has ended."""
        self._server = server
        self._session = session
        self._has_server = has_server
        self._later = later
        self._recorded_server = recorded_server or RecordedServer(server)
        self._lock = threading.RLock()
        self._playbacks: dict[bytes, AnswerPlayback] = {}
        # Messages that the server sends on its own, once the client is ready for them.
        self._deferred: deque[AnswerPlayback] = deque()

    def begin(self) -> None:
        """Send the messages that the server sent before the first request."""
        with self._lock:
            self._follow(None, None)
            self._release()

    def from_client(self, message: Message, sink: MessageSink) -> bool:
        """Handle a message of the client; return True if it is to be forwarded to the server."""
        with self._lock:
            if is_request(message):
                return self._request(message, sink)
            if is_notification(message) or is_response(message):
                return self._notification_or_answer(message)
            if self._has_server:
                self.live.note("hears what is no message", message)
            else:
                sink.send(failure(message.get("id"), INVALID_REQUEST, "no request, no notification and no answer"))
            return self._has_server

    def from_server(self, message: Message, *, inside: PendingRequest | None = None, aside: bool = False) -> Message:
        """Record a message of the server, and return the message to pass on, which a fault may change."""
        with self._lock:
            if is_request(message) or is_notification(message) or is_response(message):
                return self.live.server_says(message, inside=inside, aside=aside)
            self.live.note("says what is no message", message)
            return message

    def pause_s(self, messages: Iterable[Message]) -> float:
        """Return how long a fault delays requests before they are forwarded."""
        with self._lock:
            pending = filter(None, map(self.live.find, filter(is_request, messages)))
            return max((_pause_of(request.call) for request in pending), default=0.0)

    def garbage(self, who: str, text: bytes) -> None:
        """Note input that is not a message."""
        with self._lock:
            verb = "hears" if who == CLIENT else "says"
            self.live.note(f"{verb} what is no message", text.decode("utf-8", "backslashreplace"))

    def cancel(self, request_id: Json) -> None:
        """Cancel an answer that the client no longer waits for."""
        with self._lock:
            if playback := self._playbacks.pop(id_key(request_id), None):
                playback.cancel()

    def end(self, error: ErrorInfo | None = None, *, server_first: bool = False) -> None:
        """Note the end of the connection: pending requests end with the error. The client closed it, or with
        `server_first` the server."""
        with self._lock:
            if error is not None and server_first:
                self.live.server_ended(error)
            else:
                self.live.end(error)

    def is_drained(self) -> bool:
        """True if every recorded answer was given."""
        return self._recorded_server.is_drained()

    def _request(self, request: Message, sink: MessageSink) -> bool:
        self._release()
        if request["method"] == PING:  # pings are not part of a recording
            if self._has_server:
                self.live.pinged(CLIENT, request)
            else:
                sink.send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
            return self._has_server
        call = call_of(self._session.root, self._server, request)
        try:
            answer = self._answer(call, request["method"])
        except ReplayKitError as error:
            sink.send(miss_response(error, call, request["id"]))
            return False
        if answer is None and self._has_server:
            self.live.begin(call, request)
            return True
        if answer is None:
            text = f"`{call.name}` is to be done for real, but no MCP server is started in a replay"
            answer = self._logged(call, rpc_error(MISS, text))
        self._play(request, call, answer, sink)
        return False

    def _answer(self, call: PendingCall, method: str) -> CallAnswer | None:
        """Return the handler's answer; requests that only describe the server may be repeated."""
        # Clients list tools as often as they like, and again after each reconnect.
        again = self._recorded_server.repeatable_answer(call)
        if again is not None:
            self._recorded_server.report(f"`{call.name}` was asked again: the last answer was repeated", "repeated")
            return self._logged(call, again)
        if (
            method == "server/discover"
            and self._recorded_server.handshakes()
            and not self._recorded_server.has_method(method)
        ):
            self._recorded_server.report(f"`{call.name}`: the recorded client began with `initialize`", "handshake")
            return self._logged(call, rpc_error(METHOD_NOT_FOUND, "Method not found: server/discover"))
        answer = self._session.handler.serve(call)
        self._recorded_server.mark_served(_recorded(call, answer))
        return answer

    def _logged(self, call: PendingCall, answer: CallAnswer) -> CallAnswer:
        outcome = Outcome(
            result_json=answer.result_json, error=answer.error, items_json=answer.items_json, complete=answer.complete
        )
        self._session.handler.settle(call, outcome, 0.0)
        return answer

    def _play(self, request: Message, call: PendingCall, answer: CallAnswer, sink: MessageSink) -> None:
        key = id_key(request["id"])
        recorded = _recorded(call, answer)
        meanwhile = self._recorded_server.interim_call(recorded)
        steps: Iterable[Json] = ()
        if meanwhile is not None:
            self._say_again(meanwhile, call.seq)
            steps = meanwhile.items or ()
        playback = AnswerPlayback(self._recorded_server, call.name, steps, sink=sink, aside=self.aside, request=request)

        def at_end() -> None:
            if answer.complete:  # an incomplete one can still be cancelled
                self._playbacks.pop(key, None)
            send_answer(answer, request, call.kind, sink)
            self.gone = exit_code_of(answer) if self.gone is None else self.gone
            if isinstance(recorded, Call):
                self._follow(recorded.seq, call.seq)
            if request["method"] != "initialize":  # after that, it is the client's turn
                self._release()

        playback.at_end = at_end
        self._playbacks[key] = playback
        if wait_s := _pause_of(call):
            self._later(wait_s, lambda: self._go_on(playback))
        else:
            playback.go_on()

    def _go_on(self, playback: AnswerPlayback) -> None:
        with self._lock:
            playback.go_on()

    def _notification_or_answer(self, message: Message) -> bool:
        if is_response(message):
            waits = self._recorded_server.take_request(message.get("id"))
            if waits is not None:
                playback, recorded_id = waits
                playback.receive(recorded_id, message)
                return False
        elif message["method"] == CANCELLED:
            self.cancel(params_of(message).get("requestId"))
        self.live.client_says(message)
        if message.get("method") == INITIALIZED:
            self._release()
        return self._has_server

    def _follow(self, recorded: int | None, seq: int | None) -> None:
        """Schedule the messages that the server sent on its own after a recorded call."""
        calls = self._recorded_server.server_messages_after(recorded)
        if not calls:
            return
        for call in calls:
            self._say_again(call, seq)
        steps = [step for call in calls for step in _steps_of(call, self._server)]
        name = f"MCP {self._server}"
        playback = AnswerPlayback(self._recorded_server, name, steps, sink=self.aside, aside=self.aside)
        if calls[-1].name == server_end_name(self._server):
            playback.at_end = lambda: setattr(self, "gone", exit_code_of(calls[-1]))
        self._deferred.append(playback)

    def _say_again(self, recorded: Call, parent: int | None) -> None:
        """Record that an unsolicited message was sent again."""
        scope = Scope(self._session, path=recorded.path, parent=parent)
        self._logged(pending_call(EXCHANGE, recorded.name, bytes(recorded.request_json), scope, time.time()), recorded)
        self._recorded_server.mark_served(recorded)

    def _release(self) -> None:
        while self._deferred:
            self._deferred.popleft().go_on()


def _recorded(call: PendingCall, answer: CallAnswer | None) -> CallAnswer | None:
    """Return the answer from the tape, even if a fault replaced it."""
    if call.injected is None or call.injected.instead_of is None:
        return answer
    return call.injected.instead_of


def _pause_of(call: PendingCall) -> float:
    return 0.0 if call.injected is None else call.injected.wait_s


def _steps_of(call: Call, server: str) -> Iterator[Json]:
    """Yield an unsolicited message of the server as steps of a playback."""
    verb, _, method = call.name.removeprefix(f"MCP {server} ").partition(" ")
    params = {"params": call.arguments} if call.arguments else {}
    if verb == "says":
        yield {"from": SERVER, "message": {"method": method, **params}}
    elif verb == "asks":
        yield {"from": SERVER, "message": {"id": call.seq, "method": method, **params}}
        if call.answered:
            yield {"from": CLIENT, "message": response_of(call, call.seq)}
