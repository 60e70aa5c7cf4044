"""Places: a thread of a graph and a namespace in it, and the run that is its log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from replaykit.errors import UsageError
from replaykit.model.run import Origin, RunHeader
from replaykit.model.values import raw
from replaykit.store.protocol import Store

_FORMAT = "langgraph"


class ThreadNamespace(NamedTuple):
    """A thread and a namespace in it: the graph itself, or a subgraph."""

    thread: str
    namespace: str = ""

    @classmethod
    def named(cls, configurable: Mapping[str, Any]) -> ThreadNamespace:
        """The place that a config's `configurable` names."""
        thread = configurable.get("thread_id")
        if thread is None:
            raise UsageError(
                "the config names no thread", hint='Call the graph with {"configurable": {"thread_id": "…"}}.'
            )
        return cls(thread_name(thread), configurable.get("checkpoint_ns") or "")

    @classmethod
    def of(cls, header: RunHeader) -> ThreadNamespace | None:
        """The place that a run is the log of; None when it is no thread's."""
        if header.origin.format != _FORMAT:
            return None
        try:
            place = cls(**header.metadata[_FORMAT])
        except (TypeError, KeyError):
            return None
        if place.run_id == header.id:
            return place
        return None

    @property
    def run_id(self) -> str:
        thread = str(self.thread).replace("%", "%25").replace("/", "%2F")
        if self.namespace:
            return f"thread:{thread}/{self.namespace}"
        return f"thread:{thread}"

    @property
    def name(self) -> str:
        """The thread, and the nodes that lead to a subgraph: `alice`, `alice/research`."""
        nodes = [part.partition(":")[0] for part in self.namespace.split("|") if part]
        return "/".join([self.thread, *nodes])

    @property
    def parent(self) -> ThreadNamespace | None:
        """The place that this one's graph was called from."""
        if self.namespace:
            return ThreadNamespace(self.thread, self.namespace.rpartition("|")[0])
        return None

    def header(self) -> RunHeader:
        """The header of the run of this namespace."""
        return RunHeader(
            id=self.run_id,
            name=self.name,
            agent=_FORMAT,
            started_at=time.time(),
            metadata_json=raw({_FORMAT: self._asdict()}),
            origin=Origin(
                kind="subgraph" if self.parent else "recorded",
                format=_FORMAT,
                run=self.parent.run_id if self.parent else None,
            ),
        )

    def like(self, other: RunHeader) -> RunHeader:
        """The header of a copy of another place's run."""
        own = self.header()
        return msgspec.structs.replace(
            other, id=own.id, name=own.name, metadata_json=own.metadata_json, origin=own.origin
        )


def thread_name(thread: object) -> str:
    """A thread's id as text."""
    text = str(thread)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the thread id {text!r} cannot be written as UTF-8") from None
    return text


def places(store: Store, thread: str | None = None) -> Iterator[ThreadNamespace]:
    """Every place that the store holds, or those of one thread."""
    headers = store.headers(name=thread)
    if thread is not None:
        headers += store.headers(below=ThreadNamespace(thread).run_id)
    for header in headers:
        place = ThreadNamespace.of(header)
        if place is not None and thread in (None, place.thread):
            yield place
