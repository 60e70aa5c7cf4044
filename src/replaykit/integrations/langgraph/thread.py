"""One thread of a graph, in one namespace, as a run on the log.

A checkpoint is a `state` event: the channels are the state, kept as its change from the one before, and what LangGraph
says of it (id, parent, versions, metadata) is its `about`. What a task wrote is a `note` under the name of its node,
in the step that it leads to. Everything else here is an index over these events, brought up to date at each look.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR
from msgspec.structs import replace

from replaykit.errors import CorruptStore, StoreError
from replaykit.integrations.langgraph.records import (
    CheckpointRecord,
    History,
    NodeWrites,
    SavedCheckpoint,
    ThreadStates,
    Write,
    read_record,
    read_writes,
)
from replaykit.integrations.langgraph.run_summary import StepNames, goes_on, node_name, output_of
from replaykit.integrations.langgraph.thread_runs import ThreadNamespace
from replaykit.integrations.langgraph.values import KnownTypes
from replaykit.model.changes import StateFold
from replaykit.model.events import ErrorEvent, ErrorInfo, Note, State, StoredEvent
from replaykit.model.run import RunHeader, RunStatus
from replaykit.model.values import ABSENT, Json, Raw, read_members, sayable
from replaykit.seam.failures import describe
from replaykit.store.protocol import News, Store

_UNHEARD = object()
_encode = msgspec.json.Encoder().encode


class ThreadLog:
    """The checkpoints and writes of one place. Not safe to use from several threads at once; the saver locks."""

    def __init__(self, store: Store, place: ThreadNamespace, types: KnownTypes) -> None:
        self.place = place
        self.store = store
        self._types = types
        self._run = store.share(place.run_id)
        self._header: RunHeader | None = None  # the last one that was found to be of this place
        self._forget()

    def _forget(self) -> None:
        self.saved: dict[str, SavedCheckpoint] = {}
        self.latest: str | None = None  # the ids of checkpoints are in the order of time
        self._states = ThreadStates()
        self._index_bytes = 0
        self._writes: dict[str, dict[str, Write]] = {}
        self._written = ""  # the checkpoint that was last written on
        self._errors: dict[str, ErrorInfo] = {}  # by checkpoint: how what goes on from it failed
        self._tip: str | None = None  # the checkpoint the fold stands at
        self._tip_versions: dict[str, Any] | None = None  # its channels' versions, where they are known
        self._fold = StateFold(self._types)
        self._names = StepNames()
        self._shapes: dict[frozenset[str], frozenset[str]] = {}  # most checkpoints have the same channels

    def look(self) -> ThreadLog:
        """Bring the index up to date with what others wrote."""
        self._absorb(self._run.news())
        return self

    def close(self) -> None:
        """Release the run's log."""
        self._run.close()

    @property
    def size_bytes(self) -> int:
        """The approximate size in memory."""
        return self._index_bytes + self._states.size_bytes

    def record(self, checkpoint: str) -> CheckpointRecord:
        """Return LangGraph's metadata of a checkpoint."""
        return read_record(self.saved[checkpoint].record_json)

    def metadata(self, checkpoint: str) -> dict[str, Any]:
        """A checkpoint's metadata."""
        return self._values(checkpoint, self.record(checkpoint).metadata)

    def versions(self, checkpoint: str) -> dict[str, Any]:
        """The versions of the channels at a checkpoint."""
        return dict(self._values(checkpoint, self.record(checkpoint).checkpoint).get("channel_versions", {}))

    def config(self, checkpoint: str) -> RunnableConfig:
        """Return the config that names a checkpoint."""
        place = self.place
        names = {"thread_id": place.thread, "checkpoint_ns": place.namespace, "checkpoint_id": checkpoint}
        return {"configurable": names}

    def tuple_at(self, checkpoint: str) -> CheckpointTuple:
        """A checkpoint as LangGraph wants it."""
        record = self.record(checkpoint)
        stored: Any = self._values(checkpoint, record.checkpoint)
        stored["channel_values"] = self._values(checkpoint, self.text_at(checkpoint))
        metadata: Any = self._values(checkpoint, record.metadata)
        return CheckpointTuple(
            config=self.config(checkpoint),
            checkpoint=stored,
            metadata=metadata,
            parent_config=self.config(record.parent) if record.parent else None,
            pending_writes=[
                (write.task, write.channel, self.value(checkpoint, write.text)) for write in self.written(checkpoint)
            ],
        )

    def value(self, checkpoint: str, text: bytes | Raw) -> Any:
        """The value that a checkpoint has a text of."""
        try:
            return self._types.value(bytes(text))
        except ValueError as error:
            raise self._unreadable(checkpoint, error) from None

    def _values(self, checkpoint: str, text: bytes | Raw) -> dict[str, Any]:
        try:
            return self._types.values(bytes(text))
        except ValueError as error:
            raise self._unreadable(checkpoint, error) from None

    def _unreadable(self, checkpoint: str, error: ValueError) -> CorruptStore:
        where = f"run {self.place.run_id}, checkpoint {checkpoint}"
        return CorruptStore(f"a value cannot be read ({error})", where=where)

    def written(self, checkpoint: str) -> list[Write]:
        """Return the writes on top of a checkpoint, in the order in which they apply."""
        return sorted(self._writes.get(checkpoint, {}).values())

    def text_at(self, checkpoint: str) -> bytes:
        """The channel values at a checkpoint, as JSON text."""
        if checkpoint == self._tip:
            return self._fold.text
        stored = self._states.text_at(self.saved[checkpoint].seq)
        if stored is not None:
            return stored
        return self.store.state_json(self.place.run_id, self.saved[checkpoint].seq)

    def history(self, checkpoint: str, channels: Iterable[str]) -> dict[str, History]:
        """For each channel what was written before a checkpoint, back to the last whole value of the channel."""
        left = set(channels)
        found: dict[str, list[tuple[str, str, Raw]]] = {channel: [] for channel in left}
        seeds: dict[str, Raw] = {}
        at, passed = checkpoint, {checkpoint}
        while left:
            record = self.record(at)
            parent = record.parent
            if parent is None or parent not in self.saved or parent in passed:
                for channel in left & record.history.keys():
                    found[channel] += reversed(record.history[channel].writes)
                    seeds[channel] = record.history[channel].seed
                break
            for write in reversed(self.written(parent)):
                if write.channel in left:
                    found[write.channel].append((write.task, write.channel, Raw(write.text)))
            whole = left & self.saved[parent].channels
            if whole:
                values = read_members(self.text_at(parent))
                seeds |= {channel: values[channel] for channel in whole}
                left -= whole
            at = parent
            passed.add(at)
        histories = {}
        for channel, writes in found.items():
            histories[channel] = History(writes=writes[::-1], seed=seeds.get(channel, ABSENT))
        return histories

    def put(
        self,
        parent: str | None,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> None:
        """Keep a checkpoint."""
        members = dict(checkpoint)
        members.pop("channel_values", None)
        record = CheckpointRecord(
            id=checkpoint["id"],
            parent=parent,
            checkpoint=Raw(self._types.members(members)),
            metadata=Raw(self._types.members(metadata)),
        )
        values = checkpoint["channel_values"]
        with self._run.turn() as news:
            self._absorb(news)
            stored = self._fold.keys()
            ordered = {channel: values[channel] for channel in stored if channel in values}  # in the order that it had
            same = self._unchanged_channels(parent, checkpoint, new_versions)
            whole, change = self._fold.advance_to(ordered | values, same)
            self._begin()
            event = State(
                seq=self._run.next_seq,
                at=time.time(),
                step=self._names.to(parent, metadata.get("step")),
                state_json=whole,
                change=change,
                about_json=Raw(_encode(record)),
            )
            self._run.append(event)
            self._index_checkpoint(event, record)
            self._tip_versions = dict(checkpoint["channel_versions"])
            self._describe(record.id, values, metadata)

    def put_writes(self, checkpoint: str, writes: Sequence[tuple[str, Any]], task: str, path: str) -> None:
        """Keep what a task wrote on top of a checkpoint."""
        texts = [(channel, Raw(self._types.text(value))) for channel, value in writes]
        with self._run.turn() as news:
            self._absorb(news)
            known = self._writes.get(checkpoint, {})
            fresh: list[tuple[str, Raw]] = []
            numbers: list[int] = []
            for position, (channel, text) in enumerate(texts):
                number = WRITES_IDX_MAP.get(channel, position)
                # An interrupt or an error has a negative number, and takes the place of the one before.
                if number < 0 or _write_key(task, number) not in known:
                    fresh.append((channel, text))
                    numbers.append(number)
            if not fresh:
                return
            saved = self.saved.get(checkpoint)
            step = self._names.after(checkpoint, saved.step if saved else None)
            content = NodeWrites(
                writes=fresh,
                numbers=[] if numbers == list(range(len(numbers))) else numbers,
                task=task,
                path=path,
                checkpoint=checkpoint,
            )
            name = node_name(path, [channel for channel, _ in writes])
            self._begin()
            note = Note(
                seq=self._run.next_seq, at=time.time(), step=step, name=name, content_json=Raw(_encode(content))
            )
            self._run.append(note)
            self._index_writes(note, content)
            for channel, value in writes:
                if channel == ERROR:
                    self._fail(checkpoint, step, value)

    def _begin(self) -> None:
        if self._run.header is None:
            self._run.write_header(self.place.header())

    def _absorb(self, news: News) -> None:
        if news.fresh:
            self._forget()
        if self._run.header is not self._header:
            self._check_is_thread()
        for event in news.events:
            try:
                self._index(event)
            except (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError) as error:
                self._run = self.store.share(self.place.run_id)
                self._forget()
                where = f"run {self.place.run_id}, event {event.seq}"
                raise CorruptStore(f"it is nothing that a thread holds ({error})", where=where) from None

    def _check_is_thread(self) -> None:
        header = self._run.header
        if header is not None and ThreadNamespace.of(header) != self.place:
            raise StoreError(f"run {header.id} is in the store already, and is not a thread of a graph")
        self._header = header

    def _index(self, event: StoredEvent) -> None:
        if isinstance(event, State):
            self._fold.apply(event)
            self._index_checkpoint(event, read_record(event.about_json))
        elif isinstance(event, Note):
            self._index_writes(event, read_writes(event.content_json))
        elif isinstance(event, ErrorEvent):
            self._errors[self._written] = event.error

    def _index_checkpoint(self, event: State, record: CheckpointRecord) -> None:
        step, channels = event.step or "", frozenset(self._fold.keys())
        channels = self._shapes.setdefault(channels, channels)
        self.saved[record.id] = SavedCheckpoint(event.seq, step, channels, bytes(event.about_json))
        self.latest = max(self.latest or "", record.id)
        self._states.keep(event)
        self._index_bytes += len(event.about_json)
        self._tip, self._tip_versions = record.id, None
        self._names.completed(step, record.parent)

    def _index_writes(self, event: Note, content: NodeWrites) -> None:
        self._names.written(event.step or "", content.checkpoint)
        self._written = content.checkpoint
        known = self._writes.setdefault(content.checkpoint, {})
        numbers = content.numbers or range(len(content.writes))
        for number, (channel, text) in zip(numbers, content.writes, strict=True):
            key = _write_key(content.task, number)
            known[key] = Write(content.path, content.task, number, channel, bytes(text))
        self._index_bytes += len(event.content_json)

    def _unchanged_channels(
        self, parent: str | None, checkpoint: Mapping[str, Any], new_versions: Mapping[str, Any]
    ) -> frozenset[str]:
        """The channels that are as the fold has them: those of the parent, at the version the parent has."""
        if parent is None or parent != self._tip:
            return frozenset()
        if self._tip_versions is None:
            self._tip_versions = self.versions(parent)
        old, versions, stored = self._tip_versions, checkpoint["channel_versions"], self._fold.keys()
        return frozenset(
            channel
            for channel in checkpoint["channel_values"]
            if channel in stored and channel not in new_versions and old.get(channel) == versions.get(channel, _UNHEARD)
        )

    def _describe(self, checkpoint: str, values: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Bring the run's header up to date: what was asked, whether something runs next, the state it ended with."""
        known = header = self._run.header
        assert header is not None, "a checkpoint was kept"
        if bytes(header.input_json) == b"null" and metadata.get("source") == "input" and "__start__" in values:
            header = replace(header, input_json=Raw(self._types.text(values["__start__"])))
        if checkpoint in self._errors:  # what goes on from it has failed before it was kept itself
            header = self._failed(header, self._errors[checkpoint])
        elif goes_on(values):
            header = replace(
                header, status=RunStatus.RUNNING, ended_at=None, output_json=ABSENT, error=None, event_count=None
            )
        else:
            header = replace(
                header,
                status=RunStatus.SUCCESS,
                ended_at=time.time(),
                output_json=output_of(self._fold.text),
                error=None,
                event_count=self._run.next_seq,
            )
        if header != known:
            self._run.write_header(header)

    def _fail(self, checkpoint: str, step: str, error: Json) -> None:
        if isinstance(error, BaseException):
            error_info = describe(error, traceback="".join(traceback.format_exception(error)))
        else:
            error_info = ErrorInfo(type="Error", message=sayable(str(error)))
        self._run.append(ErrorEvent(seq=self._run.next_seq, at=time.time(), step=step, error=error_info))
        self._errors[checkpoint] = error_info
        header = self._run.header
        assert header is not None, "an event was kept"
        self._run.write_header(self._failed(header, error_info))

    def _failed(self, header: RunHeader, error: ErrorInfo) -> RunHeader:
        return replace(
            header, status=RunStatus.ERROR, error=error, ended_at=time.time(), event_count=self._run.next_seq
        )


def _write_key(task: str, number: int) -> str:
    """The key of a write. Text, and no tuple, which the garbage collector would go through."""
    return f"{number} {task}"
