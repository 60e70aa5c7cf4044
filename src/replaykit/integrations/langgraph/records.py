"""The records of a thread's log, and their form in memory: a history is read without going to the disk for each."""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from replaykit.model.changes import StateFold
from replaykit.model.events import Change, State
from replaykit.model.values import ABSENT, Raw

_LIMIT_BYTES = 8 * 1024 * 1024  # the states of a thread that have more are read from the store
_encode = msgspec.json.Encoder().encode
_read_change = msgspec.json.Decoder(Change).decode


class ThreadStates:
    """States in the order of the log; whole ones, and changes from the one before."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._numbers: list[int] = []
        self._texts: list[bytes] = []
        self._whole: list[int] = []  # the positions of whole states

    def keep(self, event: State) -> None:
        """Keep one more state, unless they have become too many."""
        if self.size_bytes > _LIMIT_BYTES:
            return
        if event.change is None:
            self._whole.append(len(self._texts))
        self._numbers.append(event.seq)
        self._texts.append(bytes(event.state_json) if event.change is None else _encode(event.change))
        self.size_bytes += len(self._texts[-1])
        if self.size_bytes > _LIMIT_BYTES:
            self._numbers, self._texts, self._whole = [], [], []

    def text_at(self, seq: int) -> bytes | None:
        """The state of an event, as JSON text; None when it is not kept here."""
        position = bisect_right(self._numbers, seq) - 1
        if position < 0 or self._numbers[position] != seq:
            return None
        start = self._whole[bisect_right(self._whole, position) - 1]
        fold = StateFold()
        fold.apply(State(seq=0, state_json=Raw(self._texts[start])))
        for text in self._texts[start + 1 : position + 1]:
            fold.apply(State(seq=0, change=_read_change(text)))
        return fold.text


# The garbage collector would go through what an index holds again and again: it holds no cycles.
class Write(msgspec.Struct, frozen=True, order=True, gc=False):
    """One value that a task wrote to a channel, in the order in which the writes of a step apply."""

    path: str
    task: str
    number: int
    channel: str
    text: bytes


class SavedCheckpoint(msgspec.Struct, frozen=True, gc=False):
    """One checkpoint in the log."""

    seq: int
    step: str
    channels: frozenset[str]
    """The channels that have a value in it."""
    record_json: bytes


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The metadata in a checkpoint's `about`; LangGraph's own members stay text until they are used."""

    id: str
    parent: str | None = None
    checkpoint: Raw
    """All of the checkpoint but its channel values."""
    metadata: Raw
    history: dict[str, History] = {}
    """Writes to delta channels from before removed checkpoints."""


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The writes to one channel since its last whole value, and that value if there was one."""

    writes: list[tuple[str, str, Raw]] = []
    seed: Raw = ABSENT


class NodeWrites(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a note: what a task wrote on top of a checkpoint."""

    writes: list[tuple[str, Raw]]
    numbers: list[int] = []
    """LangGraph's numbers of these writes, where they are not simply counted from 0."""
    task: str
    path: str = ""
    checkpoint: str


read_record = msgspec.json.Decoder(CheckpointRecord).decode
read_writes = msgspec.json.Decoder(NodeWrites).decode
