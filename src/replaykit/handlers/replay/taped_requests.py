"""Taped requests: the requests of a tape's calls, read once.

With 400 calls over 400 messages they have 80 MB, more than any CPU cache holds. Another pass takes 15 ms, as long as
everything that is computed here.
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
"""A short text itself, or the blocks of a long one. Keys are equal if and only if the texts are."""

LONG_BYTES = 16 * 1024
_SHORT_BYTES = 256
_BLOCK_BYTES = 8 * 1024
_BETWEEN_OBJECTS = b'},{"'


class TextBlocks:
    """Makes the keys of texts. Texts of the same `owner` are expected to begin alike.

    Each call of a conversation repeats the text of the previous call, and a dict with whole texts as keys would hash
    and hold all of them. A long text therefore has a tuple of blocks as its key, and shares the leading blocks of the
    previous text, whose hashes are cached. With 400 calls over 400 messages, 80 MB in all, a replay spends 15 ms on
    keys instead of 90.
    """

    def __init__(self) -> None:
        self._last: dict[str, list[bytes]] = {}
        """The blocks of the last text by owner. The last block is shorter than the others and may be empty."""
        self.same_bytes = 0
        """The length of the common beginning of the last two texts, in bytes."""

    def key(self, owner: str, text: bytes) -> TextKey:
        """Return the key of a text."""
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
        if same < count or len(last) < len(blocks):  # otherwise it is the beginning of a text that may come again
            self._last[owner] = blocks
        return tuple(blocks)


class TapedRequests:
    """The requests of calls: their keys, whether they are comparable, and the texts in them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.blocks = TextBlocks()
        self.keys: list[TextKey] = []
        """The key of each complete request."""
        self.are_opaque: list[bool] = []
        """True for each request that contains a value that cannot be compared."""
        self._ends: list[bytes] = []
        """Short requests, and the ends of requests that begin like the previous one."""
        self._others: list[Raw] = []
        for call in calls:
            self._read(call)

    def _read(self, call: Call) -> None:
        request = bytes(call.request_json)
        if len(request) < _SHORT_BYTES:  # the usual case, with nothing to share
            self.keys.append(request)
            self.are_opaque.append(DOLLAR in request and OPAQUE in request)
            self._ends.append(request)
            return
        self.keys.append(self.blocks.key(call.name, request))
        self.are_opaque.append(holds_opaque(request))
        # No placeholder spans two objects, so cut the request between them. If these characters are part of a text,
        # they are still not part of a placeholder.
        start = request.rfind(_BETWEEN_OBJECTS, 0, self.blocks.same_bytes)
        if start < 0:
            self._others.append(call.request_json)
        else:
            self._ends.append(request[start:])

    def distinct_texts(self) -> Iterator[bytes]:
        """Yield texts that together contain all requests.

        For a request that begins like the previous one, only its end.
        """
        yield from self._ends
        yield from distinct_texts(self._others)


def holds_opaque(arguments: bytes) -> bool:
    """Return whether arguments contain a value that cannot be compared.

    The single-byte check is forty times as fast.
    """
    return DOLLAR in arguments and OPAQUE in arguments
