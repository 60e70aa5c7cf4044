"""Changes: each state as the difference from the state before.

Agents hand over their whole state at every step, and most of the time it has only grown. `StateFold` holds the state as
JSON text, one part per top-level key, and turns each new state into a `Change`: keys that were set, lists that were
extended, texts that were replaced in the middle. Applying the changes restores every state, so a log of growing states
stays linear. Lists that grew at the end are the common case and cost one comparison.
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
_WHOLE = ""
"""The key of a state that is not an object, such as a list of messages: it has one part."""
_KEYFRAME_SLACK = 64 * 1024  # write a whole state once the changes add up to this, or to twice the state


class Cleaning(Protocol):
    """Redacts the text of a state before it is written. The state itself stays as it is."""

    def text(self, text: bytes, key: str) -> bytes:
        """Return the JSON text of a key's value, or of some of its items, redacted; the same object if nothing is
        secret."""

    def name(self, key: str) -> str:
        """Return the redacted name of a key."""

    @property
    def is_local(self) -> bool:
        """True if redaction does not depend on the position in the state."""


class StateFold:
    """The current state, advanced change by change."""

    def __init__(self, spelling: MemberEncoder = PLAIN, cleaning: Cleaning | None = None) -> None:
        self._spelling = spelling
        self._cleaning = cleaning
        self._buffer = bytearray()  # for fingerprints; allocating a large one at every step is expensive
        self._parts: dict[str, StateMember] = {}
        self._is_object = False
        self._since_keyframe = 0
        self.same = False
        """True if the last step left the state unchanged."""

    def advance(self, state: Json) -> tuple[Raw, Change | None]:
        """Advance to `state`; return the change that leads there, or else the whole text."""
        parts = self._split(state)
        if parts is not None:
            return self._take(parts)
        return self._take({_WHOLE: self._part(_WHOLE, state)}, is_object=False)

    def advance_to(self, values: Mapping[str, Json], unchanged: Collection[str]) -> tuple[Raw, Change | None]:
        """Advance to a state of named values; those in `same` are known to be unchanged."""
        return self._take({k: self._parts[k] if k in unchanged else self._part(k, v) for k, v in values.items()})

    def advance_to_text(self, values: Mapping[str, Raw]) -> tuple[Raw, Change | None]:
        """Advance to a state of named values that are already JSON text."""
        return self._take({key: StateMember(bytes(text)) for key, text in values.items()})

    def catch_up(self, other: StateFold) -> tuple[Raw, Change | None]:
        """Advance to the state of another fold."""
        parts = {key: StateMember(part.text) for key, part in other._parts.items()}
        return self._take(parts, is_object=other._is_object)

    def _take(self, parts: dict[str, StateMember], *, is_object: bool = True) -> tuple[Raw, Change | None]:
        change = self._change_to(parts) if is_object is self._is_object else None
        self.same = change == _UNCHANGED
        if change is not None and not is_object and not _is_bare_change(change, parts, self._parts):
            change = None
        self._parts, self._is_object = parts, is_object
        if change is not None:
            self._since_keyframe += _size(change)
            whole_size = sum(part.size for part in parts.values())
            if self._since_keyframe <= max(_KEYFRAME_SLACK, 2 * whole_size):
                return ABSENT, change
        self._since_keyframe = 0
        return Raw(self.text), None

    def apply(self, event: State) -> None:
        """Apply a recorded state event; raise ValueError or KeyError if it does not fit the current state."""
        if event.change is not None:
            self._apply(event.change)
        elif event.is_kept:
            self._load(bytes(event.state_json))

    def keys(self) -> Set[str]:
        """The top-level keys of the state."""
        return self._parts.keys() if self._is_object else set()

    @property
    def is_object(self) -> bool:
        """Whether the state is an object with plain keys."""
        return self._is_object

    @property
    def text(self) -> bytes:
        """The state as JSON text."""
        if not self._is_object:
            return self._parts[_WHOLE].text if self._parts else b"null"
        return b"{" + b",".join(orjson.dumps(k) + b":" + p.text for k, p in self._parts.items()) + b"}"

    @property
    def value(self) -> Json:
        """A new copy of the state. Raises ValueError if its text is not valid JSON."""
        # Without its siblings, a key that starts with "$" is a tagged value, not a member: only `decode` can tell.
        if len(self._parts) == 1 and next(iter(self._parts)).startswith("$"):
            return decode(self.text)
        if not self._is_object:
            return self._parts[_WHOLE].value if self._parts else None
        return {key: part.value for key, part in self._parts.items()}

    @property
    def size(self) -> int:
        """The approximate length of the state's text."""
        return sum(part.size for part in self._parts.values())

    def parse(self) -> None:
        """Parse the text once for all copies that will be read."""
        for part in self._parts.values():
            part.parse()

    def copy(self) -> StateFold:
        """Return an independent fold at the same state, for reading."""
        fold = StateFold()
        fold._is_object, fold._parts = self._is_object, {key: part.copy() for key, part in self._parts.items()}
        return fold

    def _split(self, state: Json) -> dict[str, StateMember] | None:
        """Split the state into its parts; None if it is not an object with plain keys."""
        if type(state) is not dict or not all(type(key) is str for key in state):
            return None
        if len(state) == 1 and next(iter(state)).startswith("$"):
            return None
        try:
            orjson.dumps(list(state))  # the keys themselves may not be valid UTF-8
            return {self._name(key): self._part(key, value) for key, value in state.items()}
        except (TypeError, RecursionError, OverflowError):
            return None

    def _part(self, key: str, value: Json) -> StateMember:
        """Return the part for one key. Text that is unchanged byte for byte is not redacted again."""
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
        """Return the redaction memory of a part's text; None if texts are always redacted as a whole."""
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
        """Return the change from the current state to `parts`; None if it takes the whole state to express it."""
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
        parts = self._parts
        keys = {*change.put, *change.add, *change.cut, *change.drop}
        if not self._is_object and not (parts and keys <= {_WHOLE}):
            raise ValueError("a change of state without a state before it")
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
            self._parts, self._is_object = {_WHOLE: StateMember(text)}, False
            return
        self._parts, self._is_object = {key: StateMember(bytes(value)) for key, value in members.items()}, True


def _as_it_is(text: bytes) -> bytes:
    return text


def _is_bare_change(change: Change, new: dict[str, StateMember], old: dict[str, StateMember]) -> bool:
    """Return whether a reader can apply the change of a state that is not an object.

    Before the first state there is no part, and a reader takes a text in braces for an object.
    """
    if _WHOLE in change.put or not old:
        return False
    return not old[_WHOLE].is_in_braces and not new[_WHOLE].is_in_braces


def _size(change: Change) -> int:
    """Return the approximate size of a change in the log."""
    texts = [*change.put.values(), *change.add.values(), *(text for _, _, text in change.cut.values())]
    return 64 + sum(map(len, texts))


def _describe(change: Change, key: str, old: bytes, new: bytes) -> None:
    """Enter one key's change in its shorter form: a cut, or the whole new text."""
    piece = cut(old, new)
    if piece is None:
        change.put[key] = Raw(new)
    else:
        change.cut[key] = piece
