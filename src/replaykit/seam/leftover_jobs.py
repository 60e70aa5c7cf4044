"""Jobs that a tool leaves running when its call ends: threads, tasks, jobs of pools, and timers of an event loop.

Nothing compares what they change later, and a replay starts none of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from types import BuiltinMethodType, CodeType, CoroutineType, FunctionType, MethodType
from typing import Any
from weakref import ReferenceType

from replaykit.seam.agent_code import UNCHANGING, locals_of
from replaykit.seam.own_code import is_library
from replaykit.seam.propagate import job_of

_DEEPEST = 5
_MOST_OBJECTS = 1000
_ITEMS = (tuple, list, set, frozenset)


class LeftoverJobs:
    """The jobs of a call that are still running, and the objects that they were given."""

    def __init__(self, jobs: Iterable[ReferenceType[Any]]) -> None:
        self._held: dict[int, object] = {}  # by id
        self.run_own_code = False
        """True if one of them runs a function of the agent, which may change whatever the tool may change."""
        for part in _running_jobs(jobs):
            self._look_into(part)

    @property
    def is_empty(self) -> bool:
        """True if none is running."""
        return not self._held

    def hold(self, value: object) -> bool:
        """Return whether a job was given this very object, or calls a method of it."""
        return id(value) in self._held

    def _look_into(self, job: Any) -> None:
        """Hold what a job was given: the arguments first, and then what they contain."""
        waiting = deque([(job, 0)])
        while waiting and len(self._held) < _MOST_OBJECTS:
            value, depth = waiting.popleft()
            if type(value) in UNCHANGING or id(value) in self._held:
                continue
            self._held[id(value)] = value
            if depth < _DEEPEST:
                waiting.extend((part, depth + 1) for part in self._parts_of(value))

    def _parts_of(self, value: Any) -> Iterable[Any]:
        if type(value) in _ITEMS:
            # Copied at once: a job may change it meanwhile, and that must not end the look with an error.
            return list(value)[:_MOST_OBJECTS]
        if isinstance(value, dict):
            return list(value.values())
        if isinstance(value, partial):
            return value.func, value.args, value.keywords
        if isinstance(value, MethodType):
            return value.__func__, value.__self__
        if isinstance(value, BuiltinMethodType):
            return (value.__self__,)
        if isinstance(value, FunctionType):
            self._note(value.__code__)
            return () if is_library(value.__code__.co_filename) else list(_contents_of(value))
        if isinstance(value, CoroutineType):
            self._note(value.cr_code)
            return () if value.cr_frame is None else list(locals_of(value.cr_frame).values())
        return ()

    def _note(self, code: CodeType) -> None:
        self.run_own_code = self.run_own_code or not is_library(code.co_filename)


def _running_jobs(jobs: Iterable[ReferenceType[Any]]) -> Iterator[Any]:
    """Yield what each job that is still running was given."""
    for reference in jobs:
        job: Any = reference()
        if isinstance(job, threading.Thread):
            if job.is_alive():
                yield type(job).run, vars(job)
        elif hasattr(job, "_scheduled"):  # a timer of an event loop
            if job._scheduled and not job.cancelled():
                yield job._callback, job._args
        elif job is not None and not job.done():
            yield job.get_coro() if hasattr(job, "get_coro") else job_of(job)
            yield getattr(job, "_callbacks", None) or getattr(job, "_done_callbacks", None)


def _contents_of(function: FunctionType) -> Iterator[Any]:
    """Yield the values in the closure of a function, and its defaults."""
    yield function.__defaults__
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not set yet
