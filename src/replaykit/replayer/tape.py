"""Tape: the calls of a run, indexed so that a later execution is served by lookup, never by search."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import orjson

from replaykit.errors import ReplayKitError
from replaykit.model.events import Call, ToolCall
from replaykit.model.jsonpath import JsonPath, parse_path, remove_paths
from replaykit.model.matching import MatchMode
from replaykit.model.run import TraceRun
from replaykit.redaction.placeholders import blurred
from replaykit.replayer.keys import key_of
from replaykit.seam.scope import PendingCall

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

_CAUSAL = MatchMode.CAUSAL  # asked for every call: Python 3.11 is slow to find a member of an enum
UNKNOWN = b"null"
"""The arguments of a tool's call that nobody has written down; those that were are an object."""


class Tape:
    """The recorded calls of a run, in the order they were made."""

    def __init__(self, calls: Iterable[Call], *, name: str = "") -> None:
        self.calls = sorted((call for call in calls if not _stopped(call)), key=lambda call: call.seq)
        self.name = name

    @classmethod
    def of(cls, run: TraceRun) -> Tape:
        """The tape of a run."""
        return cls(run.calls, name=run.name or run.id)

    def __len__(self) -> int:
        return len(self.calls)

    @cached_property
    def is_redacted(self) -> bool:
        """True when placeholders stand in what was asked."""
        said = (text for call in self.calls for text in (bytes(call.request_json), call.name.encode()))
        return any(b"<" in text and blurred(text) != text for text in said)


class Matcher:
    """Finds the recorded call for each call of a candidate; each recorded call is taken once."""

    def __init__(self, tape: Tape, mode: MatchMode = MatchMode.CAUSAL, ignore: Iterable[str] = ()) -> None:
        self.calls = tape.calls
        self.mode = mode
        self.used = bytearray(len(self.calls))
        self._ignore: tuple[JsonPath, ...] = tuple(map(parse_path, ignore))
        self._redactor = _redactor() if tape.is_redacted else None
        tools = {call.seq for call in self.calls if isinstance(call, ToolCall)}
        self.inner = bytearray(call.parent in tools for call in self.calls)
        """Which calls were made inside a recorded tool: they do not happen when that tool is served."""
        self.unanswerable = {i: why for i, call in enumerate(self.calls) if (why := _unanswerable(call))}
        """Calls on the tape whose outcome cannot be given again, and why."""
        self._cursor = 0
        self._by_path: dict[tuple[str, str, str, bytes], deque[int]] = {}
        self._by_arguments: dict[tuple[str, str, bytes], deque[int]] = {}
        self._by_name: dict[tuple[str, str], list[int]] = {}
        self._next_of_name: dict[tuple[str, str], int] = {}
        for index, call in enumerate(self.calls):
            self._enter(index, call)

    def _enter(self, index: int, call: Call) -> None:
        kind, name = call.kind, self._told(call.name)
        arguments = self.key(call.name, key_of(call))
        self._by_path.setdefault((self._told(call.path), kind, name, arguments), deque()).append(index)
        self._by_arguments.setdefault((kind, name, arguments), deque()).append(index)
        self._by_name.setdefault((kind, name), []).append(index)

    def _told(self, name: str) -> str:
        """A name or a path as it is compared."""
        return name if self._redactor is None else blurred(name.encode()).decode()

    def key(self, name: str, arguments: bytes) -> bytes:
        """What of the arguments is compared: all of them but the ignored members, and of a placeholder its kind."""
        if self._redactor is not None:
            arguments = blurred(arguments)
        if not self._ignore:
            return arguments
        kept = remove_paths(orjson.loads(arguments), self._ignore, tool=name)
        return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)

    def take(self, call: PendingCall) -> tuple[int, str] | None:
        """The recorded call that answers this one, and how it was found: exact, moved or arguments."""
        path, name, arguments = self._compared(call)
        said = None if arguments is call.arguments else call.arguments
        mode = self.mode
        if mode is _CAUSAL:
            waiting = self._by_path.get((path, call.kind, name, arguments))
            index = self._first_free(waiting, said) if waiting else None
            if index is not None:
                return self._use(index, "exact")
        if mode in (_CAUSAL, MatchMode.ARGS):
            index = self._first_free(self._by_arguments.get((call.kind, name, arguments)), said)
            if index is None:
                return None
            return self._use(index, "moved" if mode is _CAUSAL else "exact")
        if mode is MatchMode.STRICT:
            return self._take_strictly(call, arguments)
        return self._take_in_sequence(call, arguments)

    def take_exactly(self, call: PendingCall) -> int | None:
        """The recorded call with this very path and these arguments, or nothing."""
        path, name, arguments = self._compared(call)
        said = None if arguments is call.arguments else call.arguments
        index = self._first_free(self._by_path.get((path, call.kind, name, arguments)), said)
        return None if index is None else self._use(index, "exact")[0]

    def _compared(self, call: PendingCall) -> tuple[str, str, bytes]:
        """Path, name and arguments of a call as those on the tape are compared with them."""
        if self._redactor is None:
            return call.path, call.name, call.key if not self._ignore else self.key(call.name, call.key)
        _redact(self._redactor, call)
        return self._told(call.path), self._told(call.name), self.key(call.name, call.key)

    def last_outcome(self, call: PendingCall) -> int | None:
        """The last recorded call with these arguments: what a loop would have seen."""
        recorded = self.of_name(call)
        arguments = self.key(call.name, call.key)
        for index in reversed(recorded):
            if self.key(call.name, key_of(self.calls[index])) == arguments:
                return index
        return None

    def of_name(self, call: PendingCall) -> list[int]:
        """All recorded calls of this kind and name."""
        return self._by_name.get((call.kind, self._told(call.name)), [])

    def expected(self) -> int | None:
        """In strict mode, the recorded call that has to come next."""
        while self._cursor < len(self.calls) and (self.used[self._cursor] or self.inner[self._cursor]):
            self._cursor += 1
        return self._cursor if self._cursor < len(self.calls) else None

    def unused(self) -> list[int]:
        """The recorded calls that the candidate did not make."""
        return [i for i in range(len(self.calls)) if not self.used[i] and not self.inner[i]]

    def _take_strictly(self, call: PendingCall, arguments: bytes) -> tuple[int, str] | None:
        index = self.expected()
        if index is None:
            return None
        recorded = self.calls[index]
        if (recorded.kind, self._told(recorded.name)) != (call.kind, self._told(call.name)):
            return None
        if self.key(call.name, key_of(recorded)) != arguments:
            return None
        return self._use(index, "exact")

    def _take_in_sequence(self, call: PendingCall, arguments: bytes) -> tuple[int, str] | None:
        name = (call.kind, self._told(call.name))
        recorded, position = self._by_name.get(name, []), self._next_of_name.get(name, 0)
        if position >= len(recorded):
            return None
        self._next_of_name[name] = position + 1
        index = recorded[position]
        key = key_of(self.calls[index])
        same = key == UNKNOWN or self.key(call.name, key) == arguments
        return self._use(index, "exact" if same else "arguments")

    def _first_free(self, waiting: deque[int] | None, said: bytes | None = None) -> int | None:
        """The first that is not taken yet. Where less than all is compared (`said` is all), one that agrees in
        everything goes first."""
        while waiting and self.used[waiting[0]]:
            waiting.popleft()
        if not waiting:
            return None
        if said is not None and len(waiting) > 1:
            same = (i for i in waiting if not self.used[i] and bytes(self.calls[i].request_json) == said)
            return next(same, waiting[0])
        return waiting[0]

    def _use(self, index: int, how: str) -> tuple[int, str]:
        self.used[index] = 1
        return index, how


def _redactor() -> Redactor:
    from replaykit.redaction.project import project_redactor  # noqa: PLC0415 (many tapes hold nothing redacted)

    return project_redactor(foreign=True)


def _redact(redactor: Redactor, call: PendingCall) -> None:
    """Say the call as it would have been recorded."""
    call.name, call.path = redactor.text(call.name), redactor.text(call.path)
    arguments = redactor.raw(call.arguments, tool=call.name)
    if arguments is not call.arguments:
        call.rephrase(arguments)


def _stopped(call: Call) -> bool:
    """True for a call that a replay or a fork refused: the world never answered it."""
    return call.error is not None and call.error.module == ReplayKitError.__module__


def _unanswerable(call: Call) -> str:
    """Why a recorded call has no answer to give; nothing when it has one, or was interrupted and may be again."""
    if not call.answered and call.complete:
        return "no outcome of it was recorded"
    if bytes(call.result_json).startswith(b'{"$opaque":'):
        return f"it returned a {call.result.type_name}, which cannot be kept as data"
    return ""
