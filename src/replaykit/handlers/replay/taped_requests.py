"""Taped requests: what the calls of a tape asked, read once.

With 400 calls over 400 messages that is 80 MB, more than any cache holds: going over it again takes 15 ms, as much as
everything that is found out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.handlers.replay.text_blocks import TextBlocks, TextKey
from replaykit.model.events import Call
from replaykit.model.shared_parts import distinct_texts
from replaykit.model.values import DOLLAR, Raw
from replaykit.seam.results import OPAQUE

_BETWEEN_OBJECTS = b'},{"'


class TapedRequests:
    """The requests of some calls: their keys, whether they can be compared, and the texts in them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.blocks = TextBlocks()
        self.keys: list[TextKey] = []
        """What each request is looked up by, where all of it is compared."""
        self.are_opaque: list[bool] = []
        """Whether a value stands in each request that cannot be compared."""
        self._ends: list[bytes] = []
        self._others: list[Raw] = []
        for call in calls:
            self._read(call)

    def _read(self, call: Call) -> None:
        request = bytes(call.request_json)
        self.keys.append(self.blocks.key(call.name, request))
        self.are_opaque.append(holds_opaque(request))
        # Nothing goes over from one object to the next, so the request is cut there. Where such characters end a text,
        # no placeholder does.
        start = request.rfind(_BETWEEN_OBJECTS, 0, self.blocks.same_bytes)
        if start < 0:
            self._others.append(call.request_json)
        else:
            self._ends.append(request[start:])

    def distinct_texts(self) -> Iterator[bytes]:
        """Yield texts that hold whatever was asked. Of a request that begins like the one before, it is the end."""
        yield from self._ends
        yield from distinct_texts(self._others)


def holds_opaque(arguments: bytes) -> bool:
    """True when a value stands in the arguments that cannot be compared. The first look is forty times as quick."""
    return DOLLAR in arguments and OPAQUE in arguments
