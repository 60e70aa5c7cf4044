"""A thread as a run: the names of its steps and nodes, whether it is finished, and its output."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from langgraph.checkpoint.serde.types import RESUME, TASKS

from replaykit.model.values import ABSENT, Raw, read_members

_OUTPUT_BYTES = 64 * 1024  # a larger final state is not repeated in the run's header
_START, _END = "__start__", "__end__"
_BRANCH, _JOIN = "branch:to:", "join:"
_STEP = re.compile(r"step_(-?\d+)")
_CYCLE = 1 << 14  # LangGraph writes the number of a step into the id of its checkpoint, in so many values


class StepNames:
    """The names of a thread's steps: `input`, `step_0`, …; `step_3.2` on a second branch.

    A step is what leads from a checkpoint to the next one. Its writes may be kept before the checkpoint they are on
    top of, and after the one they lead to; it takes its name from whichever comes first.
    """

    def __init__(self) -> None:
        self._used_names: set[str] = set()
        self._completed: set[str] = set()
        self._ahead: dict[str, str] = {}  # by checkpoint: the last step that went on from it
        self._newest = -1

    def to(self, parent: str | None, number: object) -> str:
        """The step that a checkpoint with this parent and LangGraph's number completes."""
        begun = self._ahead.get(parent or "")
        if begun is not None and begun not in self._completed:
            return begun
        if type(number) is not int:
            number = self._newest + 1
        if number >= 0:
            name = f"step_{number}"
        elif number == -1:
            name = "input"
        else:
            name = "start"
        return self._unused(name)

    def after(self, checkpoint: str, step: str | None) -> str:
        """The step that goes on from a checkpoint, which completed `step` if it is there."""
        if checkpoint in self._ahead:
            return self._ahead[checkpoint]
        if step is not None:
            number = _number(step)
        else:
            number = _number_in(checkpoint, self._newest)
        return self._unused(f"step_{number + 1}")

    def completed(self, step: str, parent: str | None) -> None:
        """A checkpoint was kept."""
        self._used_names.add(step)
        self._completed.add(step)
        self._newest = max(self._newest, _number(step))
        if parent is not None:
            self._ahead[parent] = step

    def written(self, step: str, checkpoint: str) -> None:
        """Writes on top of a checkpoint were kept."""
        self._used_names.add(step)
        self._ahead[checkpoint] = step

    def _unused(self, name: str) -> str:
        count, found = 1, name
        while found in self._used_names:
            count += 1
            found = f"{name}.{count}"
        return found


def _number(step: str) -> int:
    found = _STEP.match(step)
    if found:
        return int(found[1])
    return -1


def _number_in(checkpoint: str, near: int) -> int:
    """The number of the step that a checkpoint completes, from its id; the one nearby where the id does not say."""
    try:
        rest = uuid.UUID(checkpoint).clock_seq
    except ValueError:
        return near
    half = _CYCLE // 2
    return (rest - near + half) % _CYCLE - half + near


def node_name(path: str, channels: Collection[str]) -> str:
    """Return the name for a task's writes: its node, such as `agent` of `~__pregel_pull, agent`."""
    parts = [part.strip(" ~") for part in path.split(",")]
    if _START in parts:
        return "input"
    for part in parts:
        if part and not part.startswith("__") and not part.isdecimal():
            return part
    if "__pregel_push" in parts:
        return "send"
    if RESUME in channels:
        return "resume"
    return "update"


def goes_on(values: Mapping[str, Any]) -> bool:
    """True when the channels say that something runs next."""
    for channel, value in values.items():
        if channel == _START or channel.startswith(_BRANCH):
            return True
        if channel == TASKS and value:
            return True
        if channel.startswith(_JOIN) and _is_full(channel, value):
            return True
    return False


def _is_full(channel: str, seen: Any) -> bool:
    """True when all that a joining edge waits for have come: `join:a+b:c` for a and b."""
    awaited = channel.removeprefix(_JOIN).rpartition(":")[0].split("+")
    if isinstance(seen, tuple) and seen:
        seen = seen[0]  # of a node that is put off to the end
    return isinstance(seen, set) and seen.issuperset(awaited)


def is_passing(channel: str) -> bool:
    """True for LangGraph's own channels, which have a value for a step or so."""
    return channel.startswith(("__", _BRANCH, _JOIN))


def output_of(text: bytes) -> Raw:
    """The graph's own channels, or what a function returned, where it is small enough to be said twice."""
    if len(text) > _OUTPUT_BYTES:
        return ABSENT
    channels = read_members(text)
    if _END in channels:
        return channels[_END]
    own = {name: value for name, value in channels.items() if not is_passing(name)}
    return Raw(msgspec.json.encode(own))
