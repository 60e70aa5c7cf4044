"""Scope: where in a run a call is made.

A scope is a place in the causal tree of a run: the run itself, an asyncio task, a thread job, the inside of a
call. The path names it by who started it and in which order, never by time, so the same program gives the same
paths however its parts are scheduled. The active scope is the one context variable of this package.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Change, ErrorInfo, Event, State
from replaykit.model.values import ABSENT, Json, Raw

if TYPE_CHECKING:
    from collections.abc import Iterator


class Answer(Protocol):
    """How a call ended: what a recorded call and an `Outcome` have in common."""

    @property
    def result_json(self) -> Raw: ...
    @property
    def error(self) -> ErrorInfo | None: ...
    @property
    def items_json(self) -> tuple[Raw, ...] | None: ...
    @property
    def complete(self) -> bool: ...


class Outcome(Struct, frozen=True, kw_only=True):
    """How a call ended: with a result, an error, a stream of items, or (all absent) not at all."""

    result_json: Raw = ABSENT
    error: ErrorInfo | None = None
    items_json: tuple[Raw, ...] | None = None
    complete: bool = True


class PendingCall:
    """A call that has been made and not answered yet."""

    __slots__ = ("arguments", "at", "effects", "kind", "name", "override", "parent", "path", "seq", "step")

    def __init__(
        self, kind: str, name: str, arguments: bytes, scope: Scope, at: float, effects: str = "external"
    ) -> None:
        self.kind = kind
        self.name = name
        self.arguments = arguments  # canonical JSON, frozen at the call
        self.path = scope.path
        self.step = scope.step
        self.parent = scope.parent
        self.seq = next(scope.session.numbers)
        self.at = at
        self.effects = effects  # what it does to the world: none, idempotent or external
        self.override: dict[str, Json] | None = None  # other arguments that a handler wants it done with


class Handler(Protocol):
    """What stands behind the seam: records, replays, forks, injects faults, or passes through."""

    def serve(self, call: PendingCall) -> Answer | None:
        """The outcome to give back, or None to let the call happen; may raise to stop it."""

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """A call that was let through has ended."""

    def keep(self, event: AnyEvent) -> None:
        """Something happened that is not a call."""

    def amend(self, step: str | None, state: Json) -> Json:
        """The state the agent shall go on with after a step; the one it has, unless a fork changes it."""


class Session:
    """One run in progress: its handler, the numbering of its events, and the state as it was last kept."""

    def __init__(self, handler: Handler, *, lineage: str = "", first_number: int = 0) -> None:
        self.handler = handler
        self.lineage = lineage
        """The id of the run, or of the run it was first forked from."""
        self.numbers = itertools.count(first_number)
        self.root = Scope(self, path="")
        self._fold = StateFold()
        self._fold_lock = threading.Lock()

    def keep(self, kind: type[Event], **fields: Any) -> None:
        """Hand an event that is not a call to the handler, placed where it happened."""
        scope = _active.get() or self.root
        event = kind(
            seq=next(self.numbers),
            at=time.time(),
            step=scope.step,
            parent=scope.parent,
            path=scope.path,
            **fields,
        )
        self.handler.keep(event)  # type: ignore[arg-type]

    def checkpoint(self, state: Json, *, only_on_change: bool = False) -> Json:
        """Keep the agent's state as it is now, and give back the state to go on with (a fork may change it)."""
        scope = _active.get() or self.root
        state = self.handler.amend(scope.step, state)
        with self._fold_lock:  # changes must be kept in the order they were made
            whole, change = self._fold.advance(state)
            if only_on_change and change == Change():
                return state
            try:
                self.keep(State, state_json=whole, change=change)
            except BaseException:
                self._fold = StateFold()  # this one is not in the log: the next must not be a change of it
                raise
        return state

    @contextmanager
    def active(self) -> Iterator[Session]:
        """Calls made inside belong to this session, in tasks and threads started inside as well."""
        from replaykit.seam import propagate  # noqa: PLC0415 (it needs this module)

        with propagate.installed():
            token = _active.set(self.root)
            try:
                yield self
            finally:
                _active.reset(token)


class Scope:
    """One place in the causal tree of a run."""

    __slots__ = ("_children", "call", "parent", "path", "session", "step")

    def __init__(self, session: Session, *, path: str, step: str | None = None, parent: int | None = None) -> None:
        self.session = session
        self.path = path
        self.step = step
        self.parent = parent
        self.call: PendingCall | None = None  # the call this is the inside of
        self._children: dict[str, itertools.count[int]] = {}

    def number(self, name: str) -> int:
        """The next number for things of that name started here."""
        counter = self._children.get(name)
        if counter is None:
            counter = self._children.setdefault(name, itertools.count())  # atomic, as is next() on it
        return next(counter)

    def inside(self, call: PendingCall, number: int) -> Scope:
        """The scope inside a call made here."""
        scope = Scope(self.session, path=f"{self.path}/{call.name}#{number}", step=self.step, parent=call.seq)
        scope.call = call
        return scope

    def job(self, name: str) -> Scope:
        """The scope of a task, pool job or thread started here."""
        name = f"~{name}"  # no call has such a name: calls and jobs are numbered apart
        return Scope(self.session, path=f"{self.path}/{name}#{self.number(name)}", step=self.step, parent=self.parent)

    def share_numbering(self, other: Scope) -> None:
        """Number children together with another scope of the same path."""
        self._children = other._children


_active: ContextVar[Scope | None] = ContextVar("replaykit_scope", default=None)

current = _active.get
"""The active scope, or None outside of any run."""
enter = _active.set
"""Make a scope the active one; gives the token for `leave`."""
leave = _active.reset
