"""Branches: whoever rewinds a session and goes on makes a second one. The newest is what happened.

Every line names the one it follows. Calls that a model makes at once are lines that follow each other, and each
result follows its own call: so a branch is what the newest line comes from, and with it all lines of an answer that
is part of it, and all their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from replaykit.formats.claude_code.lines import SPOKEN, TYPES, SessionLine
from replaykit.wire.json_fields import as_text

MAX_REWOUND = 100
"""How many branches that were left are kept."""


class Branch(Struct, frozen=True, kw_only=True):
    """One way through a session."""

    lines: tuple[SessionLine, ...]
    leaf: SessionLine
    own: tuple[SessionLine, ...] = ()
    """Of a branch that was left: its lines that no newer branch has."""

    @property
    def has_calls(self) -> bool:
        """True when the model answered in what is its own."""
        return any(line.kind == "assistant" for line in self.own)


def branches(lines: Iterable[SessionLine]) -> Iterator[Branch]:
    """The newest branch, then those that were left, the newer first. What says nothing is none."""
    graph = _Graph(_linked(list(lines)))
    seen: set[int] = set()
    for leaf in graph.leaves():
        if leaf.index in seen:
            continue
        found = graph.branch(leaf)
        own = tuple(line for line in found if line.index not in seen)
        seen.update(line.index for line in own)
        if any(line.kind in SPOKEN for line in own):
            yield Branch(lines=tuple(line for line in found if line.kind in TYPES), leaf=leaf, own=own)


class _Graph:
    def __init__(self, lines: list[SessionLine]) -> None:
        self._lines = lines
        self._by_uuid: dict[str, SessionLine] = {}
        self._answers: dict[str, list[SessionLine]] = {}
        self._results: dict[str, list[SessionLine]] = {}
        for line in lines:
            self._by_uuid.setdefault(line.uuid, line)
            if line.kind == "assistant":
                self._answers.setdefault(line.answer_id, []).append(line)
            for block in line.results:
                self._results.setdefault(as_text(block.get("tool_use_id")), []).append(line)

    def leaves(self) -> list[SessionLine]:
        """The lines that none follows, the newest first."""
        followed = {line.parent for line in self._lines}
        found = [line for line in self._lines if line.uuid not in followed]
        return sorted(found, key=lambda line: (line.at, line.index), reverse=True)

    def branch(self, leaf: SessionLine) -> list[SessionLine]:
        """In the order of the file, which is that of time."""
        found: dict[int, SessionLine] = {}
        line: SessionLine | None = leaf
        while line is not None and line.index not in found:
            found[line.index] = line
            if line.parent:
                line = self._by_uuid.get(line.parent)
            else:
                line = None
        for part in [part for line in found.values() for part in self._answers.get(line.answer_id, ())]:
            found[part.index] = part
            for use in part.uses:
                found.update((line.index, line) for line in self._results.get(as_text(use.get("id")), ()))
        return [found[index] for index in sorted(found)]


def _linked(lines: list[SessionLine]) -> list[SessionLine]:
    """The lines, each with a name of its own and one to follow that is there.

    A line whose parent is not in the file follows the one before it. So do all lines without a parent, in a file that
    keeps no parents at all: no answer is the beginning of anything.
    """
    named = [line if line.uuid else msgspec.structs.replace(line, uuid=f"line {line.index}") for line in _once(lines)]
    known = {line.uuid for line in named}
    loose = any(line.kind == "assistant" and not line.parent for line in named)
    found: list[SessionLine] = []
    for line in named:
        if line.parent:
            lost = line.parent not in known
        else:
            lost = loose
        before = found[-1].uuid if found else ""
        found.append(msgspec.structs.replace(line, parent=before) if lost or line.parent == line.uuid else line)
    return found


def _once(lines: list[SessionLine]) -> Iterator[SessionLine]:
    """Each line once: a session that is compacted or resumed may repeat what it holds already."""
    seen: dict[str, SessionLine] = {}
    for line in lines:
        first = seen.setdefault(line.uuid, line)
        if line is first or not line.uuid:
            yield line
        elif (first.kind, first.message) != (line.kind, line.message):
            yield msgspec.structs.replace(line, uuid=f"{line.uuid} {line.index}")
