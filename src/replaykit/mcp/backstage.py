"""What is known of one server before anybody asks: the recorded calls, and what has been given of them so far."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from replaykit.mcp.calls import DESCRIBING, is_asked_for, meanwhile_name
from replaykit.mcp.messages import id_key
from replaykit.model.events import Call
from replaykit.model.values import Json
from replaykit.seam.scope import Answer, PendingCall

if TYPE_CHECKING:
    from replaykit.mcp.script import Script

Tell = Callable[[str, str], None]
"""Write down that a client left the tape: in words, and the kind of deviation."""


class Backstage:
    """Shared by all conversations with a server in one process. What other processes were asked has a path."""

    def __init__(self, server: str, recorded: Iterable[Call] = (), tell: Tell = lambda text, kind: None) -> None:
        self.tell = tell
        self._server = server
        self._calls = [call for call in recorded if call.name.startswith((f"MCP {server} ", f"{server}."))]
        self._given: set[int] = set()
        self._descriptions: dict[tuple[str, bytes], deque[Call]] = {}
        self._meanwhile: dict[int | None, Call] = {}
        self._after: dict[int | None, list[Call]] = {}
        self._numbers = itertools.count(1)
        self._asked: dict[bytes, tuple[Script, bytes]] = {}
        describing = {f"MCP {server} {method}" for method in DESCRIBING}
        for call in self._calls:
            if call.name in describing:
                self._descriptions.setdefault((call.name, bytes(call.request_json)), deque()).append(call)
            elif call.name == meanwhile_name(server):
                self._meanwhile[call.parent] = call
            elif not is_asked_for(server, call) and (call.parent is not None or not call.path):
                self._after.setdefault(call.parent, []).append(call)

    def given(self, answer: Answer | None) -> None:
        """A recorded answer was handed out."""
        if isinstance(answer, Call):
            self._given.add(answer.seq)

    def is_drained(self) -> bool:
        """True when every recorded answer has been given."""
        return all(call.seq in self._given for call in self._calls if call.complete and not call.path)

    def again(self, call: PendingCall) -> Call | None:
        """The last answer to a question about the server that has been asked as often as it was recorded."""
        known = self._descriptions.get((call.name, call.arguments))
        return known[-1] if known and all(recorded.seq in self._given for recorded in known) else None

    def knows(self, method: str) -> bool:
        """True when a request of that method was recorded."""
        return any(call.name == f"MCP {self._server} {method}" for call in self._calls)

    def handshakes(self) -> list[Call]:
        """The recorded `initialize` requests."""
        return [call for call in self._calls if call.name == f"MCP {self._server} initialize"]

    def meanwhile(self, answer: Answer) -> Call | None:
        """What was said on the way to a recorded answer."""
        return self._meanwhile.get(answer.seq) if isinstance(answer, Call) else None

    def unasked(self, after: int | None) -> list[Call]:
        """What the server said on its own after a recorded call; it is given once."""
        return self._after.pop(after, [])

    def ask(self, script: Script, recorded_id: Json) -> int:
        """An id, like no other, for a request to the client whose answer the script waits for."""
        number = next(self._numbers)
        self._asked[id_key(number)] = (script, id_key(recorded_id))
        return number

    def asked(self, sent_id: Json) -> tuple[Script, bytes] | None:
        """Who waits for the answer to this id, and under which id of the recording."""
        return self._asked.pop(id_key(sent_id), None)
