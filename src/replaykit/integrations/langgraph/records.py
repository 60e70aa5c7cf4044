"""What a thread's log holds, and what is known of it in memory."""

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


class Saved(NamedTuple):
    """One checkpoint in the log."""

    seq: int
    step: str
    channels: frozenset[str]
    """The channels that have a value in it."""
    about: bytes


class About(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a checkpoint's `about` holds; the parts that are LangGraph's own stay text until they are asked for."""

    id: str
    parent: str | None = None
    checkpoint: Raw
    """All of the checkpoint but its channel values."""
    metadata: Raw
    history: dict[str, History] = {}
    """What was written to delta channels before checkpoints that were removed."""


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


read_about = msgspec.json.Decoder(About).decode
read_writes = msgspec.json.Decoder(NodeWrites).decode
