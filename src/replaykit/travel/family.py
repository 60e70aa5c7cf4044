"""The family of a run: what it was forked from, and what was forked from it."""

from __future__ import annotations

from msgspec import Struct

from replaykit.model.run import RunHeader
from replaykit.store.protocol import Store


class RunFamily(Struct, frozen=True):
    """A run and its forks, oldest first."""

    run: RunHeader
    children: tuple[RunFamily, ...] = ()


def family_of(store: Store, run_id: str) -> RunFamily:
    """The whole family, from the first ancestor that is still in the store."""
    headers = {header.id: header for header in store.headers()}
    root = store.header(run_id)
    seen = {root.id}
    while root.origin.run in headers and root.origin.run not in seen:
        root = headers[root.origin.run]
        seen.add(root.id)
    children: dict[str, list[RunHeader]] = {}
    for header in sorted(headers.values(), key=lambda header: header.started_at):
        if header.origin.run is not None and header.id != root.id:
            children.setdefault(header.origin.run, []).append(header)
    return _family(root, children)


def _family(run: RunHeader, children: dict[str, list[RunHeader]]) -> RunFamily:
    return RunFamily(run, tuple(_family(child, children) for child in children.pop(run.id, [])))
