"""Damage: what happens to trace files, done to samples on purpose. A law for every importer."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source
from replaykit.model.run import TraceRun

JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**70, "", "x", "{", '{"a": [', "\u0000", [], [None], [[]], {}, {"a": None}, {"type": "x"}]
)


def damaged(document: Any) -> st.SearchStrategy[Any]:
    """The document with one to three of its values gone, or something else in their place."""
    places = list(_places(document))

    @st.composite
    def with_damage(draw: st.DrawFn) -> Any:
        broken = copy.deepcopy(document)
        for path in draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
            _put(broken, path, copy.deepcopy(draw(JUNK)), gone=draw(st.booleans()))
        return broken

    return with_damage()


def truncated(text: bytes) -> st.SearchStrategy[bytes]:
    """The first bytes of the file."""
    return st.integers(0, len(text) - 1).map(lambda size: text[:size])


def read_without_a_traceback(name: str, content: bytes) -> list[TraceRun]:
    """The runs that the importer finds; whatever else there is, it says in words. All can be written and read."""
    runs: list[TraceRun] = []
    try:
        for found in IMPORTERS.get(name).read(Source(content, "damaged.json")):
            assert isinstance(found, TraceRun | InvalidFile | str)
            if isinstance(found, TraceRun):
                runs.append(found)
    except InvalidFile:
        pass  # nothing more of it can be read
    for run in runs:
        assert run.id
        assert [event.seq for event in run.events] == list(range(len(run.events)))
        for event in run.events:
            assert event.parent is None or event.parent < event.seq
    IMPORTERS.get(name).recognises(Source(content, "damaged.json"))
    return runs


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _put(value: Any, path: tuple[Any, ...], junk: Any, *, gone: bool) -> None:
    try:
        for key in path[:-1]:
            value = value[key]
        if gone:
            del value[path[-1]]
        else:
            value[path[-1]] = junk
    except (LookupError, TypeError):
        pass  # an earlier damage took the place away


def as_lines(documents: list[Any]) -> bytes:
    """One a line."""
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)
