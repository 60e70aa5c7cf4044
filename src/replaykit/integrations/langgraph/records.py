"""The records of a thread's log, and their form in memory."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from replaykit.model.values import ABSENT, Raw


class Write(NamedTuple):
    """One value that a task wrote to a channel, in the order in which the writes of a step apply."""

    path: str
    task: str
    number: int
    channel: str
    text: bytes


class SavedCheckpoint(NamedTuple):
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
