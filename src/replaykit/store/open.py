"""Open the store that a caller passed: an open one, a path, or None for the project's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from replaykit.config import default_store_path
from replaykit.errors import UsageError
from replaykit.store.protocol import Durability, Store
from replaykit.store.sqlite import SQLiteStore

StoreLike: TypeAlias = Store | str | os.PathLike[str] | None


@contextmanager
def open_store(
    store: StoreLike = None,
    *,
    durability: Durability = Durability.PROCESS,
    read_only: bool = False,
    redact: bool | None = None,
) -> Iterator[Store]:
    """Yield an open store. A store opened here is closed at the end; an open one keeps its own redaction."""
    if store is None or isinstance(store, str | os.PathLike):
        path = default_store_path() if store is None else store
        with SQLiteStore.open(path, durability=durability, read_only=read_only, redact=redact) as own:
            yield own
    elif redact is not None:
        hint = "Open it with SQLiteStore.open(path, redact=False)"
        raise UsageError("`redact` is for a store that is opened here, by its path", hint=hint)
    else:
        yield store


def existing_store_path(path: str | os.PathLike[str], *, read_only: bool = False) -> SQLiteStore:
    """Open an existing store. A missing one raises `StoreError` instead of being created empty."""
    if not read_only:
        SQLiteStore.open(path, read_only=True).close()
    return SQLiteStore.open(path, read_only=read_only)
