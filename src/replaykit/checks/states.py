"""Assertions about the agent's state: after a step, at the end, and repetitions."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from replaykit.checks.compare import same
from replaykit.checks.reading import first, first_seq, last_seq, shown, times_text, toolless_path
from replaykit.checks.rule import CannotTell, Rule, Seen, register
from replaykit.checks.value_rule import VALUE_NOTES, PathRule
from replaykit.model.changes import StateFold
from replaykit.model.diff import differences
from replaykit.model.events import State
from replaykit.model.jsonpath import members, remove_paths
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, canonical, decode

_AT = "the step after which the state is checked; default: the end of the run"
_NO_STATE = "no state in the log"


class StateSeen(Struct, frozen=True):
    """The state after some event."""

    value: Json
    seq: int


def state_at(run: TraceRun, step: str | None) -> StateSeen | None:
    """Return the state after a step, or at the end; None if the log does not have it."""
    states = _state_events(run)
    last_state = first(reversed(states), lambda event: step in (None, event.step))
    if last_state is None or not last_state.is_kept:
        return None
    fold = StateFold()
    for event in states[: states.index(last_state) + 1]:
        _apply(fold, event)
    return StateSeen(decode(fold.text), last_state.seq)


def _state_events(run: TraceRun) -> list[State]:
    return [event for event in run.events if isinstance(event, State)]


def _apply(fold: StateFold, event: State) -> None:
    try:
        fold.apply(event)
    except (ValueError, KeyError, IndexError) as error:
        raise CannotTell(f"the states do not fit together at event {event.seq}: {error}") from None


@register("state.equals")
class StateEquals(Rule, frozen=True):
    """The agent's state is this JSON value. A run whose log holds no state there does not hold.

    This kind takes its parameters by name only: a state is often a mapping itself.
    """

    notes = {"value": "the state", "step": _AT}
    examples = (
        "state.equals: {value: {paid: true, tries: 2, user: ana}}",
        "state.equals: {value: {paid: false, tries: 1, user: ana}, step: step_1}",
    )
    value: Json
    step: str | None = None

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"state {shown(self.value)} {_where(self.step)}"
        found = state_at(run, self.step)
        if found is None:
            return _nothing(self.step, run, expected)
        equal = same(found.value, self.value)
        actual = f"state {shown(found.value)}"
        if not equal:
            for difference in differences(self.value, found.value, limit=1):
                actual += f" ({difference})"
        return Seen(equal, _comparison(self.step, equal), expected, actual, found.seq)


@register("state.path")
class StatePath(PathRule, frozen=True, kw_only=True):
    """The agent's state has this member, and it is as expected; as `output.json_path` for the output."""

    notes = {"path": "a [JSON path](#json-paths)", "step": _AT, **VALUE_NOTES}
    examples = (
        "state.path: {path: $.paid, equals: true}",
        "state.path: {path: $.tries, max: 1, step: step_1}",
    )
    step: str | None = None

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"state with {self.path} being {' and '.join(self.expectations) or 'there'} {_where(self.step)}"
        found = state_at(run, self.step)
        if found is None:
            return _nothing(self.step, run, expected)
        return self.seen_members(members(found.value, toolless_path(self.path)), "State", expected, found.seq)


@register("state.diff")
class StateDiff(Rule, frozen=True):
    """Between two steps, these members of the state changed, and nothing else than these.

    A member changed when it, or anything in it, is another than before, or is there on one side only. `changed` have to
    change, `unchanged` may not. With `only`, whatever changed has to be in one of these paths.
    """

    notes = {
        "from": "the step it is compared from; the first state of the run without it",
        "to": "the step it is compared with; the end of the run without it",
        "changed": "[JSON paths](#json-paths) that have to differ",
        "unchanged": "paths that may not",
        "only": "the only paths that may",
    }
    examples = (
        "state.diff: {changed: [$.paid], only: [$.paid, $.tries]}",
        "state.diff: {from: step_1, to: step_2, unchanged: [$.user]}",
    )
    from_: str | None = field(default=None, name="from")
    to: str | None = None
    changed: list[str] = []
    unchanged: list[str] = []
    only: list[str] | None = None

    def __post_init__(self) -> None:
        for path in (*self.changed, *self.unchanged, *(self.only or ())):
            toolless_path(path)
        if not self.changed and not self.unchanged and self.only is None:
            raise ValueError("expected `changed`, `unchanged` or `only`")

    def seen_in(self, run: TraceRun) -> Seen:
        beginning = msgspec.structs.replace(run, events=tuple(_state_events(run)[:1]))
        old = state_at(beginning, None) if self.from_ is None else state_at(run, self.from_)
        new = state_at(run, self.to)
        expected = self._expected()
        if old is None or new is None:
            return Seen(False, "No states to compare", expected, _NO_STATE, last_seq(run))
        wrong = self._wrong(old.value, new.value)
        changes = "; ".join(map(str, differences(old.value, new.value, limit=3))) or "nothing changed"
        return Seen(wrong is None, wrong or "State changed as expected", expected, changes, new.seq)

    def _wrong(self, old: Json, new: Json) -> str | None:
        for path in self.changed:
            if _same_at(old, new, path):
                return f"{path} did not change"
        for path in self.unchanged:
            if not _same_at(old, new, path):
                return f"{path} changed"
        if self.only is None:
            return None
        paths = list(map(toolless_path, self.only))
        for other in differences(remove_paths(old, paths), remove_paths(new, paths), limit=1):
            return f"{other.path} changed"
        return None

    def _expected(self) -> str:
        parts = [("changed", self.changed), ("unchanged", self.unchanged), ("only changed", self.only)]
        return "state with " + ", ".join(f"{word} {shown(paths)}" for word, paths in parts if paths)


@register("state.hash")
class StateHash(Rule, frozen=True):
    """The SHA-256 of the agent's state is this: of its canonical JSON, compact, with sorted keys, in UTF-8.

    For states that are too large to write down, or that should stay private.
    """

    plain = "sha256"
    notes = {
        "sha256": "64 hexadecimal digits; a plain text sets this",
        "step": _AT,
        "ignore": "[JSON paths](#json-paths) that are left out first",
    }
    examples = (
        "state.hash: 46d51f2f62967cb2fc990d62dcfb486630e15590469bd20b7a578d868d404b08",
        "state.hash: {sha256: 030b915c9003ea53bfa8a6546777ac6abce14bd8a45eaedc45cdddb6dc2394bf, ignore: [$.tries]}",
    )
    sha256: str
    step: str | None = None
    ignore: list[str] = []

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or set(self.sha256.lower()) - set("0123456789abcdef"):
            raise ValueError("expected the 64 hexadecimal digits of a SHA-256")
        for path in self.ignore:
            toolless_path(path)

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"a state with SHA-256 {self.sha256.lower()} {_where(self.step)}"
        found = state_at(run, self.step)
        if found is None:
            return _nothing(self.step, run, expected)
        state = remove_paths(found.value, list(map(toolless_path, self.ignore)))
        import hashlib  # noqa: PLC0415 (slow to import, needed by this kind alone)

        digest = hashlib.sha256(canonical(state)).hexdigest()
        equal = digest == self.sha256.lower()
        return Seen(equal, _comparison(self.step, equal), expected, f"SHA-256 {digest}", found.seq)


@register("state.repeated")
class StateRepeated(Rule, frozen=True):
    """The agent's state was the very same at least this many times. States that were not stored do not count."""

    plain = "times"
    notes = {"times": "how often, at least 2; a plain number sets this"}
    examples = ("state.repeated: 3",)
    times: Annotated[int, Meta(ge=2)]

    def seen_in(self, run: TraceRun) -> Seen:
        import hashlib  # noqa: PLC0415 (slow to import)

        fold = StateFold()
        states: defaultdict[bytes, list[State]] = defaultdict(list)
        for event in _state_events(run):
            if event.is_kept:
                _apply(fold, event)
                # a digest, because a run may hold thousands of large states
                states[hashlib.sha256(bytes(fold.text)).digest()].append(event)
        most = max(states.values(), key=len, default=[])
        times = times_text(len(most))
        text = f"The same state came {times}" if most else "The log holds no state"
        expected = f"the same state at least {self.times} times"
        return Seen(len(most) >= self.times, text, expected, times, first_seq(most[-1:], run))


def _same_at(old: Json, new: Json, path: str) -> bool:
    parsed = toolless_path(path)
    return same(members(old, parsed), members(new, parsed))


def _where(step: str | None) -> str:
    if step is not None:
        return f"after {step}"
    return "at the end"


def _comparison(step: str | None, equal: bool) -> str:
    return f"State {_where(step)} {'is as expected' if equal else 'differs'}"


def _nothing(step: str | None, run: TraceRun, expected: str) -> Seen:
    return Seen(False, f"No state {_where(step)}", expected, _NO_STATE, last_seq(run))
