"""Redact long JSON texts piece by piece: each distinct piece is checked once.

The result equals that of checking the whole text, which the tests verify. Everything that a rule may see beyond the
border of a piece is preserved:

- traits of the whole text decide which rules run on its pieces (`traits`);
- a value found in one piece is searched in all of them, pass by pass;
- after a finding in one piece, values next to telling names are redacted in all of them;
- the surroundings of each border are checked. If that finds anything else than checking each piece, the whole text is
  checked instead, and so is a text with a truncated private key.

Conversations grow. Of a text that begins like a recent one, only the new part is read, and the findings in the shared
pieces are reused (`_Reading`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, pairwise, repeat
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.model.text_splice import common_prefix
from replaykit.redaction.finding import Edit, Hit, applied
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.pieces import STAND_IN, Pieces, TextSpan, grown_pieces, joined, pieces_of
from replaykit.redaction.search import hits_in
from replaykit.redaction.text_edits import MAX_PASSES, Known, values_worth_knowing
from replaykit.redaction.text_view import View

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

# How far rules see over a border: between pieces without any sign of a rule, and next to one with a sign.
_NEAR, _FAR = 512, 4096
_LIMIT_BYTES = 32 * 1024 * 1024
_MAX_READINGS = 4  # the number of recent texts to keep: each agent of a run has its own conversation
_LARGEST_READING = 8 * 1024 * 1024
_BEGIN, _END = b"-----BEGIN", b"-----END"


class _Unit:
    """A piece, or the rest, with everything known about it that does not depend on its context."""

    __slots__ = ("_held", "_traits", "_value_count", "is_clean", "is_open", "raw", "text")

    def __init__(self, raw: bytes, is_clean: bool) -> None:
        self.raw = raw
        self.text = raw.decode("utf-8", "surrogateescape")
        self.is_clean = is_clean
        self.is_open = raw.rfind(_BEGIN) > raw.rfind(_END)
        """True if an armoured key begins but does not end in it."""
        self._traits = -1
        self._held: list[str] = []
        self._value_count = 0

    def held(self, values: list[str]) -> list[str]:
        """Return the values that it may contain. The list only grows, and each value is searched once."""
        for value in values[self._value_count :]:
            if _may_hold(self.text, value):
                self._held.append(value)
        self._value_count = len(values)
        return self._held

    @property
    def traits(self) -> int:
        if self._traits < 0:
            self._traits = View(self.text).traits
        return self._traits


class _Look(Struct, eq=False):
    """The findings of one pass in a unit."""

    hits: list[Hit]
    may_find: bool
    """True if this unit makes the pass visit all members of the text."""
    edits: list[Edit] | None = None
    values: Known = {}
    """Edited values that are searched elsewhere, too."""
    after: _Unit | None = None
    """The unit with these edits; None without edits."""


class _Pass(Struct, eq=False):
    """A pass over the units of a text: its input and its findings."""

    units: list[_Unit]
    known: Known
    sums: list[int]
    """Cumulative traits of the units, starting with none."""
    traits: int
    """The traits of the whole text."""
    looks: list[_Look]


class _State(Struct, eq=False):
    """The units of a text before or after the passes."""

    pieces: Pieces
    units: list[_Unit]
    rest: _Unit

    def end_of(self, shared: int) -> int:
        """Return where the first `shared` units end in the text."""
        if not shared:
            return 0
        return self.pieces.spans[shared - 1].end

    def borders_known_from(self, other: _State, shared: int) -> int:
        """Return up to where borders need no check, because another text with the same first units passed it."""
        if self.rest.is_clean != other.rest.is_clean:
            return 0
        return self.end_of(shared) - _FAR


class _Reading(Struct, eq=False):
    """A redacted text, to be reused for texts that begin like it."""

    name: str
    before: _State
    passes: list[_Pass]
    after: _State


class Piecewise:
    """Caches the pieces that a redactor has checked, by content. Drops all of them when there are too many."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._forget()

    def _forget(self) -> None:
        """Clear the cache. Only between two texts: units remember which values they were searched for."""
        self._units: dict[bytes, _Unit] = {}
        self._looks: dict[tuple[object, ...], _Look] = {}
        self._borders: dict[tuple[bytes, tuple[int, ...]], bool] = {}
        self._readings: tuple[_Reading, ...] = ()  # recent texts, newest first
        self._has_forms = self._redactor.has_forms
        self._size_bytes = 0
        self._values: list[str] = []  # the values found in all texts so far, in order
        self._listed: set[str] = set()

    def redacted(self, raw: bytes, name: str = "") -> bytes | None:
        """Return the redacted text, the same object without a finding; None if the whole text must be checked at
        once."""
        if self._size_bytes > _LIMIT_BYTES or self._has_forms != self._redactor.has_forms:
            self._forget()
        last, common = self._longest(raw, name)
        pieces, shared = grown_pieces(last.before.pieces, raw, common) or (pieces_of(raw), 0)
        if pieces is None or len(pieces.spans) < 2:
            return None
        units = list(map(self._unit, pieces.texts[shared:]))
        rest = self._unit(pieces.rest)
        if any(map(_is_open, (rest, *units))):
            return None
        if not shared:
            last = _NO_READING
        return self._shown(_State(pieces, last.before.units[:shared] + units, rest), name, last, shared)

    def _longest(self, raw: bytes, name: str) -> tuple[_Reading, int]:
        """Return the recent text with the longest common prefix, and its length."""
        best, most = _NO_READING, 0
        for reading in self._readings:
            if reading.name == name:
                common = common_prefix(reading.before.pieces.text, raw)
                if common > most:
                    best, most = reading, common
        return best, most

    def _shown(self, before: _State, name: str, last: _Reading, shared: int) -> bytes | None:
        """Return the redacted text; `last` is another text with the same first `shared` units."""
        if not self._is_separable(before, before.borders_known_from(last.before, shared)):
            return None
        passes: list[_Pass] = []
        rest, places, units = before.rest, before.pieces.places, before.units
        if not all(map(_is_clean, (rest, *units))):
            rest, places, units = self._settled(before, name, last.passes, passes)
        after = before
        if rest is not before.rest or units != before.units:
            after, since = self._joined(rest, places, units, last.after)
            if not self._is_separable(after, since):
                return None  # after the edits, pieces affect each other
        if len(before.pieces.text) <= _LARGEST_READING:
            others = [reading for reading in self._readings if reading is not last]
            self._readings = (_Reading(name, before, passes, after), *others[: _MAX_READINGS - 1])
        return after.pieces.text

    def _joined(self, rest: _Unit, places: list[int], units: list[_Unit], last: _State) -> tuple[_State, int]:
        """Join the text again; return it, and up to where its borders are known from `last`."""
        shared = _same_beginning(last.units, units)
        start = at = 0
        if shared:
            start, at = last.end_of(shared), places[shared - 1] + len(STAND_IN)
            if last.pieces.places[:shared] != places[:shared] or last.rest.raw[:at] != rest.raw[:at]:
                shared = start = at = 0  # their positions in the rest differ
        moved, new = [place - at for place in places[shared:]], units[shared:]
        tail = joined(rest.raw[at:], moved, [unit.raw for unit in new])
        pieces = Pieces(last.pieces.text[:start] + tail, last.pieces.spans[:shared] + _spans(moved, new, start))
        pieces.places = places
        after = _State(pieces, units, rest)
        return after, after.borders_known_from(last, shared)

    def _settled(
        self, before: _State, name: str, last: list[_Pass], passes: list[_Pass]
    ) -> tuple[_Unit, list[int], list[_Unit]]:
        """Run all passes over the units, as for a whole text. `last` are the passes of another text."""
        known: Known = {}
        rest, places, units = before.rest, before.pieces.places, before.units
        for earlier in islice(chain(last, repeat(_NO_PASS)), MAX_PASSES):
            this = self._pass(units, rest.traits, known, earlier)
            passes.append(this)
            looks, rest_look = this.looks, self._look(rest, this.traits, known, name)
            is_plain = not known and rest.is_clean and all(map(_is_clean, units))
            if is_plain or not any(map(_may_find, (rest_look, *looks))):
                break
            for unit, look in zip(units, looks, strict=True):
                if look.edits is None:
                    self._find_edits(unit, look, known, "")
            self._find_edits(rest, rest_look, known, name)
            if not any(map(_edits, (rest_look, *looks))):
                break
            known = known | rest_look.values
            for values in filter(None, map(_values, looks)):
                known |= values
            new = [value for value in known if value not in self._listed]
            self._values += new
            self._listed.update(new)
            self._size_bytes += sum(map(len, new))
            units = [look.after or unit for unit, look in zip(units, looks, strict=True)]
            places = _shifted(places, rest, rest_look.edits or [])
            rest = rest_look.after or rest
        return rest, places, units

    def _pass(self, units: list[_Unit], rest_traits: int, known: Known, last: _Pass) -> _Pass:
        """Check all units; reuse another pass's findings in the units that both share."""
        shared = _same_beginning(last.units, units)
        sums = [0, *last.sums[1 : shared + 1]]
        for unit in units[shared:]:
            sums.append(sums[-1] | unit.traits)
        traits = rest_traits | sums[-1]
        looks: list[_Look] = []
        if traits == last.traits and last.known.items() <= known.items():
            looks = last.looks[:shared]
            values = [value for value in known if value not in last.known]
            for index in _holding(units[:shared], values):
                looks[index] = self._look(units[index], traits, known, "")
        looks += [self._look(unit, traits, known, "") for unit in units[len(looks) :]]
        return _Pass(units, known, sums, traits, looks)

    def _unit(self, raw: bytes) -> _Unit:
        unit = self._units.get(raw)
        if unit is None:
            self._size_bytes += len(raw)
            unit = self._units[raw] = _Unit(raw, self._redactor.passes(raw))
        return unit

    def _look(self, unit: _Unit, traits: int, known: Known, name: str) -> _Look:
        values = tuple((value, *known[value]) for value in unit.held(self._values) if value in known)
        key = (unit.raw, traits, values, name)
        look = self._looks.get(key)
        if look is not None:
            return look
        if unit.is_clean and not values:
            look = _Look([], may_find=self._redactor.text_edits.must_walk(unit.text, name))
        else:
            hits = self._redactor.text_edits.hits(
                unit.text, {value: (shown, kind) for value, shown, kind in values}, traits
            )
            look = _Look(hits, may_find=bool(hits) or self._redactor.text_edits.must_walk(unit.text, name))
        self._looks[key] = look
        return look

    def _find_edits(self, unit: _Unit, look: _Look, known: Known, name: str) -> None:
        if look.edits is not None:
            return
        edits = self._redactor.text_edits.json_edits(unit.text, look.hits, known, name=name)
        look.values = values_worth_knowing(edits)
        if edits:
            look.after = self._unit(applied(unit.text, edits).encode("utf-8", "surrogateescape"))
        look.edits = edits

    def _is_separable(self, state: _State, since: int) -> bool:
        """Return whether no rule finds anything across a border, from `since` on."""
        around, text = [*state.units, state.rest], state.pieces.text  # -1 stands for the rest
        for at, before, behind in state.pieces.borders(since):
            reach = _NEAR
            if not (around[before].is_clean and around[behind].is_clean):
                reach = _FAR
            first = max(0, at - reach)
            window = text[first : at + reach]
            cuts = tuple(cut - first for cut in state.pieces.cuts(first, first + len(window)))
            key = (window, cuts)
            is_separable = self._borders.get(key)
            if is_separable is None:
                self._size_bytes += len(window)
                is_separable = self._borders[key] = self._splits(window, cuts)
            if not is_separable:
                return False
        return True

    def _splits(self, window: bytes, cuts: tuple[int, ...]) -> bool:
        """Return whether checking the parts of a window finds the same as checking all of it.

        The window is cut at every border in it. With a single cut, the middle one of three pieces would stay next to
        one neighbour, and might be found because of it.
        """
        if self._redactor.passes(window):
            return True
        parts = [window[start:end] for start, end in pairwise((0, *cuts, len(window)))]
        texts = [part.decode("utf-8", "surrogateescape") for part in parts]
        whole = "".join(texts)
        rules, traits = self._redactor.rules, View(whole).traits
        apart: list[Hit] = []
        at = 0
        for text in texts:
            apart += [hit.moved(at) for hit in hits_in(text, rules, around=traits)]
            at += len(text)
        return apart == hits_in(whole, rules)


_is_clean, _is_open, _may_find, _edits, _values = map(
    attrgetter, ("is_clean", "is_open", "may_find", "edits", "values")
)
_NO_PASS = _Pass([], {}, [], -1, [])
_NO_STATE = _State(Pieces(b"", []), [], _Unit(b"", is_clean=True))
_NO_READING = _Reading("", _NO_STATE, [], _NO_STATE)


def _same_beginning(one: Sequence[_Unit], other: Sequence[_Unit]) -> int:
    """Return how many leading units are the same."""
    count = min(len(one), len(other))
    if one[:count] == other[:count]:  # the fast path
        return count
    return next(index for index in range(count) if one[index] is not other[index])


def _spans(places: list[int], units: list[_Unit], at: int) -> list[TextSpan]:
    """Return the spans of units at these positions of a rest that begins at `at`."""
    spans = []
    for place, unit in zip(places, units, strict=True):
        spans.append(TextSpan(place + at, place + at + len(unit.raw)))
        at += len(unit.raw) - len(STAND_IN)
    return spans


def _holding(units: list[_Unit], values: list[str]) -> list[int]:
    """Return the indexes of units that may contain one of the values."""
    if not values or not units:
        return []
    # Most new values are in none of the earlier units.
    text = "\n".join([unit.text for unit in units])
    values = [value for value in values if _may_hold(text, value)]
    if not values:
        return []
    return [index for index, unit in enumerate(units) if any(_may_hold(unit.text, value) for value in values)]


def _may_hold(text: str, value: str) -> bool:
    """Return whether the text may contain the value, escaped or not."""
    return value in text or "\\u" in text or ("\\" in text and _ESCAPED.search(value) is not None)


_ESCAPED = lazy(r'["\\/\x00-\x1f]')  # characters that JSON escapes in strings


def _shifted(places: list[int], rest: _Unit, edits: list[Edit]) -> list[int]:
    """Return the positions of the empty objects after the edits. Positions count bytes, edits count characters."""
    if not edits:
        return places
    moved, shift, at, chars = [], 0, 0, 0
    waiting = list(reversed(edits))
    for place in places:
        while waiting:
            at += _size(rest.text[chars : waiting[-1].start])
            chars = waiting[-1].start
            if at > place:
                break
            edit = waiting.pop()
            shift += _size(edit.text) - _size(rest.text[edit.start : edit.end])
        moved.append(place + shift)
    return moved


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
