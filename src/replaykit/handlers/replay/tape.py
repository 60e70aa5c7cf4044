"""Tape: the calls of a run, indexed so that serving them needs lookups instead of searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct

from replaykit.errors import ReplayKitError, wrong_argument
from replaykit.handlers.replay.call_index import NONE, CallIndex
from replaykit.handlers.replay.current_time import NowIndex, without_circumstances
from replaykit.handlers.replay.keys import key_of
from replaykit.handlers.replay.redaction import ByKind, Redaction, Taken
from replaykit.handlers.replay.taped_requests import LONG_BYTES, TapedRequests, TextBlocks, TextKey, holds_opaque
from replaykit.model.changed_files import ChangedFile, changed_files
from replaykit.model.diff import Difference
from replaykit.model.events import Call, LlmCall, ToolCall
from replaykit.model.jsonpath import JsonPath, parse_path, remove_paths
from replaykit.model.matching import MatchMode, MatchRules, ModelMatch
from replaykit.model.pins import Clock, Pins
from replaykit.model.run import TraceRun
from replaykit.model.values import dumps, opaque_in_words
from replaykit.redaction.parts import Parts
from replaykit.redaction.placeholders import canonical, may_be_redacted
from replaykit.seam.parameters import Parameters
from replaykit.seam.scope import MODEL, PendingCall

if TYPE_CHECKING:
    from replaykit.handlers.replay.traced_model_calls import Traced, TracedCalls
    from replaykit.wire.conversation import Conversation

_CAUSAL = MatchMode.CAUSAL  # looked up for every call, and enum member access is slow in Python 3.11
UNKNOWN = b"null"
"""The arguments of a call without recorded ones, which would be an object."""


class Tape:
    """The recorded calls of a run, in order."""

    def __init__(self, calls: Iterable[Call], *, name: str = "", started_at: float = 0.0) -> None:
        try:
            self.calls = sorted((call for call in calls if not is_refused(call)), key=lambda call: call.seq)
        except (AttributeError, TypeError):
            raise wrong_argument("rk.Tape", calls, "rk.Tape(store.load(run_id).calls)") from None
        self.name = name
        self.pins = Pins()
        """The randomness of the run that a replay reproduces."""
        self.not_held: tuple[str, ...] = ()
        self.held_up_s = 0.0
        self.after_calls_s = 0.0
        self.changed_files: tuple[ChangedFile, ...] = ()
        self.source_format = ""
        """The format of the trace that an imported run came from."""
        self.started_at = started_at
        """When the run began, in seconds since the epoch; 0 if unknown."""
        self.holds_date = True
        """True if a replay uses the run's date, provided that the times of its calls are known."""

    @classmethod
    def of(cls, run: TraceRun) -> Tape:
        """Return the tape of a run."""
        if not isinstance(run, TraceRun):
            raise wrong_argument("rk.Tape.of", run, "rk.Tape.of(store.load(run_id))")
        tape = cls(run.calls, name=run.name or run.id, started_at=run.started_at)
        if run.chance.seed:
            tape.pins = Pins(seed=run.chance.seed, started_at=run.started_at, clock=Clock.LIVE)
        tape.not_held = run.chance.not_held
        tape.held_up_s = run.chance.held_up_s
        tape.after_calls_s = run.chance.after_calls_s
        tape.changed_files = changed_files(run.events)
        tape.source_format = run.origin.format or ""
        return tape

    def __len__(self) -> int:
        return len(self.calls)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a tool call comes from a foreign trace. Only recorded calls have a span."""
        return any(call.span is None and isinstance(call, ToolCall) for call in self.calls)

    @cached_property
    def is_redacted(self) -> bool:
        """Whether the requests contain placeholders."""
        names = {call.name for call in self.calls}
        return may_be_redacted([*self.requests.distinct_texts(), *map(str.encode, names)])

    @cached_property
    def requests(self) -> TapedRequests:
        """The requests of the calls, and their keys."""
        return TapedRequests(self.calls)


class ForeignCalls:
    """The calls of one tool in a foreign trace, by the arguments that the model wrote."""

    def __init__(self, parameters: Parameters, keys: Iterable[tuple[int, bytes]], used: bytearray) -> None:
        self.parameters = parameters
        self.arguments: list[bytes | None] = [None] * len(used)
        """For each call on the tape, its arguments if it is one of them."""
        self.last: dict[bytes, int] = {}
        for index, key in keys:
            arguments = parameters.model_arguments(key, is_recorded=True)
            self.arguments[index] = arguments
            self.last[arguments] = index
        self.index = CallIndex(self.arguments, used)


class LastMiss(Struct, frozen=True):
    """The latest miss: the call, its number, and the nearest recorded call."""

    question: tuple[str, str, bytes]
    number: int
    near: tuple[Call, list[Difference]] | None


class Matcher:
    """Finds the recorded call for each call of a candidate. Each recorded call is used once."""

    def __init__(
        self,
        tape: Tape,
        mode: MatchMode = MatchMode.CAUSAL,
        ignore: Iterable[str] = (),
        *,
        key_id: str = "",
        model: ModelMatch | None = None,
    ) -> None:
        self.calls = tape.calls
        self.mode = mode
        self.used = bytearray(len(self.calls))
        self._ignore: tuple[JsonPath, ...] = tuple(map(parse_path, ignore))
        self._key_id = key_id
        self._redaction = Redaction(self, key_id) if tape.is_redacted else None
        tools = {call.seq for call in self.calls if isinstance(call, ToolCall)}
        self.inner = bytearray(call.parent in tools for call in self.calls)
        """True for calls inside a recorded tool, which do not happen when that tool is served."""
        self.unanswerable: dict[int, str] = {}
        """Calls on the tape whose outcome cannot be served, with the reason."""
        self._plain = bytearray(len(self.calls))
        """True for calls that can be served with nothing to note."""
        self._is_direct = mode is _CAUSAL and not self._ignore and self._redaction is None
        """True if calls are found by unmodified path and arguments, and no other process takes them."""
        self._started_at = tape.started_at
        self._now_indexes: dict[bool, NowIndex] = {}  # without and with moments at a distance
        self._cursor = 0
        self.last_miss: LastMiss | None = None
        self._taken_elsewhere: set[tuple[str, str, TextKey]] = set()
        """Path, name and arguments of recorded calls that were served elsewhere, which shifts the remaining ones."""
        self._requests = tape.requests
        self._text_key = tape.requests.blocks.key
        self._whole_key = TextBlocks().key
        """Makes keys of complete arguments, for calls of which only a part is compared."""
        self._keys: list[TextKey] = []
        """For each call, the key of its compared arguments."""
        self._next_of_name: dict[tuple[str, str], int] = {}
        self._foreign: dict[tuple[str, int], ForeignCalls] = {}
        """By tool name and function. Filled when a call is not found otherwise."""
        for index, call in enumerate(self.calls):
            self._enter(index, call)
        self._by_path = CallIndex(self._places, self.used)
        self._model = model
        self.has_traced = any(_has_no_bytes(call, model) for call in self.calls)

    @classmethod
    def of(cls, tape: Tape, rules: MatchRules) -> Matcher:
        """Return a matcher for the rules of a case."""
        return cls(tape, rules.mode, rules.ignore, key_id=rules.redaction_key_id, model=rules.model)

    @cached_property
    def traced(self) -> TracedCalls:
        """The model calls that are found by conversation, built when a model is first called."""
        from replaykit.handlers.replay.traced_model_calls import TracedCalls  # noqa: PLC0415 (few tapes hold any)

        return TracedCalls(self, self._over, self._model)

    def _over(self, calls: list[LlmCall]) -> Matcher:
        """Return a matcher for other calls by the same rules."""
        tape = Tape((), started_at=self._started_at)
        tape.calls = list(calls)
        matcher = Matcher(tape, self.mode, [path.text for path in self._ignore], key_id=self._key_id)
        matcher.has_traced = False
        return matcher

    def _enter(self, index: int, call: Call) -> None:
        requests = self._requests
        if reason := _unanswerable(call):
            self.unanswerable[index] = reason
        if self._redaction is None and not self._ignore and call.wire is None:
            key, is_opaque = requests.keys[index], requests.are_opaque[index]
        else:
            arguments = self.key(call.name, key_of(call))
            key, is_opaque = self._text_key(self._spelled(call.name), arguments), holds_opaque(arguments)
        self._keys.append(key)
        self._plain[index] = index not in self.unanswerable and not call.mutated and not is_opaque

    def _place(self, index: int) -> tuple[str, str, str, TextKey]:
        """Return the compared path, kind, name and arguments of a recorded call."""
        call = self.calls[index]
        return self._spelled(call.path), call.kind, self._spelled(call.name), self._keys[index]

    @property
    def _places(self) -> list[tuple[str, str, str, TextKey]]:
        if self._redaction is not None:
            return list(map(self._place, range(len(self.calls))))
        # Equivalent to `_place` for each call, in a third of the time.
        return [(call.path, call.kind, call.name, key) for call, key in zip(self.calls, self._keys, strict=True)]

    def _cut(self, part: slice) -> list[tuple[Hashable, ...]]:
        """Return this part of each place."""
        return list(map(itemgetter(part), self._places))

    @cached_property
    def _by_arguments(self) -> CallIndex:
        """The recorded calls by everything but their paths. An unedited candidate rarely needs them."""
        return CallIndex(self._cut(slice(1, None)), self.used)

    @cached_property
    def _by_request(self) -> CallIndex:
        """The recorded calls by place and by all of their arguments, including those that are not compared."""
        return CallIndex([(*self._place(index), whole) for index, whole in enumerate(self._requests.keys)], self.used)

    @cached_property
    def _by_request_anywhere(self) -> CallIndex:
        """The recorded calls by the same, without their paths."""
        keys = [(*self._place(index)[1:], whole) for index, whole in enumerate(self._requests.keys)]
        return CallIndex(keys, self.used)

    @cached_property
    def _by_name_and_path(self) -> CallIndex:
        """The recorded calls by path, kind and name."""
        return CallIndex(self._cut(slice(3)), self.used)

    @cached_property
    def _free_by_name(self) -> CallIndex:
        """The recorded calls by kind and name."""
        return CallIndex(self._cut(slice(1, 3)), self.used)

    @cached_property
    def _free_by_kind(self) -> CallIndex:
        """The recorded calls by kind."""
        return CallIndex([call.kind for call in self.calls], self.used)

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], list[int]]:
        """All recorded calls of a kind and name."""
        found: dict[tuple[str, str], list[int]] = {}
        for index, call in enumerate(self.calls):
            found.setdefault((call.kind, self._spelled(call.name)), []).append(index)
        return found

    @cached_property
    def _by_kind(self) -> dict[str, list[int]]:
        """All recorded calls of a kind."""
        found: dict[str, list[int]] = {}
        for index, call in enumerate(self.calls):
            found.setdefault(call.kind, []).append(index)
        return found

    @cached_property
    def _last(self) -> dict[tuple[str, str, TextKey], int]:
        """The last recorded call of each kind and name with the same arguments."""
        return {self._place(index)[1:]: index for index in range(len(self.calls))}

    def _spelled(self, name: str) -> str:
        """Return a name or path in the form in which it is compared."""
        if self._redaction is None or not name:
            return name
        return canonical(name.encode()).decode()

    def key(self, name: str, arguments: bytes) -> bytes:
        """Return the compared part of the arguments: no ignored members, and placeholders in canonical form."""
        if self._redaction is not None:
            arguments = canonical(arguments)
        if not self._ignore:
            return arguments
        remaining = remove_paths(orjson.loads(arguments), self._ignore, tool=name)
        return dumps(remaining, option=orjson.OPT_SORT_KEYS)

    def take_plain(self, call: PendingCall) -> int | None:
        """Return the index of the recorded call if it is found at once with nothing to note.

        `take` would find the same.
        """
        if not self._is_direct or call.key is not call.arguments:
            return None
        key: TextKey = call.arguments
        if len(key) >= LONG_BYTES:
            key = self._text_key(call.name, call.arguments)
        place = (call.path, call.kind, call.name, key)
        index = self.plain_at(place)
        if index is not None:
            self.take_plain_at(place, index)
        return index

    def plain_at(self, place: tuple[str, str, str, TextKey]) -> int | None:
        """Return the recorded call at this place if there is nothing to note, without taking it."""
        index = self._by_path.heads.get(place, NONE) if self._is_direct else NONE
        if index == NONE or self.used[index] or not self._plain[index]:
            return None
        return index

    def take_plain_at(self, place: tuple[str, str, str, TextKey], index: int) -> None:
        """Take the call that `plain_at` found."""
        self._by_path.heads[place] = self._by_path.after[index]
        self.used[index] = 1

    def take(self, call: PendingCall) -> Taken:
        """Take the recorded call for this one, and return how it was found: exact, moved or arguments."""
        if not self._is_traced(call):
            return self._take_recorded(call)
        if self.traced.is_all:
            return self.traced.take(self, call)
        return self._take_recorded(call) or self.traced.take(self, call)

    def _is_traced(self, call: PendingCall) -> bool:
        """Return whether a call is a model's over HTTP, which may be found by its conversation."""
        return self.has_traced and call.kind == MODEL and call.request is not None

    def _take_recorded(self, call: PendingCall) -> Taken:
        if self._is_direct and call.key is call.arguments:
            # Most calls of tasks and threads are found here, in a third of the time of the general way.
            key = self._text_key(call.name, call.key)
            index = self._by_path.heads.get((call.path, call.kind, call.name, key), NONE)
            if index != NONE and not self.used[index]:
                self.used[index] = 1
                return index, "exact"
        found = self._look(call, self._take)
        if found is None and self._redaction is None and Parts(call.key):
            # Only the input was redacted, not the requests.
            self._redaction = Redaction(self, self._key_id)
            self._is_direct = False
            return self._look(call, self._take)
        return found

    def nearest_model(self, call: PendingCall) -> tuple[Traced, Conversation] | None:
        """Return the recorded model call with the most similar conversation, and the conversation of this call."""
        now = self.traced.conversation(call)
        if now is None:
            return None
        recorded = self.traced.nearest(self, now)
        if recorded is None:
            return None
        return recorded, now

    def unknown_models(self) -> bool:
        """Return whether an unused model call lacks its recorded request."""
        return self.has_traced and self.traced.has_unknown(self)

    def is_asked_again(self, index: int) -> bool:
        """Return whether another unused model call has the same request."""
        return self.has_traced and self.traced.is_asked_again(self, index)

    def take_by_kind(self, call: PendingCall, *, written: bool = False) -> ByKind | None:
        """Find the recorded call for a missed one, if the recording was redacted with another key."""
        if self._redaction is None:
            found = None
        else:
            found = self._redaction.take_by_kind(call, written=written)
        if found is None and self._is_traced(call):
            return self.traced.take_by_kind(self, call, written=written)
        return found

    def _take(self, call: PendingCall) -> Taken:
        path, name, arguments = self._compared(call)
        if self.mode is MatchMode.STRICT:
            return self._take_strictly(call, arguments)
        if self.mode is MatchMode.SEQUENCE:
            return self._take_in_sequence(call, arguments)
        key = self._text_key(name, arguments)
        whole = self._whole(call, arguments)
        is_causal = self.mode is _CAUSAL
        if is_causal:
            index = self._first_at_path((path, call.kind, name, key), whole)
            if index is not None and (path, name, key) in self._taken_elsewhere:
                return self._use(index, "moved")
            if index is not None:
                return self._use(index, "exact")
        index = self._first_anywhere((call.kind, name, key), whole)
        if index is None:
            return None
        if not is_causal:
            return self._use(index, "exact")
        self._taken_elsewhere.add((self._spelled(self.calls[index].path), name, key))
        return self._use(index, "moved")

    def take_by_model_arguments(self, call: PendingCall) -> Taken:
        """Take a foreign trace's call with the same arguments, apart from what traces leave out.

        These are defaults of the tool's signature and arguments injected by a framework. Recorded calls contain them
        all.
        """
        if call.parameters is None:
            return None
        return self._look(call, self._take_by_model_arguments)

    def _look(self, call: PendingCall, take: Callable[[PendingCall], Taken], *, anywhere: bool = True) -> Taken:
        """Return what `take` finds, on a redacted tape also for the call as it would have been recorded."""
        if self._redaction is None:
            return take(call)
        return self._redaction.take(call, take, anywhere=anywhere)

    def _take_by_model_arguments(self, call: PendingCall) -> Taken:
        found = self._foreign_calls(call)
        if found is None:
            return None
        path, _name, arguments = self._compared(call)
        key = found.parameters.model_arguments(arguments)
        if self.mode is MatchMode.STRICT:
            expected = self.expected()
            if expected is not None and found.arguments[expected] == key:
                return self._use(expected, "exact")
            return None
        index = self._first_free(found.index, key)
        if index is None:
            return None
        if self.mode is MatchMode.ARGS or self._spelled(self.calls[index].path) == path:
            return self._use(index, "exact")
        return self._use(index, "moved")

    def _foreign_calls(self, call: PendingCall) -> ForeignCalls | None:
        """Return the calls of this tool in a foreign trace; None if there are none."""
        parameters = call.parameters
        if parameters is None:
            return None
        key = (call.name, id(parameters.fn))
        if key not in self._foreign:
            indexes = [index for index in self.of_name(call) if self.calls[index].span is None]
            keys = ((index, self.key(call.name, key_of(self.calls[index]))) for index in indexes)
            self._foreign[key] = ForeignCalls(parameters, keys, self.used)
        found = self._foreign[key]
        if found.last:
            return found
        return None

    def take_as_now(self, call: PendingCall, began_at: float, now: float) -> Taken:
        """Take a recorded call that differs only in the current time, or in the frames of a traceback."""
        # Strict and sequential matching go by position, and a tape without a start has no moments to compare.
        if not self._started_at or self.mode not in (_CAUSAL, MatchMode.ARGS):
            return None
        found = self._look(call, partial(self._take_as_now, began_at=began_at, now=now))
        if found is None and self._is_traced(call):
            return self.traced.take_as_now(self, call, began_at, now)
        return found

    def _take_as_now(self, call: PendingCall, *, began_at: float, now: float) -> Taken:
        path, name, arguments = self._compared(call)
        # If the date is frozen, it is that of the recording, and the process may have started before that took effect.
        start = self._started_at if began_at > now else began_at
        for at_a_distance in (False, True):
            masked = without_circumstances(arguments, start, now, at_a_distance=at_a_distance)
            if not masked.has_circumstances:
                continue
            indexes = self._now_index(at_a_distance=at_a_distance)
            index = self._first_free(indexes.by_path, (path, call.kind, name, masked.text))
            if index is None:
                index = self._first_free(indexes.anywhere, (call.kind, name, masked.text))
            if index is not None and indexes.fits(index, masked):
                return self._use(index, "now" if masked.has_moments else "traceback")
        return None

    def _now_index(self, *, at_a_distance: bool) -> NowIndex:
        """Return the index of the calls without their moments, built for the first call that needs it."""
        found = self._now_indexes.get(at_a_distance)
        if found is None:
            found = NowIndex(self.calls, self._started_at, self._recorded_key, self.used, at_a_distance=at_a_distance)
            self._now_indexes[at_a_distance] = found
        return found

    def _recorded_key(self, call: Call) -> tuple[str, str, bytes]:
        return self._spelled(call.path), self._spelled(call.name), self.key(call.name, key_of(call))

    def take_exactly(self, call: PendingCall) -> int | None:
        """Take the recorded call with exactly this path and these arguments; None if there is none."""
        found = self._look(call, self._take_exactly, anywhere=False)
        if found is None and self._is_traced(call):
            return self.traced.take_exactly(self, call)
        if found is None:
            return None
        return found[0]

    def _take_exactly(self, call: PendingCall) -> Taken:
        path, name, arguments = self._compared(call)
        key = self._text_key(name, arguments)
        index = self._first_at_path((path, call.kind, name, key), self._whole(call, arguments))
        if index is None:
            return None
        return self._use(index, "exact")

    def _compared(self, call: PendingCall) -> tuple[str, str, bytes]:
        """Return path, name and arguments of a call in the form in which they are compared."""
        return self._spelled(call.path), self._spelled(call.name), self.key(call.name, call.key)

    def last_outcome(self, call: PendingCall) -> int | None:
        """Return the last recorded call with these arguments: what a loop would have seen."""
        arguments = self.key(call.name, call.key)
        if self._redaction is not None:
            arguments = self._redaction.recorded_key(arguments)
        name = self._spelled(call.name)
        index = self._last.get((call.kind, name, self._text_key(name, arguments)))
        if index is not None:
            return index
        if self._is_traced(call):
            return self.traced.last_outcome(call)
        foreign = self._foreign_calls(call)
        if foreign is None:
            return None
        return foreign.last.get(foreign.parameters.model_arguments(arguments))

    def of_name(self, call: PendingCall) -> list[int]:
        """Return all recorded calls of this kind and name."""
        return self._by_name.get((call.kind, self._spelled(call.name)), [])

    def free_of_name(self, call: PendingCall) -> Iterator[int]:
        """Yield the unused recorded calls of this kind and name."""
        return self._free_by_name.free((call.kind, self._spelled(call.name)))

    def names(self, kind: str) -> list[str]:
        """Return the names of the recorded calls of a kind."""
        names = [self.calls[indexes[0]].name for (other, _), indexes in self._by_name.items() if other == kind]
        return sorted(names)

    def some_of_name(self, call: PendingCall, count: int) -> list[int]:
        """Return up to `count` recorded calls of this kind and name: the first unused ones, or else the last ones."""
        return list(islice(self.free_of_name(call), count)) or self.of_name(call)[: -count - 1 : -1]

    def some_of_kind(self, kind: str, count: int) -> list[int]:
        """Do the same for all names of a kind."""
        return list(islice(self._free_by_kind.free(kind), count)) or self._by_kind.get(kind, [])[: -count - 1 : -1]

    def has_left(self, call: PendingCall) -> bool:
        """Return whether a recorded call of this kind, name and path is unused."""
        place = self._spelled(call.path), call.kind, self._spelled(call.name)
        return self._by_name_and_path.first(place) is not None

    def expected(self) -> int | None:
        """Return the next expected call in strict mode."""
        while self._cursor < len(self.calls) and (self.used[self._cursor] or self.inner[self._cursor]):
            self._cursor += 1
        if self._cursor < len(self.calls):
            return self._cursor
        return None

    def unused(self) -> list[int]:
        """Return the recorded calls that the candidate did not make."""
        return [i for i in range(len(self.calls)) if not self.used[i] and not self.inner[i]]

    def _take_strictly(self, call: PendingCall, arguments: bytes) -> Taken:
        index = self.expected()
        if index is None:
            return None
        recorded = self.calls[index]
        if (recorded.kind, self._spelled(recorded.name)) != (call.kind, self._spelled(call.name)):
            return None
        if self.key(call.name, key_of(recorded)) != arguments:
            return None
        return self._use(index, "exact")

    def _take_in_sequence(self, call: PendingCall, arguments: bytes) -> Taken:
        name = (call.kind, self._spelled(call.name))
        recorded, position = self._by_name.get(name, []), self._next_of_name.get(name, 0)
        if position >= len(recorded):
            return None
        self._next_of_name[name] = position + 1
        index = recorded[position]
        key = key_of(self.calls[index])
        if key == UNKNOWN or self.key(call.name, key) == arguments or self._is_same_call(call, index, arguments):
            return self._use(index, "exact")
        return self._use(index, "arguments")

    def _is_same_call(self, call: PendingCall, index: int, arguments: bytes) -> bool:
        """Return whether a foreign trace's call differs only in what traces leave out."""
        parameters, recorded = call.parameters, self.calls[index]
        if parameters is None or recorded.span is not None:
            return False
        key = parameters.model_arguments(self.key(call.name, key_of(recorded)), is_recorded=True)
        return key == parameters.model_arguments(arguments)

    def _whole(self, call: PendingCall, arguments: bytes) -> TextKey | None:
        """Return the key of all arguments of a call if only a part of them (`arguments`) is compared."""
        if arguments is call.arguments:
            return None
        return self._whole_key(call.name, call.arguments)

    def _first_at_path(self, key: tuple[str, str, str, TextKey], whole: TextKey | None) -> int | None:
        """Return the first call at this place, preferring one that agrees in all arguments."""
        index = self._by_path.first(key)
        if index is not None and whole is not None and not self._by_path.is_only(index):
            agreeing = self._first_free(self._by_request, (*key, whole))
            if agreeing is not None:
                return agreeing
        return self._first_free(self._by_path, key)

    def _first_anywhere(self, key: tuple[str, str, TextKey], whole: TextKey | None) -> int | None:
        """Do the same at any path."""
        index = self._by_arguments.first(key)
        if index is not None and whole is not None and not self._by_arguments.is_only(index):
            agreeing = self._first_free(self._by_request_anywhere, (*key, whole))
            if agreeing is not None:
                return agreeing
        return self._first_free(self._by_arguments, key)

    def _first_free(self, calls: CallIndex, key: Hashable) -> int | None:
        """Claim and return the first unused call with this key."""
        index = calls.first(key)
        while index is not None and not self._claim(index):
            self.used[index] = 1
            index = calls.first(key)
        return index

    def _claim(self, index: int) -> bool:
        """Return whether this process may use the call. Shared tapes override this."""
        return True

    def take_first(self, calls: CallIndex, key: Hashable) -> int | None:
        """Take the first call with this key."""
        index = self._first_free(calls, key)
        if index is not None:
            self.used[index] = 1
        return index

    def take_text(self, call: PendingCall, texts: Iterable[bytes]) -> int | None:
        """Take the first recorded call of this kind and name with one of these arguments, preferring this path."""
        path, name = self._spelled(call.path), self._spelled(call.name)
        keys = [self._text_key(name, text) for text in texts]
        for index, places in (
            (self._by_path, [(path, call.kind, name, key) for key in keys]),
            (self._by_arguments, [(call.kind, name, key) for key in keys]),
        ):
            while found := [first for place in places if (first := index.first(place)) is not None]:
                taken = self.take_of([min(found)])
                if taken is not None:
                    return taken
        return None

    def compared_text(self, index: int) -> bytes:
        """Return the compared arguments of a recorded call."""
        key = self._keys[index]
        if isinstance(key, tuple):
            return b"".join(key)
        return key

    def take_of(self, indexes: Iterable[int]) -> int | None:
        """Take the first unused one of these calls."""
        for index in indexes:
            if self.used[index]:
                continue
            self.used[index] = 1
            if self._claim(index):
                return index
        return None

    def _use(self, index: int, how: str) -> tuple[int, str]:
        self.used[index] = 1
        return index, how


def _has_no_bytes(call: Call, model: ModelMatch | None) -> bool:
    """Return whether a model call is found by its conversation, because a trace has nothing else."""
    return isinstance(call, LlmCall) and (call.wire is None or model is ModelMatch.IGNORE)


def is_refused(call: Call) -> bool:
    """Return whether a replay or fork refused the call, so that it has no real answer."""
    return call.error is not None and call.error.module == ReplayKitError.__module__


def _unanswerable(call: Call) -> str:
    """Return why a recorded call cannot be answered; empty if it can, or if it was interrupted and may be again."""
    result = call.result_json
    if not result and not call.answered and call.complete:
        return "no outcome of it was recorded"
    if bytes(memoryview(result)[:11]) == b'{"$opaque":':
        return f"it returned {opaque_in_words(call.result.type_name)}, which cannot be kept as data"
    return ""
