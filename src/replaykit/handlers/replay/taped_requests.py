"""Taped requests: what the calls of a tape asked, read once.

With 400 calls over 400 messages that is 80 MB, more than any cache holds: going over it again takes 15 ms, as much as
everything that is found out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from replaykit.model.events import Call
from replaykit.model.shared_parts import distinct_texts
from replaykit.model.text_splice import common_prefix
from replaykit.model.values import DOLLAR, Raw
from replaykit.seam.results import OPAQUE

TextKey: TypeAlias = bytes | tuple[bytes, ...]
"""A short text itself, or the blocks of a long one. Two keys are equal where the texts are."""

LONG_BYTES = 16 * 1024
_SHORT_BYTES = 256
_BLOCK_BYTES = 8 * 1024
_BETWEEN_OBJECTS = b'},{"'


class TextBlocks:
    """Makes the keys of texts; those of the same `owner` are expected to begin alike.

    Each call of a conversation repeats the text of the call before. A dict with whole texts as keys hashes and holds
    all of them. So a long text is looked up by a tuple of its blocks. A text that begins like the one before shares
    its blocks: their hashes are known, and each is held once. With 400 calls over 400 messages, 80 MB in all, a replay
    spends 15 ms on keys instead of 90.
    """

    def __init__(self) -> None:
        self._last: dict[str, list[bytes]] = {}
        """The blocks of the last text, by its owner. The last of them is shorter than the others, and may be empty."""
        self.same_bytes = 0
        """With how many bytes the last text and the one before it begin alike."""

    def key(self, owner: str, text: bytes) -> TextKey:
        """Return what the text is looked up by."""
        if len(text) < LONG_BYTES:
            self.same_bytes = 0
            return text
        last = self._last.get(owner, [])
        count = len(text) // _BLOCK_BYTES
        same = 0
        for block in last[:count]:
            if len(block) < _BLOCK_BYTES or not text.startswith(block, same * _BLOCK_BYTES):
                break
            same += 1
        starts = range(same * _BLOCK_BYTES, len(text) + 1, _BLOCK_BYTES)
        blocks = last[:same] + [text[start : start + _BLOCK_BYTES] for start in starts]
        self.same_bytes = same * _BLOCK_BYTES
        if same < len(last):
            self.same_bytes += common_prefix(last[same], blocks[same])
        if same < count or len(last) < len(blocks):  # else it is the beginning of a text that may come again
            self._last[owner] = blocks
        return tuple(blocks)


class TapedRequests:
    """The requests of some calls: their keys, whether they can be compared, and the texts in them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.blocks = TextBlocks()
        self.keys: list[TextKey] = []
        """The key of each request, where all of it is compared."""
        self.are_opaque: list[bool] = []
        """True for each request that holds a value which cannot be compared."""
        self._ends: list[bytes] = []
        """Short requests, and of those that begin like the one before what comes then."""
        self._others: list[Raw] = []
        for call in calls:
            self._read(call)

    def _read(self, call: Call) -> None:
        request = bytes(call.request_json)
        if len(request) < _SHORT_BYTES:  # as most: there is nothing to share
            self.keys.append(request)
            self.are_opaque.append(DOLLAR in request and OPAQUE in request)
            self._ends.append(request)
            return
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
