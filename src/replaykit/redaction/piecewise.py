"""Redaction piece by piece: each distinct piece of a long JSON text is looked at once, wherever it stands again.

The result is that of a look at the whole text, which is the law that the tests hold it to. What a rule may see beyond
the border of a piece is kept:

- traits of the whole text decide which rules are asked in its pieces (`traits`);
- a value that is found in one piece is looked for in all of them, pass by pass;
- where something is found in one piece, members with telling names are taken in all of them;
- the surroundings of each border are looked at. Where that finds anything else than a look at both of its sides, the
  text is left to the plain path, and so is a text with a private key that is cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replaykit.redaction.edits import Edit, applied
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy import lazy
from replaykit.redaction.pieces import STAND_IN, Pieces, Span, joined, pieces_of
from replaykit.redaction.search import hits_in
from replaykit.redaction.view import View

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Known, Redactor

_NEAR, _FAR = 512, 4096
"""How far rules see over a border: between pieces that hold no sign of any rule, and beside one that does."""
_LIMIT_BYTES = 32 * 1024 * 1024
_BEGIN, _END = b"-----BEGIN", b"-----END"


class _Unit:
    """One piece, or the rest: what is known of it whatever it is a part of."""

    __slots__ = ("_asked", "_held", "_traits", "is_clean", "is_open", "raw", "text")

    def __init__(self, raw: bytes, is_clean: bool) -> None:
        self.raw = raw
        self.text = raw.decode("utf-8", "surrogateescape")
        self.is_clean = is_clean
        self.is_open = raw.rfind(_BEGIN) > raw.rfind(_END)
        """True when it holds the beginning of a key in armour, and not its end."""
        self._traits = -1
        self._held: list[str] = []
        self._asked = 0

    def held(self, values: list[str]) -> list[str]:
        """Those of the values that may stand in it. The list only grows, and each value is looked for once."""
        for value in values[self._asked :]:
            if _may_hold(self.text, value):
                self._held.append(value)
        self._asked = len(values)
        return self._held

    @property
    def traits(self) -> int:
        if self._traits < 0:
            self._traits = View(self.text).traits
        return self._traits


class _Look:
    """What one pass finds in a unit."""

    __slots__ = ("edits", "hits", "may_find")

    def __init__(self, hits: list[Hit], *, may_find: bool) -> None:
        self.hits = hits
        self.may_find = may_find
        """True when the pass walks over the members of the whole text on account of this unit."""
        self.edits: list[Edit] | None = None


class Piecewise:
    """The pieces that a redactor has looked at, by their content. It forgets all of them when they are too many."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._units: dict[bytes, _Unit] = {}
        self._looks: dict[tuple[object, ...], _Look] = {}
        self._borders: dict[tuple[bytes, int], bool] = {}
        self._size_bytes = 0
        self._values: list[str] = []
        """Values that were found in any text so far, in order."""
        self._listed: set[str] = set()

    def redacted(self, raw: bytes, name: str = "") -> bytes | None:
        """The text redacted, the same object when nothing was found; None where only a look at all of it can tell."""
        if self._size_bytes > _LIMIT_BYTES:
            self._forget()
        pieces = pieces_of(raw)
        if pieces is None or len(pieces.spans) < 2:
            return None
        texts = pieces.texts
        units = [self._unit(text) for text in texts]
        rest = self._unit(pieces.rest)
        if rest.is_open or any(unit.is_open for unit in units) or not self._is_separable(pieces, units, rest):
            return None
        if rest.is_clean and all(unit.is_clean for unit in units):
            return raw
        rest_after, places, units_after = self._settled(rest, pieces.places, units, name)
        if rest_after is rest and all(map(_is_same, units, units_after)):
            return raw
        return self._joined(rest_after, places, units_after)

    def _joined(self, rest: _Unit, places: list[int], units: list[_Unit]) -> bytes | None:
        """The whole text again; None where its pieces touch each other now."""
        texts = [unit.raw for unit in units]
        whole = joined(rest.raw, places, texts)
        spans, shift = [], 0
        for place, text in zip(places, texts, strict=True):
            spans.append(Span(place + shift, place + shift + len(text)))
            shift += len(text) - len(STAND_IN)
        return whole if self._is_separable(Pieces(whole, spans), units, rest) else None

    def _settled(
        self, rest: _Unit, places: list[int], units: list[_Unit], name: str
    ) -> tuple[_Unit, list[int], list[_Unit]]:
        """Pass by pass over all units, as the plain path does over the whole text."""
        from replaykit.redaction.redactor import MAX_PASSES, is_worth_knowing  # noqa: PLC0415 (it imports this module)

        known: Known = {}
        units = list(units)
        for _ in range(MAX_PASSES):
            traits = rest.traits
            for unit in units:
                traits |= unit.traits
            looks = [self._look(unit, traits, known, "") for unit in units]
            rest_look = self._look(rest, traits, known, name)
            if not rest_look.may_find and not any(look.may_find for look in looks):
                break
            found = [self._edits(unit, look, known, "") for unit, look in zip(units, looks, strict=True)]
            rest_found = self._edits(rest, rest_look, known, name)
            if not rest_found and not any(found):
                break
            for edits in (rest_found, *found):
                known |= {edit.value: (edit.text, edit.kind) for edit in edits if is_worth_knowing(edit)}
            self._list(known)
            units = [self._changed(unit, edits) for unit, edits in zip(units, found, strict=True)]
            places = _shifted(places, rest, rest_found)
            rest = self._changed(rest, rest_found)
        return rest, places, units

    def _unit(self, raw: bytes) -> _Unit:
        unit = self._units.get(raw)
        if unit is None:
            self._size_bytes += len(raw)
            unit = self._units[raw] = _Unit(raw, self._redactor.passes(raw))
        return unit

    def _list(self, known: Known) -> None:
        new = [value for value in known if value not in self._listed]
        self._values += new
        self._listed.update(new)
        self._size_bytes += sum(map(len, new))

    def _forget(self) -> None:
        """Begin anew. Only between two texts: units remember which of the values they were asked for."""
        self._units, self._looks, self._borders = {}, {}, {}
        self._values, self._listed = [], set()
        self._size_bytes = 0

    def _look(self, unit: _Unit, traits: int, known: Known, name: str) -> _Look:
        values = tuple((value, *known[value]) for value in unit.held(self._values) if value in known)
        key = (unit.raw, traits, values, name, self._redactor.has_forms)
        look = self._looks.get(key)
        if look is not None:
            return look
        if unit.is_clean and not values:
            look = _Look([], may_find=False)
        else:
            hits = self._redactor.hits(unit.text, {value: (shown, kind) for value, shown, kind in values}, traits)
            look = _Look(hits, may_find=bool(hits) or self._redactor.must_walk(unit.text, name))
        self._looks[key] = look
        return look

    def _edits(self, unit: _Unit, look: _Look, known: Known, name: str) -> list[Edit]:
        if look.edits is None:
            look.edits = self._redactor.json_edits(unit.text, look.hits, known, name=name)
        return look.edits

    def _changed(self, unit: _Unit, edits: list[Edit]) -> _Unit:
        if not edits:
            return unit
        return self._unit(applied(unit.text, edits).encode("utf-8", "surrogateescape"))

    def _is_separable(self, pieces: Pieces, units: list[_Unit], rest: _Unit) -> bool:
        """True when nothing is found over a border that is not found on one of its sides."""
        for at, before, behind in pieces.borders():
            left = units[before] if before >= 0 else rest
            right = units[behind] if behind >= 0 else rest
            reach = _NEAR if left.is_clean and right.is_clean else _FAR
            first = max(0, at - reach)
            window = pieces.text[first : at + reach]
            key = (window, at - first)
            is_separable = self._borders.get(key)
            if is_separable is None:
                self._size_bytes += len(window)
                is_separable = self._borders[key] = self._splits(window, at - first)
            if not is_separable:
                return False
        return True

    def _splits(self, window: bytes, at: int) -> bool:
        if self._redactor.passes(window):
            return True
        left = window[:at].decode("utf-8", "surrogateescape")
        right = window[at:].decode("utf-8", "surrogateescape")
        rules, traits = self._redactor.rules, View(left + right).traits
        apart = hits_in(left, rules, around=traits)
        for hit in hits_in(right, rules, around=traits):
            start, end = hit.start + len(left), hit.end + len(left)
            apart.append(Hit(hit.kind, start, end, hit.rank, hit.spelling, hit.is_own))
        return apart == hits_in(left + right, rules)


def _is_same(one: _Unit, other: _Unit) -> bool:
    return one is other


def _may_hold(text: str, value: str) -> bool:
    """True when the value may stand in the text, escaped or not."""
    return value in text or "\\u" in text or ("\\" in text and _ESCAPED.search(value) is not None)


_ESCAPED = lazy(r'["\\/\x00-\x1f]')
"""What JSON writes otherwise in a string."""


def _shifted(places: list[int], rest: _Unit, edits: list[Edit]) -> list[int]:
    """Where the empty objects stand when the edits are made. Places count bytes, edits characters."""
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
