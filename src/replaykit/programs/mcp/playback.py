"""A recorded answer, given again: first what the server said on the way to it, in its order, then the answer.

Where the server asked the client something, the script waits until the client has answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from replaykit.model.values import Json
from replaykit.programs.mcp.calls import http_error_of, is_answered, response_of, same_answer
from replaykit.programs.mcp.interim_messages import SERVER, attached
from replaykit.programs.mcp.messages import CANCELLED, Message, id_key, is_request, is_response, params_of, with_param
from replaykit.seam.scope import CallAnswer


class MessageSink(Protocol):
    """A destination for the messages of a server."""

    def send(self, message: Message) -> None:
        """Give the client a message."""

    def end_request(self, request: Message, answer: CallAnswer | None) -> None:
        """A request gets no JSON-RPC answer: as it was recorded, or (None) because the client gave it up."""


class PlaybackHost(Protocol):
    """The parts of a conversation that a playback needs."""

    aside: MessageSink

    def ask(self, playback: AnswerPlayback, recorded_id: Json) -> Json:
        """An id for a request to the client, whose answer is to be handed to the script."""

    def differs(self, name: str, recorded: Message, actual: Message) -> None:
        """The client answered the server otherwise than it did."""


class AnswerPlayback:
    """One answer on its way."""

    def __init__(
        self, host: PlaybackHost, name: str, steps: Iterable[Json], sink: MessageSink, request: Message | None = None
    ) -> None:
        self.name = name
        self.request = request or {}
        self._host = host
        self._steps = deque(step for step in steps if _is_step(step))
        self._sink = sink
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
                    self._host.differs(self.name, message, answer)
                break
        self.go_on()

    def cancel(self) -> None:
        """The client gave it up."""
        self._steps.clear()
        self.at_end = lambda: None
        self._sink.end_request(self.request, None)

    def _take(self, step: dict[str, Json]) -> bool:
        message: Message = step["message"]
        if step["from"] == SERVER:
            self._say(message, self._host.aside if step.get("aside") else self._sink)
        elif is_response(message):
            key = id_key(message.get("id"))
            return key in self._answered_ids or key not in self._sent
        return True

    def _say(self, message: Message, sink: MessageSink) -> None:
        own = attached(message, self.request)
        if own is None:
            return
        if is_request(own):
            own = {**own, "id": self._ask(own["id"])}
        elif own.get("method") == CANCELLED:
            key = id_key(params_of(own).get("requestId"))
            if key in self._sent:
                own = with_param(own, "requestId", self._sent[key])
        sink.send({"jsonrpc": "2.0", **own})

    def _ask(self, recorded_id: Json) -> Json:
        self._sent[id_key(recorded_id)] = sent = self._host.ask(self, recorded_id)
        return sent


def send_answer(answer: CallAnswer, request: Message, kind: str, sink: MessageSink) -> None:
    """The answer itself, at the end of its script."""
    if is_answered(answer) and http_error_of(answer) is None:
        sink.send(attached(response_of(answer, request["id"], kind), request) or {})
    else:
        sink.end_request(request, answer)


def _is_step(step: Json) -> bool:
    return isinstance(step, dict) and "from" in step and isinstance(step.get("message"), dict)
