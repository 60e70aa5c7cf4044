"""Text blocks: what long arguments are looked up by.

Each call of a conversation repeats the text of the call before. A dict with whole texts as keys hashes and holds all of
them. So a long text is looked up by a tuple of its blocks. A text that begins like the one before shares its blocks:
their hashes are known, and each is held once. With 400 calls over 400 messages, 80 MB in all, a replay spends 15 ms on
keys instead of 90.
"""

from __future__ import annotations

from typing import TypeAlias

from replaykit.model.text_splice import common_prefix

TextKey: TypeAlias = bytes | tuple[bytes, ...]
"""A short text itself, or the blocks of a long one. Two keys are equal where the texts are."""

LONG_BYTES = 16 * 1024
_BLOCK_BYTES = 8 * 1024


class TextBlocks:
    """Makes the keys of texts; those of the same `owner` are expected to begin alike."""

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
