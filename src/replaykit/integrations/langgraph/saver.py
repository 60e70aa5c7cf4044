"""`ReplayKitSaver`: a LangGraph checkpointer on a ReplayKit store, sync and async."""

from __future__ import annotations

import asyncio
import builtins
import copy
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from replaykit.errors import UsageError
from replaykit.integrations.langgraph.object_codecs import is_encodable
from replaykit.integrations.langgraph.records import CheckpointRecord, read_record, read_writes
from replaykit.integrations.langgraph.run_summary import is_passing
from replaykit.integrations.langgraph.saver_store import SaverStore
from replaykit.integrations.langgraph.thread import ThreadLog
from replaykit.integrations.langgraph.thread_runs import ThreadNamespace, places, thread_name
from replaykit.integrations.langgraph.values import KnownTypes
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Note, State
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw, read_members
from replaykit.store.open import StoreLike
from replaykit.store.protocol import Durability, Store

_OPEN_THREADS = 256  # indexes that are kept in memory, while they are not larger than this together:
_OPEN_BYTES = 64 * 1024 * 1024


class ReplayKitSaver(BaseCheckpointSaver[int]):
    """Keeps a graph's threads as runs: `builder.compile(checkpointer=ReplayKitSaver())`.

    `store` is a store, its path, or the project's own. `allow` names the classes of your own that the graph's state
    may hold (models, dataclasses, enums); messages and LangGraph's types are known. A value of any other class is an
    error when it is saved and when it is read. Use it from any thread, and from sync and async code alike.
    """

    def __init__(
        self,
        store: StoreLike = None,
        *,
        allow: Iterable[type] = (),
        durability: str | Durability = Durability.PROCESS,
    ) -> None:
        super().__init__()
        self._saver_store = SaverStore(store, Durability(durability))
        self._use_types(KnownTypes(allow))

    def _use_types(self, types: KnownTypes) -> None:
        self._types = types
        self.serde = Serializer(types)
        self._logs: OrderedDict[ThreadNamespace, ThreadLog] = OrderedDict()
        self._with_more_types: dict[frozenset[type], ReplayKitSaver] = {}

    @classmethod
    def from_conn_string(cls, path: str, **options: Any) -> ReplayKitSaver:
        """The saver on the store at this path; for `with` and `async with`."""
        return cls(path, **options)

    def setup(self) -> None:
        """Open the store, and make it if it is not there; the first use does the same."""
        with self._saver_store:
            pass

    def close(self) -> None:
        """Release the store, if it was opened here."""
        self._saver_store.close()

    def __enter__(self) -> ReplayKitSaver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> ReplayKitSaver:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the latest of its thread."""
        with self._snapshot(_place(config)) as log:
            checkpoint = get_checkpoint_id(config) or log.latest
            if checkpoint in log.saved:
                return log.tuple_at(checkpoint)
            return None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread (of all threads when `config` is None), the newest first."""
        configurable = (config or {}).get("configurable", {})
        only = configurable.get("checkpoint_id")
        end = get_checkpoint_id(before) if before else None
        with self._saver_store as store, store.snapshot():
            found: builtins.list[tuple[str, ThreadNamespace]] = []
            for place in _places(store, configurable):
                for checkpoint in self._log(store, place).look().saved:
                    if (not only or checkpoint == only) and (not end or checkpoint < end):
                        found.append((checkpoint, place))
            found.sort(reverse=True)
        for checkpoint, place in found:
            if limit is not None and limit <= 0:
                return
            with self._snapshot(place) as log:
                if checkpoint not in log.saved or not _fits(log, checkpoint, filter):
                    continue
                item = log.tuple_at(checkpoint)
            limit = None if limit is None else limit - 1
            yield item

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; it is on disk when this returns."""
        with self._saver_store as store:
            log = self._log(store, _place(config))
            log.put(get_checkpoint_id(config), checkpoint, get_checkpoint_metadata(config, metadata), new_versions)
            return log.config(checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote on top of a checkpoint."""
        checkpoint = get_checkpoint_id(config)
        if checkpoint is None:
            raise UsageError("put_writes needs a checkpoint_id in its config")
        with self._saver_store as store:
            self._log(store, _place(config)).put_writes(checkpoint, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with all its namespaces."""
        with self._saver_store as store, store.exclusive():
            store.delete([place.run_id for place in places(store, thread_name(thread_id))])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that were made by these runs of the graph, in whatever thread."""
        gone = set(map(str, run_ids))
        with self._saver_store as store, store.exclusive():
            for place in places(store):
                log = self._log(store, place).look()
                _remove(log, [saved for saved in log.saved if str(log.metadata(saved).get("run_id")) in gone])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its namespaces, checkpoints and writes."""
        source, target = thread_name(source_thread_id), thread_name(target_thread_id)
        with self._saver_store as store, store.exclusive():
            if any(places(store, target)):
                raise UsageError(f"thread {target!r} already exists; delete it, or copy to another")
            copies = []
            for place in places(store, source):
                run = store.load(place.run_id)
                copies.append(TraceRun.of(ThreadNamespace(target, place.namespace).like(run.header), run.events))
            store.replace(copies)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the latest checkpoint of each namespace (`keep_latest`), or all of them (`delete`)."""
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"no such strategy {strategy!r}: keep_latest or delete")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            with self._saver_store as store, store.exclusive():
                for place in places(store, thread_name(thread_id)):
                    log = self._log(store, place).look()
                    _remove(log, [checkpoint for checkpoint in log.saved if checkpoint != log.latest])

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to these channels before a checkpoint, back to the last whole value of each."""
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        with self._snapshot(_place(config)) as log:
            checkpoint = get_checkpoint_id(config) or log.latest
            if checkpoint not in log.saved:
                return found
            for channel, history in log.history(checkpoint, channels).items():
                found[channel]["writes"] = [
                    (task, name, log.value(checkpoint, text)) for task, name, text in history.writes
                ]
                if history.seed:
                    found[channel]["seed"] = log.value(checkpoint, history.seed)
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple`, off the event loop."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, off the event loop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await asyncio.to_thread(next, found, None)) is not None:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put`, off the event loop."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes`, off the event loop."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, off the event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs`, off the event loop."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread`, off the event loop."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune`, off the event loop."""
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history`, off the event loop."""
        return await asyncio.to_thread(lambda: self.get_delta_channel_history(config=config, channels=channels))

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> ReplayKitSaver:
        """A saver on the same store that also knows these classes, which the graph's own schema names."""
        named = [getattr(sys.modules.get(entry[0]), entry[1], None) for entry in extra_allowlist if len(entry) == 2]
        classes = frozenset(cls for cls in named if isinstance(cls, type) and is_encodable(cls))
        with self._saver_store.lock:
            if classes not in self._with_more_types:
                relative = copy.copy(self)
                relative._use_types(self._types.plus(classes))
                self._with_more_types[classes] = relative
            return self._with_more_types[classes]

    @contextmanager
    def _snapshot(self, place: ThreadNamespace) -> Iterator[ThreadLog]:
        """A thread as it is at this moment, for as long as the block runs."""
        with self._saver_store as store, store.snapshot():
            yield self._log(store, place).look()

    def _log(self, store: Store, place: ThreadNamespace) -> ThreadLog:
        log = self._logs.get(place)
        if log is None or log.store is not store:
            self._make_room()
            log = self._logs[place] = ThreadLog(store, place, self._types)
        self._logs.move_to_end(place)
        return log

    def _make_room(self) -> None:
        total_bytes = sum(log.size_bytes for log in self._logs.values())
        while self._logs and (len(self._logs) >= _OPEN_THREADS or total_bytes > _OPEN_BYTES):
            _, log = self._logs.popitem(last=False)
            total_bytes -= log.size_bytes
            log.close()


class Serializer:
    """The same values for those who ask a saver for its `serde`."""

    def __init__(self, types: KnownTypes) -> None:
        self._types = types

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The kind of text, and the text."""
        return "replaykit", self._types.text(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value that `dumps_typed` was given."""
        kind, text = data
        if kind != "replaykit":
            raise UsageError(f"a value that was written as {kind!r} is not read here")
        return self._types.value(text)


def _place(config: RunnableConfig) -> ThreadNamespace:
    return ThreadNamespace.named(config.get("configurable", {}))


def _places(store: Store, configurable: Mapping[str, Any]) -> builtins.list[ThreadNamespace]:
    """The places that a config means: of a thread or all, in a namespace or all."""
    thread, namespace = configurable.get("thread_id"), configurable.get("checkpoint_ns")
    found = places(store, None if thread is None else thread_name(thread))
    return [place for place in found if namespace is None or place.namespace == namespace]


def _fits(log: ThreadLog, checkpoint: str, filter: Mapping[str, Any] | None) -> bool:
    if not filter:
        return True
    metadata = log.metadata(checkpoint)
    return all(metadata.get(key) == value for key, value in filter.items())


def _remove(log: ThreadLog, checkpoints: builtins.list[str]) -> None:
    """Take checkpoints out of a log; a log that would have none left goes as a whole."""
    if not checkpoints:
        return
    if len(checkpoints) == len(log.saved):
        log.store.delete([log.place.run_id])
    else:
        log.store.replace([without(log, frozenset(checkpoints))])


def without(log: ThreadLog, removed: Collection[str]) -> TraceRun:
    """The run of a thread as it would be without these checkpoints. Delta channels keep their history."""
    run = log.store.load(log.place.run_id)
    before, after = StateFold(), StateFold()
    events: list[AnyEvent] = []
    steps: set[str | None] = set()
    for event in run.events:
        if isinstance(event, State):
            before.apply(event)
            record = read_record(event.about_json)
            if record.id in removed or log.saved[record.id].seq != event.seq:
                continue
            whole, change = after.advance_to_text(read_members(before.text))
            about_json = Raw(msgspec.json.encode(_with_history(log, record, removed)))
            event = msgspec.structs.replace(event, state_json=whole, change=change, about_json=about_json)
        elif isinstance(event, Note):
            if read_writes(event.content_json).checkpoint in removed:
                continue
        elif event.step not in steps:
            continue
        steps.add(event.step)
        events.append(msgspec.structs.replace(event, seq=len(events)))
    return TraceRun.of(run.header, tuple(events))


def _with_history(log: ThreadLog, record: CheckpointRecord, removed: Collection[str]) -> CheckpointRecord:
    """The `about` of a checkpoint that loses its parent: it takes over what delta channels need of it."""
    if record.parent not in removed:
        return record
    # A channel that has a version and no value may be one: LangGraph does not say it of all checkpoints.
    channels = log.versions(record.id).keys() - log.saved[record.id].channels
    channels_with_history = [channel for channel in channels if not is_passing(channel)]
    return msgspec.structs.replace(record, history=log.history(record.id, channels_with_history))
