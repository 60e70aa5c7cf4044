"""A recorded MCP server: its recorded calls, and which of them have been served so far."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from replaykit.model.events import Call
from replaykit.model.values import Json
from replaykit.programs.mcp.calls import DESCRIBING, interim_name, is_client_call
from replaykit.programs.mcp.messages import id_key
from replaykit.seam.scope import CallAnswer, PendingCall

if TYPE_CHECKING:
    from replaykit.programs.mcp.playback import AnswerPlayback

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
        """A recorded answer was handed out."""
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

    def interim_call(self, answer: CallAnswer) -> Call | None:
        """Return the messages that were exchanged before a recorded answer."""
        if isinstance(answer, Call):
            return self._interim_calls.get(answer.seq)
        return None

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
