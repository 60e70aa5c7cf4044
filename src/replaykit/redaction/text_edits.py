"""Text edits: a closer look at a text that a quick look was not enough for, and what it replaces there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from replaykit.model.text_lines import words_of
from replaykit.redaction.encoded import CODECS, quoted, unquoted
from replaykit.redaction.finding import Edit, Hit, Spelling, applied, in_order, settled
from replaykit.redaction.json_text import Leaf, Places, escaped, is_scalar, is_whole, leaves, looks_like_json, unescaped
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NameHint, Trust
from replaykit.redaction.named_values import refined
from replaykit.redaction.placeholders import (
    OF_DIGITS,
    is_placeholder,
    old_placeholder,
    placeholder,
    placeholders_in,
    spans,
)
from replaykit.redaction.plausible_values import (
    COOKIE_ATTRIBUTES,
    cookie_hides_more,
    is_hidden_cookie,
    is_plausible,
    looks_random,
    rest_is_secret,
)
from replaykit.redaction.search import hits_in

if TYPE_CHECKING:
    from replaykit.redaction.names import NameFinder
    from replaykit.redaction.redactor import Redactor

MAX_PASSES = 6
MAX_DEPTH = 4
_SCHEMES = ("bearer ", "basic ", "token ", "bot ", "apikey ", "digest ", "negotiate ")
_PARAMETERS = frozenset(words_of("key sig code auth signature k apikey access"))
_ANY = NameHint("secret", Trust.ANY)
Known = dict[str, tuple[str, str]]
"""Values found before, with their placeholder and kind."""
_LEAST_CHARS = 8
_HIDES_SOMETHING = lazy(r'\\[u/]|\[\["')
_TEXTS = lazy(r'\[\s*"')
_WIDEST_SIGN = 64  # the most characters between a name and its value


class TextEdits:
    """The edits that a redactor makes in texts."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.rules = redactor.rules
        self.names = redactor.names

    def settled(self, text: str, name: str = "", tool: str = "", *, is_json: bool = False) -> str:
        """Redact until nothing is found: a replacement may reveal something, or occur elsewhere, too."""
        known: Known = {}
        look: Callable[..., list[Edit]] = self.edits  # a quick look was taken, and was not enough
        for _ in range(MAX_PASSES):
            edits = look(text, name=name, tool=tool, known=known, is_json=is_json)
            if not edits:
                break
            text = applied(text, edits)
            known |= values_worth_knowing(edits)
            look = self._redactor.edits
        return text

    def redacted(self, raw: bytes, name: str, tool: str) -> bytes:
        """Return a text in bytes without what must not be kept; the same object when there is nothing of that kind."""
        before = raw.decode("utf-8", "surrogateescape")
        after = self.settled(before, name, tool, is_json=is_scalar(before))
        if after is before:
            return raw
        return after.encode("utf-8", "surrogateescape")

    def edits(self, text: str, *, name: str, tool: str, known: Known, is_json: bool) -> list[Edit]:
        """Return what one look at the text replaces, in order."""
        return self._edits(text, name, tool, known, depth=0, is_json=is_json or name != "")

    def header(self, name: str, value: str, hint: NameHint | None = None) -> str:
        """Return the value of a header, redacted but for its scheme; `hint`: only where the value fits it."""
        if hint is not None and not is_plausible(value, hint, quoted=True):
            return self._redactor.text(value)
        start = _after_scheme(value)
        secret = value[start:]
        if is_placeholder(secret) or not is_plausible(secret, _ANY, quoted=True):
            return value
        return value[:start] + self._stand_in(refined(name, secret), secret)

    def _edits(self, text: str, name: str, tool: str, known: Known, *, depth: int, is_json: bool = False) -> list[Edit]:
        hits = self.hits(text, known)
        if not hits and self._redactor.hitless_texts is not None:
            self._redactor.hitless_texts.add(text)
        may_be_json = is_json or looks_like_json(text)
        if may_be_json and (hits or self.must_walk(text, name)) and is_whole(text):
            return self.json_edits(text, hits, known, name=name, tool=tool, depth=depth)
        return [self._edit(text, hit, known) for hit in hits]

    def json_edits(
        self, text: str, hits: list[Hit], known: Known, *, name: str = "", tool: str = "", depth: int = 0
    ) -> list[Edit]:
        """Return the edits of a JSON text: those of these hits, and of values next to telling names."""
        edits = self._json(text, hits, name, tool, known, depth)
        return in_order([edit for edit in edits if edit.text != text[edit.start : edit.end]])

    def must_walk(self, text: str, name: str) -> bool:
        """Return whether JSON may hold findings that a search of its text misses."""
        if name and self.rules.hint_of(name) is not None:
            return True
        if self.rules.paths or self.names is not None:
            return True
        return _HIDES_SOMETHING.search(text) is not None or _has_texts_of_a_name(text)

    def hits(self, text: str, known: Known, around: int = 0) -> list[Hit]:
        """Return the hits in a text, including known values; `around` are the traits of the surrounding text."""
        hits = hits_in(text, self.rules, around=around)
        if known:
            hits = settled([*hits, *_known_hits(text, known)], text)
        if self.names is not None and not looks_like_json(text):
            hits = settled([*hits, *_name_hits(text, self.names)], text)
        return hits

    def _edit(self, text: str, hit: Hit, known: Known) -> Edit:
        raw = text[hit.start : hit.end]
        if not hit.kind:
            return Edit(hit.start, hit.end, *known[raw], raw)
        if hit.spelling in CODECS:
            return Edit(hit.start, hit.end, self._encoded(raw, hit), hit.kind)
        if hit.spelling is not Spelling.PLAIN:
            in_form = hit.spelling is Spelling.FORM
            value, layers = unquoted(raw, in_form=in_form)
            shown = quoted(self._stand_in(hit.kind, value), layers, in_form=in_form)
            return Edit(hit.start, hit.end, shown, hit.kind)
        return Edit(hit.start, hit.end, self._stand_in(hit.kind, raw), hit.kind, raw)

    def _encoded(self, raw: str, hit: Hit) -> str:
        """Return the redacted text in the same encoding."""
        decode_text, encode_text = CODECS[hit.spelling]
        text = decode_text(raw)
        if text is not None:
            after = self._redactor.text(text)
            if after != text:
                return encode_text(after, raw)
        return self._stand_in(hit.kind, raw)

    def _json(self, text: str, hits: list[Hit], name: str, tool: str, known: Known, depth: int) -> list[Edit]:
        edits: list[Edit] = []
        waiting = list(reversed(hits))
        for leaf in leaves(text, self.rules.paths, name=name, tool=tool):
            here: list[Hit] = []
            while waiting and waiting[-1].start < leaf.end:
                hit = waiting.pop()
                if hit.end > leaf.start:
                    here.append(hit)
            if text[leaf.start] == '"':
                edits += self._string(text, leaf, here, known, depth)
            elif not leaf.is_key:
                edits += self._scalar(text, leaf)
        return edits

    def _string(self, text: str, leaf: Leaf, hits: list[Hit], known: Known, depth: int) -> list[Edit]:
        start, end = leaf.start + 1, leaf.end - 1
        value = text[start:end]
        places: Places | range = range(len(value) + 1)
        is_escaped = "\\" in value
        if is_escaped:
            value, places = unescaped(value)
        edit = None
        if not leaf.is_key:
            edit = self._named_edit(leaf, value)
        if edit is not None:
            return [replace(edit, start=start + places[edit.start], end=end, path=leaf.path)]
        edits: list[Edit] = []
        if not is_escaped and not (depth < MAX_DEPTH and looks_like_json(value)) and self.names is None:
            for hit in hits:
                # A hit in the JSON text must stay inside its string.
                clipped = replace(hit, start=max(hit.start, start), end=min(hit.end, end), is_own=False)
                if clipped.start < clipped.end:
                    edits.append(replace(self._edit(text, clipped, known), path=leaf.path))
            return edits
        if depth >= MAX_DEPTH:
            return []
        for edit in self._edits(value, "", "", known, depth=depth + 1):
            first, last = start + places[edit.start], start + places[edit.end]
            edits.append(replace(edit, start=first, end=last, text=escaped(edit.text), path=leaf.path))
        if not edits and is_escaped:
            for hit in hits:
                if start <= hit.start and hit.end <= end and "\\" not in text[hit.start : hit.end]:
                    edits.append(replace(self._edit(text, hit, known), path=leaf.path))
        return edits

    def _named_edit(self, leaf: Leaf, value: str) -> Edit | None:
        """Return the edit of a whole value whose name or path makes it secret."""
        kind, is_own = "secret", True
        if not leaf.picked:
            hint = self.rules.hint_of(leaf.name)
            if hint is None or not self._is_secret(value, hint):
                return None
            kind, is_own = hint.kind, hint.is_own
            if kind == "secret":
                kind = refined(leaf.name, value)
        start = _after_scheme(value)
        secret = value[start:]
        if not secret or is_placeholder(secret, kind) or self.rules.allows(value, is_own=is_own):
            return None
        found = hits_in(secret, self.rules)
        if len(found) == 1 and found[0].kind not in OF_DIGITS:
            (hit,) = found
            if (hit.start, hit.end, hit.spelling) == (0, len(secret), Spelling.PLAIN):
                kind = hit.kind  # `token: ghp_…` keeps its more specific kind
        return Edit(start, len(value), self._stand_in(kind, secret), kind, secret)

    def _is_secret(self, value: str, hint: NameHint) -> bool:
        """Return whether a telling name makes the value secret: on its own, after a scheme, or by its other content."""
        if hint.trust is Trust.COOKIE and is_hidden_cookie(value):
            return False
        if hint.trust is Trust.COOKIE:
            return is_plausible(value, hint, quoted=True) and (not spans(value.encode()) or cookie_hides_more(value))
        if is_plausible(value, hint, quoted=True):
            return True
        if hint.trust not in (Trust.SECRET, Trust.RANDOM):
            return False
        start = _after_scheme(value)
        if start:
            if '="' in value:
                hint = _ANY
            if is_plausible(value[start:], hint, quoted=True):
                return True
        return rest_is_secret(value, 0, hits_in(value, self.rules))

    def _scalar(self, text: str, leaf: Leaf) -> list[Edit]:
        """Redact a bare number only because of its name: ids and seeds pass the checks of numbers too often."""
        word = text[leaf.start : leaf.end]
        edit = None
        if word not in ("true", "false", "null"):
            edit = self._named_edit(leaf, word)
        if edit is None:
            return []
        shown = edit.text
        if not shown.isdigit() or shown[0] == "0":
            shown = f'"{shown}"'
        return [Edit(leaf.start, leaf.end, shown, edit.kind, path=leaf.path)]

    def cookie(self, part: str) -> str:
        """Return a part of a header with cookies, redacted but for its name."""
        name, _, value = part.partition("=")
        if not value or value.isalpha() or is_placeholder(value) or name.lower() in COOKIE_ATTRIBUTES:
            return part
        return f"{name}={self._stand_in('secret', value)}"

    def parameter(self, part: str) -> str:
        """Return a parameter of a URL, redacted where it has a name that tells in a URL alone."""
        name, sign, value = part.partition("=")
        if not sign or name.lower() not in _PARAMETERS:
            return part
        plain, layers = unquoted(value)
        if is_placeholder(plain) or not looks_random(plain) or self.rules.allows(plain):
            return part
        return f"{name}={quoted(self._stand_in('secret', plain), max(layers, 1))}"

    def _stand_in(self, kind: str, value: str) -> str:
        if self._redactor.has_forms:
            return placeholder(self._redactor.key, kind, value)
        return old_placeholder(self._redactor.key, kind, value)


def _has_texts_of_a_name(text: str) -> bool:
    """Return whether JSON may have a name followed by texts in brackets.

    The bracket is searched first: a pattern that begins with the name's quote would stop at every quote of the text,
    which takes six times as long.
    """
    for found in _TEXTS.finditer(text):
        if _ends_with_name(text, found.start()):
            return True
    return False


def _ends_with_name(text: str, end: int) -> bool:
    """Return whether the text before `end` ends with a name and a colon, or with too many blanks to tell."""
    start = max(0, end - _WIDEST_SIGN)
    name, _, blanks = text[start:end].rpartition(":")
    if blanks.strip():
        return False
    name = name.rstrip()
    return name.endswith('"') or (start > 0 and not name)


def _after_scheme(value: str) -> int:
    """Return where a credential begins after its scheme: `Bearer x`."""
    lowered = value[:12].lower()
    for scheme in _SCHEMES:
        if lowered.startswith(scheme):
            return len(scheme)
    return 0


def values_worth_knowing(edits: list[Edit]) -> Known:
    """Return the values to search elsewhere, too: long and random enough not to occur by chance."""
    known = {}
    for edit in edits:
        if len(edit.value) >= _LEAST_CHARS and looks_random(edit.value):
            known[edit.value] = (edit.text, edit.kind)
    return known


def _known_hits(text: str, known: Known) -> Iterator[Hit]:
    for value in known:
        at = text.find(value)
        while at >= 0:
            yield Hit("", at, at + len(value), 9)
            at = text.find(value, at + len(value))


def _name_hits(text: str, names: NameFinder) -> Iterator[Hit]:
    placeholders = placeholders_in(text.encode("ascii", "replace"))
    for start, end in names.find(text):
        if not any(start < known.end and known.start < end for known in placeholders):
            yield Hit("name", start, end, 8)
