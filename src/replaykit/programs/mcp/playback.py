"""A recorded MCP server: its calls, and which of them were served, and the playback of its answers.

A playback sends the messages before an answer in their order, then the answer. If the server asked the client
something, it waits for the client's answer.
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
        """Send the client a message."""

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        """End a request without a JSON-RPC answer: as recorded, or (None) because the client cancelled it."""


class AnswerPlayback:
    """The playback of one answer."""

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
        """`aside` takes the messages that the server sends on a stream of its own."""
        self.name = name
        self.request = request or {}
        self._server = server
        self._steps = deque(filter(_is_step, steps))
        self._sink = sink
        self._aside = aside
        self._sent: dict[bytes, Json] = {}  # recorded ids → ids that the client got
        self._answered_ids: set[bytes] = set()
        self.at_end: Callable[[], None] = lambda: None

    def go_on(self) -> None:
        """Send messages up to the next one that needs the client, or to the end."""
        while self._steps:
            if not self._take(self._steps[0]):
                return
            self._steps.popleft()
        at_end, self.at_end = self.at_end, lambda: None
        at_end()

    def receive(self, recorded_id: bytes, answer: Message) -> None:
        """Take the client's answer to a recorded question."""
        self._answered_ids.add(recorded_id)
        for step in self._steps:
            message = step["message"]
            if step["from"] != SERVER and is_response(message) and id_key(message.get("id")) == recorded_id:
                if not same_answer(message, answer):
                    self._report_difference(message, answer)
                break
        self.go_on()

    def cancel(self) -> None:
        """Stop: the client cancelled the request."""
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
    """Send the answer itself, after the messages before it."""
    if is_answered(answer) and http_error_of(answer) is None:
        sink.send(attached(response_of(answer, request["id"], kind), request) or {})
    else:
        sink.end_request(request, answer)


def _is_step(step: Json) -> bool:
    return isinstance(step, dict) and "from" in step and isinstance(step.get("message"), dict)


ReportDeviation = Callable[[str, str], None]
"""Records a deviation of the client: its text and its kind."""


class RecordedServer:
    """The state that all conversations with a server in one process share. Calls of other processes have a path."""

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
        """True if every recorded answer was given."""
        return all(call.seq in self._served for call in self._calls if call.complete and not call.path)

    def repeatable_answer(self, call: PendingCall) -> Call | None:
        """Return the last answer to a question about the server whose recorded answers have all been served."""
        known = self._descriptions.get((call.name, call.arguments))
        if known and all(recorded.seq in self._served for recorded in known):
            return known[-1]
        return None

    def has_method(self, method: str) -> bool:
        """True if a request of that method was recorded."""
        return any(call.name == f"MCP {self._server} {method}" for call in self._calls)

    def handshakes(self) -> list[Call]:
        """Return the recorded `initialize` requests."""
        return [call for call in self._calls if call.name == f"MCP {self._server} initialize"]

    def interim_call(self, answer: CallAnswer | None) -> Call | None:
        """Return the exchange with the messages before a recorded answer."""
        if not isinstance(answer, Call):
            return None
        return self._interim_calls.get(answer.seq)

    def server_messages_after(self, after: int | None) -> list[Call]:
        """Return and remove the messages that the server sent on its own after a recorded call."""
        return self._after.pop(after, [])

    def register_request(self, playback: AnswerPlayback, recorded_id: Json) -> int:
        """Return a new id for a request to the client whose answer a playback waits for."""
        number = next(self._numbers)
        self._client_requests[id_key(number)] = (playback, id_key(recorded_id))
        return number

    def take_request(self, sent_id: Json) -> tuple[AnswerPlayback, bytes] | None:
        """Return the playback that waits for the answer to this id, and the recorded id."""
        return self._client_requests.pop(id_key(sent_id), None)
