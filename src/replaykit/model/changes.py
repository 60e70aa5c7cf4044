"""Changes: a state as its difference from the state before.

Agents hand over their whole state at every step, and mostly it has only grown. `StateFold` holds the state as
JSON text, one part per top-level key, and turns each new state into a `Change`: which keys were set, which
lists were extended, which texts were cut in the middle. Folding the changes again gives every state back, so
a log of growing states stays linear. Lists that grew at the end are the common case and take one comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from functools import partial
from typing import Protocol

import msgspec
import orjson

from replaykit.model.events import Change, State
from replaykit.model.incremental_redaction import LONG, IncrementalRedaction
from replaykit.model.state_members import PLAIN, Clean, MemberEncoder, StateMember
from replaykit.model.text_splice import cut, paste
from replaykit.model.values import ABSENT, Json, Raw, decode, read_members

_UNCHANGED = Change()
_KEYFRAME_SLACK = 64 * 1024  # changes may add up to this, or twice the state, before the state is written whole


class Cleaning(Protocol):
    """Redacts the text of a state before it is written. The state itself stays unchanged."""

    def text(self, text: bytes, key: str) -> bytes:
        """The JSON text of a key's value, or of some items of it, as it may be written; the same object if it may."""

    def name(self, key: str) -> str:
        """The key as it may be written."""

    @property
    def is_local(self) -> bool:
        """True when it makes no difference where in a state something stands."""


class StateFold:
    """A state that is taken forward, change by change."""

    def __init__(self, spelling: MemberEncoder = PLAIN, cleaning: Cleaning | None = None) -> None:
        self._spelling = spelling
        self._cleaning = cleaning
        self._buffer = bytearray()  # for prints: a large one is dear to make anew at each step
        self._parts: dict[str, StateMember] = {}
        self._whole: bytes | None = b"null"  # a state that is not an object, or not plain
        self._whole_rows: IncrementalRedaction | None = None
        self._since_keyframe = 0
        self.same = False
        """True when it was taken to the very state it had."""

    def advance(self, state: Json) -> tuple[Raw, Change | None]:
        """Take the fold to `state`; gives the change that leads there, or else the whole text."""
        parts = self._split(state)
        if parts is not None:
            return self._take(parts)
        self._whole_rows = self._whole_rows or self._rows(None)
        return self._take_whole(self._clean("", self._whole_rows)(self._spelling.text(state)))

    def advance_to(self, values: Mapping[str, Json], same: Collection[str] = ()) -> tuple[Raw, Change | None]:
        """Take the fold to a state of named values; those in `same` are known to be as they were."""
        return self._take({k: self._parts[k] if k in same else self._part(k, v) for k, v in values.items()})

    def advance_to_text(self, values: Mapping[str, Raw]) -> tuple[Raw, Change | None]:
        """Take the fold to a state of named values that are JSON text already."""
        return self._take({key: StateMember(bytes(text)) for key, text in values.items()})

    def catch_up(self, other: StateFold) -> tuple[Raw, Change | None]:
        """Take the fold to where another one is."""
        if other._whole is not None:
            return self._take_whole(other._whole)
        return self._take({key: StateMember(part.text) for key, part in other._parts.items()})

    def _take_whole(self, text: bytes) -> tuple[Raw, Change | None]:
        self.same = self._whole == text
        self._parts, self._whole = {}, text
        return Raw(text), None

    def _take(self, parts: dict[str, StateMember]) -> tuple[Raw, Change | None]:
        change = self._change_to(parts)
        self.same = change == _UNCHANGED
        self._parts, self._whole = parts, None
        if change is not None:
            self._since_keyframe += _size(change)
            whole_size = sum(part.size for part in parts.values())
            if self._since_keyframe <= max(_KEYFRAME_SLACK, 2 * whole_size):
                return ABSENT, change
        self._since_keyframe = 0
        return Raw(self.text), None

    def apply(self, event: State) -> None:
        """Take the fold over a recorded state event; raises ValueError or KeyError when it does not fit."""
        if event.change is not None:
            self._apply(event.change)
        elif event.is_kept:
            self._load(bytes(event.state_json))

    def keys(self) -> Set[str]:
        """The names of the values it holds."""
        return self._parts.keys()

    @property
    def text(self) -> bytes:
        """The state, as JSON text."""
        if self._whole is not None:
            return self._whole
        return b"{" + b",".join(orjson.dumps(k) + b":" + p.text for k, p in self._parts.items()) + b"}"

    @property
    def value(self) -> Json:
        """The state; nothing in it is in use elsewhere. A ValueError when its text is no JSON."""
        if self._whole is not None or (len(self._parts) == 1 and next(iter(self._parts)).startswith("$")):
            return decode(self.text)
        return {key: part.value for key, part in self._parts.items()}

    @property
    def size(self) -> int:
        """About how many bytes its text has."""
        return len(self._whole or b"") + sum(part.size for part in self._parts.values())

    def parse(self) -> None:
        """Read its text once, for all the copies whose values are asked for."""
        for part in self._parts.values():
            part.parse()

    def copy(self) -> StateFold:
        """A fold of its own at the same state, for reading on."""
        fold = StateFold()
        fold._whole, fold._parts = self._whole, {key: part.copy() for key, part in self._parts.items()}
        return fold

    def _split(self, state: Json) -> dict[str, StateMember] | None:
        """The state's parts; None when it is not an object with plain names."""
        if type(state) is not dict or not all(type(key) is str for key in state):
            return None
        if len(state) == 1 and next(iter(state)).startswith("$"):
            return None
        try:
            orjson.dumps(list(state))  # the names themselves may not be sayable
            return {self._name(key): self._part(key, value) for key, value in state.items()}
        except (TypeError, RecursionError, OverflowError):
            return None

    def _part(self, key: str, value: Json) -> StateMember:
        """One key's text. What was there before, byte for byte, is not looked at again."""
        old = self._parts.get(self._name(key))
        if type(value) is list:
            clean = self._clean(key)
            if old is not None:
                grown = old.grown(value, self._spelling, self._buffer, clean)
            else:
                grown = None
            if grown is not None:
                return grown
            if self._spelling.followed(value):
                rows = self._rows(old)
                return StateMember.of_list(value, self._spelling, self._clean(key, rows), rows)
        live = self._spelling.text(value)
        if self._cleaning is None:
            return StateMember(live)
        if old is not None and old.live == live:
            return old
        rows = self._rows(old) if len(live) > LONG else None
        return StateMember(self._clean(key, rows)(live), live, rows)

    def _name(self, key: str) -> str:
        if self._cleaning is None:
            return key
        return self._cleaning.name(key)

    def _rows(self, old: StateMember | None) -> IncrementalRedaction | None:
        """The memory of a redacted text; None if texts are redacted as a whole."""
        if self._cleaning is None or not self._cleaning.is_local:
            return None
        if old is None or old.rows is None:
            return IncrementalRedaction()
        return old.rows

    def _clean(self, key: str, rows: IncrementalRedaction | None = None) -> Clean:
        if self._cleaning is None:
            return _as_it_is
        clean = self._cleaning.text
        if rows is None:
            return partial(clean, key=key)
        return partial(rows.cleaned, name=key, clean=clean)

    def _change_to(self, parts: dict[str, StateMember]) -> Change | None:
        """The change from here to `parts`; None when only the whole state says it."""
        if self._whole is not None:
            return None
        old = self._parts
        drop = tuple(key for key in old if key not in parts)
        remaining = [key for key in old if key in parts]
        if list(parts)[: len(remaining)] != remaining:
            return None  # the order of the keys changed
        change = Change(drop=drop)
        for key, part in parts.items():
            before = old.get(key)
            if before is None:
                change.put[key] = Raw(part.text)
            elif part is before:
                continue
            elif part.grown_by:
                change.add[key] = Raw(part.grown_by)
            elif before.text != part.text:
                _describe(change, key, before.text, part.text)
        return change

    def _apply(self, change: Change) -> None:
        if self._whole is not None:
            raise ValueError("a change of state without a state before it")
        parts = self._parts
        for key, items in change.add.items():
            parts[key].extend(bytes(items))
        for key in change.drop:
            del parts[key]
        for key, value in change.put.items():
            parts[key] = StateMember(bytes(value))
        for key, piece in change.cut.items():
            parts[key] = StateMember(paste(parts[key].text, piece))

    def _load(self, text: bytes) -> None:
        try:
            members = read_members(text)
        except msgspec.ValidationError:
            self._parts, self._whole = {}, text
            return
        self._parts, self._whole = {key: StateMember(bytes(value)) for key, value in members.items()}, None


def _as_it_is(text: bytes) -> bytes:
    return text


def _size(change: Change) -> int:
    """About how many bytes a change takes in the log."""
    texts = [*change.put.values(), *change.add.values(), *(text for _, _, text in change.cut.values())]
    return 64 + sum(map(len, texts))


def _describe(change: Change, key: str, old: bytes, new: bytes) -> None:
    """Enter the shorter description of one key's change: a cut, or the new text."""
    found = cut(old, new)
    if found is None:
        change.put[key] = Raw(new)
    else:
        change.cut[key] = found
