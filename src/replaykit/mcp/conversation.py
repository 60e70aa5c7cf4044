"""One client and one server, whatever carries their messages.

Each request of the client is a call at the seam. What the handler lets through goes to the server, and `live` writes
down what comes of it; what the handler answers is given as a `script`, and no server is needed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from replaykit.errors import ReplayKitError
from replaykit.mcp.backstage import Backstage
from replaykit.mcp.calls import (
    EXCHANGE,
    MISS,
    call_of,
    exit_code_of,
    gone_name,
    refusal,
    response_of,
    rpc_error,
)
from replaykit.mcp.items import CLIENT, SERVER
from replaykit.mcp.live import Live, Open
from replaykit.mcp.messages import (
    CANCELLED,
    INITIALIZED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PING,
    Message,
    failure,
    id_key,
    is_notification,
    is_request,
    is_response,
    params_of,
)
from replaykit.mcp.script import Outlet, Script, give
from replaykit.model.diff import brief
from replaykit.model.events import Call, ErrorInfo
from replaykit.model.values import Json
from replaykit.seam.scope import Answer, Outcome, PendingCall, Scope, Session, pending_call

Later = Callable[[float, Callable[[], None]], object]
"""Do something after so many seconds, while everything else goes on."""


def in_a_thread(seconds: float, do: Callable[[], None]) -> None:
    """Do it in a thread of its own."""
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()


class Conversation:
    """What is said on one connection. Safe to be told from two threads, one for each side."""

    def __init__(
        self,
        server: str,
        session: Session,
        aside: Outlet,
        *,
        has_server: bool,
        later: Later = in_a_thread,
        backstage: Backstage | None = None,
    ) -> None:
        self.aside = aside
        self.live = Live(server, session)
        self.gone: int | None = None
        """In a replay: the exit code of the server, where it has ended."""
        self._server = server
        self._session = session
        self._has_server = has_server
        self._later = later
        self._backstage = backstage or Backstage(server)
        self._lock = threading.RLock()
        self._playing: dict[bytes, Script] = {}
        self._held: deque[Script] = deque()  # what the server says on its own, once the client is ready for it

    def begin(self) -> None:
        """Say what the server said before it was asked anything."""
        with self._lock:
            self._follow(None, None)
            self._release()

    def from_client(self, message: Message, outlet: Outlet) -> bool:
        """Take a message of the client; True when it is to be passed on to the server."""
        with self._lock:
            if is_request(message):
                return self._request(message, outlet)
            if is_notification(message) or is_response(message):
                return self._told(message)
            if self._has_server:
                self.live.note("hears what is no message", message)
            else:
                outlet.send(failure(message.get("id"), INVALID_REQUEST, "no request, no notification and no answer"))
            return self._has_server

    def from_server(self, message: Message, *, inside: Open | None = None, aside: bool = False) -> Message:
        """Take a message of the server, on its way to the client; gives what is passed on, which a fault may change."""
        with self._lock:
            if is_request(message) or is_notification(message) or is_response(message):
                return self.live.server_says(message, inside=inside, aside=aside)
            self.live.note("says what is no message", message)
            return message

    def pause_s(self, messages: Iterable[Message]) -> float:
        """How long a fault holds requests back in earnest, before they are passed on."""
        with self._lock:
            calls = [self.live.find(message) for message in messages if is_request(message)]
        return max((_pause_of(call.call) for call in calls if call is not None), default=0.0)

    def garbage(self, who: str, text: bytes) -> None:
        """Something came that is no message at all."""
        with self._lock:
            verb = "hears" if who == CLIENT else "says"
            self.live.note(f"{verb} what is no message", text.decode("utf-8", "backslashreplace"))

    def cancel(self, request_id: Json) -> None:
        """The client does not wait any longer for an answer that is being given."""
        with self._lock:
            script = self._playing.pop(id_key(request_id), None)
            if script is not None:
                script.cancel()

    def end(self, error: ErrorInfo | None = None, *, server_first: bool = False) -> None:
        """The connection is over: with an error what is under way ended in it; it was closed by the client or by a
        server that went first."""
        with self._lock:
            if error is not None and server_first:
                self.live.server_ended(error)
            else:
                self.live.end(error)

    def is_drained(self) -> bool:
        """True when every recorded answer has been given."""
        return self._backstage.is_drained()

    def ask(self, script: Script, recorded_id: Json) -> Json:
        """An id for a request to the client."""
        return self._backstage.ask(script, recorded_id)

    def differs(self, name: str, recorded: Message, given: Message) -> None:
        """The client answered the server otherwise than it did."""
        was, is_ = (brief(message.get("result", message.get("error"))) for message in (recorded, given))
        self._backstage.tell(f"`{name}`: the client answered the server with {is_}, recorded was {was}", "answer")

    def _request(self, request: Message, outlet: Outlet) -> bool:
        self._release()
        if request["method"] == PING:  # whether the other side is there says nothing of what it does
            if self._has_server:
                self.live.pinged(CLIENT, request)
            else:
                outlet.send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
            return self._has_server
        call = call_of(self._session.root, self._server, request)
        try:
            answer = self._answer(call, request["method"])
        except ReplayKitError as error:
            outlet.send(refusal(error, call, request["id"]))
            return False
        if answer is None and self._has_server:
            self.live.begin(call, request)
            return True
        self._play(request, call, answer or self._cannot(call), outlet)
        return False

    def _answer(self, call: PendingCall, method: str) -> Answer | None:
        """The handler's answer; what only describes the server may be asked more often than it was recorded."""
        again = self._backstage.again(call)
        if again is not None:
            self._backstage.tell(f"`{call.name}` was asked again: the last answer was repeated", "repeated")
            return self._logged(call, again)
        if method == "server/discover" and self._backstage.handshakes() and not self._backstage.knows(method):
            self._backstage.tell(f"`{call.name}`: the recorded client began with `initialize`", "handshake")
            return self._logged(call, rpc_error(METHOD_NOT_FOUND, "Method not found: server/discover"))
        answer = self._session.handler.serve(call)
        self._backstage.given(_recorded(call, answer))
        return answer

    def _cannot(self, call: PendingCall) -> Answer:
        text = f"`{call.name}` is to be done for real, but no MCP server is started in a replay"
        return self._logged(call, rpc_error(MISS, text))

    def _logged(self, call: PendingCall, answer: Answer) -> Answer:
        outcome = Outcome(
            result_json=answer.result_json, error=answer.error, items_json=answer.items_json, complete=answer.complete
        )
        self._session.handler.settle(call, outcome, 0.0)
        return answer

    def _play(self, request: Message, call: PendingCall, answer: Answer, outlet: Outlet) -> None:
        key = id_key(request["id"])
        recorded = _recorded(call, answer)
        meanwhile = None if recorded is None else self._backstage.meanwhile(recorded)
        if meanwhile is not None:
            self._say_again(meanwhile, call.seq)
        script = Script(self, call.name, (meanwhile and meanwhile.items) or (), outlet, request)

        def at_end() -> None:
            if answer.complete:  # otherwise it can still be given up
                self._playing.pop(key, None)
            give(answer, request, call.kind, outlet)
            self.gone = exit_code_of(answer) if self.gone is None else self.gone
            if isinstance(recorded, Call):
                self._follow(recorded.seq, call.seq)
            if request["method"] != "initialize":  # after that the client speaks first
                self._release()

        script.at_end = at_end
        self._playing[key] = script
        if wait_s := _pause_of(call):
            self._later(wait_s, lambda: self._go_on(script))
        else:
            script.go_on()

    def _go_on(self, script: Script) -> None:
        with self._lock:
            script.go_on()

    def _told(self, message: Message) -> bool:
        if is_response(message):
            waits = self._backstage.asked(message.get("id"))
            if waits is not None:
                script, recorded_id = waits
                script.hear(recorded_id, message)
                return False
        elif message["method"] == CANCELLED:
            self.cancel(params_of(message).get("requestId"))
        self.live.client_says(message)
        if message.get("method") == INITIALIZED:
            self._release()
        return self._has_server

    def _follow(self, recorded: int | None, seq: int | None) -> None:
        """Let what the server said on its own after a call be said after it again."""
        calls = self._backstage.unasked(recorded)
        if not calls:
            return
        for call in calls:
            self._say_again(call, seq)
        steps = [step for call in calls for step in _steps_of(call, self._server)]
        script = Script(self, f"MCP {self._server}", steps, self.aside)
        if calls[-1].name == gone_name(self._server):
            script.at_end = lambda: setattr(self, "gone", exit_code_of(calls[-1]))
        self._held.append(script)

    def _say_again(self, recorded: Call, parent: int | None) -> None:
        """Write down that what no client asked for was said again."""
        scope = Scope(self._session, path=recorded.path, parent=parent)
        self._logged(pending_call(EXCHANGE, recorded.name, bytes(recorded.request_json), scope, time.time()), recorded)
        self._backstage.given(recorded)

    def _release(self) -> None:
        while self._held:
            self._held.popleft().go_on()


def _recorded(call: PendingCall, answer: Answer | None) -> Answer | None:
    """The answer that was on the tape, where a fault made another one of it."""
    return answer if call.injected is None or call.injected.instead_of is None else call.injected.instead_of


def _pause_of(call: PendingCall) -> float:
    return 0.0 if call.injected is None else call.injected.wait_s


def _steps_of(call: Call, server: str) -> Iterator[Json]:
    """One thing that the server said on its own, as steps of a script."""
    verb, _, method = call.name.removeprefix(f"MCP {server} ").partition(" ")
    params = {"params": call.arguments} if call.arguments else {}
    if verb == "says":
        yield {"from": SERVER, "message": {"method": method, **params}}
    elif verb == "asks":
        yield {"from": SERVER, "message": {"id": call.seq, "method": method, **params}}
        if call.answered:
            yield {"from": CLIENT, "message": response_of(call, call.seq)}
