"""Which store: the one handed over, the one at a path, or the project's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from replaykit.config import default_store_path
from replaykit.store.protocol import Durability, Store
from replaykit.store.sqlite import SQLiteStore

StoreLike: TypeAlias = Store | str | os.PathLike[str] | None


@contextmanager
def opened(
    store: StoreLike = None, *, durability: Durability = Durability.PROCESS, read_only: bool = False
) -> Iterator[Store]:
    """The store, open; one that was opened here is closed again at the end."""
    if store is None or isinstance(store, str | os.PathLike):
        path = default_store_path() if store is None else store
        with SQLiteStore.open(path, durability=durability, read_only=read_only) as own:
            yield own
    else:
        yield store
