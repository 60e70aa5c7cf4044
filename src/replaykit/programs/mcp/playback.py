"""A recorded MCP server: its calls, which of them have been served so far, and its answers, given again.

First comes what the server said on the way to an answer, in its order, then the answer. Where the server asked the
client something, the playback waits until the client has answered.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from replaykit.model.diff import brief
from replaykit.model.events import Call
from replaykit.model.values import Json, JsonObject
from replaykit.programs.mcp.messages import (
    CANCELLED,
    DESCRIBING,
    SERVER,
    Message,
    attached,
    http_error_of,
    id_key,
    interim_name,
    is_answered,
    is_client_call,
    is_request,
    is_response,
    params_of,
    response_of,
    same_answer,
    with_param,
)
from replaykit.seam.scope import CallAnswer, PendingCall


class MessageSink(Protocol):
    """A destination for the messages of a server."""

    def send(self, message: Message) -> None:
        """Give the client a message."""

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        """A request gets no JSON-RPC answer: as it was recorded, or (None) because the client gave it up."""


class AnswerPlayback:
    """One answer on its way."""

    def __init__(
        self,
        server: RecordedServer,
        name: str,
        steps: Iterable[Json],
        *,
        sink: MessageSink,
        aside: MessageSink,
        request: Message | None = None,
    ) -> None:
        """`aside` takes what the server says on a stream of its own."""
        self.name = name
        self.request = request or {}
        self._server = server
        self._steps = deque(filter(_is_step, steps))
        self._sink = sink
        self._aside = aside
        self._sent: dict[bytes, Json] = {}  # ids of the recording → ids that the client was sent
        self._answered_ids: set[bytes] = set()
        self.at_end: Callable[[], None] = lambda: None

    def go_on(self) -> None:
        """Say what is due, up to the next thing that the client has to do, or to the end."""
        while self._steps:
            if not self._take(self._steps[0]):
                return
            self._steps.popleft()
        at_end, self.at_end = self.at_end, lambda: None
        at_end()

    def receive(self, recorded_id: bytes, answer: Message) -> None:
        """The client answered what the script asked."""
        self._answered_ids.add(recorded_id)
        for step in self._steps:
            message = step["message"]
            if step["from"] != SERVER and is_response(message) and id_key(message.get("id")) == recorded_id:
                if not same_answer(message, answer):
                    self._report_difference(message, answer)
                break
        self.go_on()

    def cancel(self) -> None:
        """The client gave it up."""
        self._steps.clear()
        self.at_end = lambda: None
        self._sink.end_request(self.request, None)

    def _take(self, step: JsonObject) -> bool:
        message: Message = step["message"]
        if step["from"] == SERVER:
            self._say(message, self._aside if step.get("aside") else self._sink)
        elif is_response(message):
            key = id_key(message.get("id"))
            return key in self._answered_ids or key not in self._sent
        return True

    def _say(self, message: Message, sink: MessageSink) -> None:
        own = attached(message, self.request)
        if own is None:
            return
        if is_request(own):
            sent = self._server.register_request(self, own["id"])
            self._sent[id_key(own["id"])] = sent
            own = {**own, "id": sent}
        elif own.get("method") == CANCELLED:
            key = id_key(params_of(own).get("requestId"))
            if key in self._sent:
                own = with_param(own, "requestId", self._sent[key])
        sink.send({"jsonrpc": "2.0", **own})

    def _report_difference(self, recorded: Message, actual: Message) -> None:
        before, now = (brief(message.get("result", message.get("error"))) for message in (recorded, actual))
        self._server.report(
            f"`{self.name}`: the client answered the server with {now}, recorded was {before}", "answer"
        )


def send_answer(answer: CallAnswer, request: Message, kind: str, sink: MessageSink) -> None:
    """The answer itself, at the end of its script."""
    if is_answered(answer) and http_error_of(answer) is None:
        sink.send(attached(response_of(answer, request["id"], kind), request) or {})
    else:
        sink.end_request(request, answer)


def _is_step(step: Json) -> bool:
    return isinstance(step, dict) and "from" in step and isinstance(step.get("message"), dict)


ReportDeviation = Callable[[str, str], None]
"""Write down that a client left the tape: in words, and the kind of deviation."""


class RecordedServer:
    """Shared by all conversations with a server in one process. What other processes were asked has a path."""

    def __init__(
        self, server: str, recorded: Iterable[Call] = (), report: ReportDeviation = lambda text, kind: None
    ) -> None:
        self.report = report
        self._server = server
        self._calls = [call for call in recorded if call.name.startswith((f"MCP {server} ", f"{server}."))]
        self._served: set[int] = set()
        self._descriptions: dict[tuple[str, bytes], deque[Call]] = {}
        self._interim_calls: dict[int | None, Call] = {}
        self._after: dict[int | None, list[Call]] = {}
        self._numbers = itertools.count(1)
        self._client_requests: dict[bytes, tuple[AnswerPlayback, bytes]] = {}
        describing = {f"MCP {server} {method}" for method in DESCRIBING}
        for call in self._calls:
            if call.name in describing:
                self._descriptions.setdefault((call.name, bytes(call.request_json)), deque()).append(call)
            elif call.name == interim_name(server):
                self._interim_calls[call.parent] = call
            elif not is_client_call(server, call) and (call.parent is not None or not call.path):
                self._after.setdefault(call.parent, []).append(call)

    def mark_served(self, answer: CallAnswer | None) -> None:
        """Note that a recorded answer was served."""
        if isinstance(answer, Call):
            self._served.add(answer.seq)

    def is_drained(self) -> bool:
        """True when every recorded answer has been given."""
        return all(call.seq in self._served for call in self._calls if call.complete and not call.path)

    def repeatable_answer(self, call: PendingCall) -> Call | None:
        """The last answer to a question about the server that has been asked as often as it was recorded."""
        known = self._descriptions.get((call.name, call.arguments))
        if known and all(recorded.seq in self._served for recorded in known):
            return known[-1]
        return None

    def has_method(self, method: str) -> bool:
        """True when a request of that method was recorded."""
        return any(call.name == f"MCP {self._server} {method}" for call in self._calls)

    def handshakes(self) -> list[Call]:
        """The recorded `initialize` requests."""
        return [call for call in self._calls if call.name == f"MCP {self._server} initialize"]

    def interim_call(self, answer: CallAnswer | None) -> Call | None:
        """Return the messages that were exchanged before a recorded answer."""
        if not isinstance(answer, Call):
            return None
        return self._interim_calls.get(answer.seq)

    def server_messages_after(self, after: int | None) -> list[Call]:
        """Return and remove what the server sent on its own after a recorded call."""
        return self._after.pop(after, [])

    def register_request(self, playback: AnswerPlayback, recorded_id: Json) -> int:
        """An id, like no other, for a request to the client whose answer the script waits for."""
        number = next(self._numbers)
        self._client_requests[id_key(number)] = (playback, id_key(recorded_id))
        return number

    def take_request(self, sent_id: Json) -> tuple[AnswerPlayback, bytes] | None:
        """Return the playback that waits for the answer to this id, and the recorded id."""
        return self._client_requests.pop(id_key(sent_id), None)
