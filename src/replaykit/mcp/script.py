"""A recorded answer, given again: first what the server said on the way to it, in its order, then the answer.

Where the server asked the client something, the script waits until the client has answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from replaykit.mcp.calls import http_error_of, is_answered, response_of, same_answer
from replaykit.mcp.items import SERVER, attached
from replaykit.mcp.messages import CANCELLED, Message, id_key, is_request, is_response, params_of, with_param
from replaykit.model.values import Json
from replaykit.seam.scope import Answer


class Outlet(Protocol):
    """Where the messages of a server go."""

    def send(self, message: Message) -> None:
        """Give the client a message."""

    def left(self, request: Message, answer: Answer | None) -> None:
        """A request gets no JSON-RPC answer: as it was recorded, or (None) because the client gave it up."""


class Stage(Protocol):
    """What a script needs of the conversation it is played in."""

    aside: Outlet

    def ask(self, script: Script, recorded_id: Json) -> Json:
        """An id for a request to the client, whose answer is to be handed to the script."""

    def differs(self, name: str, recorded: Message, given: Message) -> None:
        """The client answered the server otherwise than it did."""


class Script:
    """One answer on its way."""

    def __init__(
        self, stage: Stage, name: str, steps: Iterable[Json], outlet: Outlet, request: Message | None = None
    ) -> None:
        self.name = name
        self.request = request or {}
        self._stage = stage
        self._steps = deque(step for step in steps if _is_step(step))
        self._outlet = outlet
        self._sent: dict[bytes, Json] = {}  # ids of the recording → ids that the client was sent
        self._heard: set[bytes] = set()
        self.at_end: Callable[[], None] = lambda: None

    def go_on(self) -> None:
        """Say what is due, up to the next thing that the client has to do, or to the end."""
        while self._steps:
            if not self._take(self._steps[0]):
                return
            self._steps.popleft()
        at_end, self.at_end = self.at_end, lambda: None
        at_end()

    def hear(self, recorded_id: bytes, answer: Message) -> None:
        """The client answered what the script asked."""
        self._heard.add(recorded_id)
        for step in self._steps:
            message = step["message"]
            if step["from"] != SERVER and is_response(message) and id_key(message.get("id")) == recorded_id:
                if not same_answer(message, answer):
                    self._stage.differs(self.name, message, answer)
                break
        self.go_on()

    def cancel(self) -> None:
        """The client gave it up."""
        self._steps.clear()
        self.at_end = lambda: None
        self._outlet.left(self.request, None)

    def _take(self, step: dict[str, Json]) -> bool:
        message: Message = step["message"]
        if step["from"] == SERVER:
            self._say(message, self._stage.aside if step.get("aside") else self._outlet)
        elif is_response(message):
            key = id_key(message.get("id"))
            return key in self._heard or key not in self._sent
        return True

    def _say(self, message: Message, outlet: Outlet) -> None:
        own = attached(message, self.request)
        if own is None:
            return
        if is_request(own):
            own = {**own, "id": self._ask(own["id"])}
        elif own.get("method") == CANCELLED:
            key = id_key(params_of(own).get("requestId"))
            own = with_param(own, "requestId", self._sent[key]) if key in self._sent else own
        outlet.send({"jsonrpc": "2.0", **own})

    def _ask(self, recorded_id: Json) -> Json:
        self._sent[id_key(recorded_id)] = sent = self._stage.ask(self, recorded_id)
        return sent


def give(answer: Answer, request: Message, kind: str, outlet: Outlet) -> None:
    """The answer itself, at the end of its script."""
    if is_answered(answer) and http_error_of(answer) is None:
        outlet.send(attached(response_of(answer, request["id"], kind), request) or {})
    else:
        outlet.left(request, answer)


def _is_step(step: Json) -> bool:
    return isinstance(step, dict) and "from" in step and isinstance(step.get("message"), dict)
