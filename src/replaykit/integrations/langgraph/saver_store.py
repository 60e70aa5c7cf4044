"""The store behind a saver: handed over, or opened at its path when it is first needed."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from replaykit.config import default_store_path
from replaykit.errors import StoreError, UsageError
from replaykit.store.open import StoreLike
from replaykit.store.protocol import Durability, Store
from replaykit.store.sqlite import SQLiteStore


class SaverStore:
    """A store that is used by one thread at a time, and is closed while the process forks.

    `with saver_store as store:` gives the store, open, and nobody else's until the end of the block.
    """

    def __init__(self, store: StoreLike, durability: Durability) -> None:
        self._store_like = _absolute(default_store_path() if store is None else store)
        self._durability = durability
        self._own: SQLiteStore | None = None
        self.lock = threading.RLock()
        _SAVER_STORES.add(self)

    def __enter__(self) -> Store:
        self.lock.acquire()
        try:
            return self._open()
        except BaseException:
            self.lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def _open(self) -> Store:
        if not isinstance(self._store_like, Path):
            if isinstance(self._store_like, SQLiteStore) and self._store_like.owner_pid != os.getpid():
                raise StoreError(
                    f"the store was opened by process {self._store_like.owner_pid}, not by this forked child",
                    hint="Give the saver the store's path.",
                )
            return self._store_like
        if self._own is None:
            self._own = SQLiteStore.open(self._store_like, durability=self._durability)
            weakref.finalize(self._own, self._own.db.close)
        return self._own

    def close(self) -> None:
        """Release the store, if it was opened here; the next use opens it again."""
        with self.lock:
            if self._own is not None:
                self._own.close()
                self._own = None


def _absolute(store: Store | str | os.PathLike[str]) -> Store | Path:
    """A path as it is now: a program may go to another directory before the store is opened, or opened again."""
    if not isinstance(store, str | os.PathLike):
        return store
    if store == ":memory:":
        raise UsageError(
            "threads are kept in a file",
            hint="For memory: langgraph.checkpoint.memory.InMemorySaver, or a path in a temporary directory.",
        )
    return Path(store).absolute()


_SAVER_STORES: weakref.WeakSet[SaverStore] = weakref.WeakSet()
_FORKING = threading.Lock()
_locked_stores: list[SaverStore] = []


def _before_fork() -> None:
    """SQLite's locks belong to the process: a child must not inherit an open connection, not even to close it."""
    _FORKING.acquire()
    _locked_stores.extend(_SAVER_STORES)
    for saver_store in _locked_stores:
        saver_store.lock.acquire()
        saver_store.close()


def _after_fork() -> None:
    for saver_store in _locked_stores:
        saver_store.lock.release()
    _locked_stores.clear()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
