"""The redactor: replaces secrets and personal data in texts, values and bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, overload

from msgspec import Struct
from msgspec.structs import replace

from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, decode, encode
from replaykit.redaction.encoded import CODECS, quoted, unquoted
from replaykit.redaction.finding import Edit, Hit, Spelling, applied, in_order, settled
from replaykit.redaction.json_text import Leaf, Places, escaped, is_scalar, is_whole, leaves, looks_like_json, unescaped
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NameHint, Trust
from replaykit.redaction.named_values import refined
from replaykit.redaction.names import NameFinder, installed_finder
from replaykit.redaction.pieces import LEAST_BYTES
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
    is_plausible,
    looks_random,
    rest_is_secret,
)
from replaykit.redaction.prefilter import passes_quick_look
from replaykit.redaction.rules import DEFAULT, Rules
from replaykit.redaction.search import hits_in

if TYPE_CHECKING:
    from replaykit.redaction.piecewise import Piecewise
    from replaykit.redaction.search import HitlessTexts

MAX_PASSES = 6
MAX_DEPTH = 4
_SCHEMES = ("bearer ", "basic ", "token ", "bot ", "apikey ", "digest ", "negotiate ")
_COOKIES = ("cookie", "set-cookie")
_HEADERS = frozenset(
    words_of(
        "authorization proxy-authorization cookie set-cookie x-api-key api-key x-auth-token x-amz-security-token "
        "x-goog-api-key x-csrf-token x-xsrf-token x-access-token x-vault-token private-token x-gitlab-token "
        "x-hub-signature x-hub-signature-256 cf-access-client-secret ocp-apim-subscription-key"
    )
)
_PARAMETERS = frozenset(words_of("key sig code auth signature k apikey access"))
_ANY = NameHint("secret", Trust.ANY)
Known = dict[str, tuple[str, str]]
"""Values found before, with their placeholder and kind."""
_LEAST_CHARS = 8
_HIDES_SOMETHING = lazy(r'\\[u/]|\[\["')
_TEXTS = lazy(r'\[\s*"')
_WIDEST_SIGN = 64  # the most characters between a name and its value


class Located(Struct, frozen=True):
    """A finding with line and column from 1, and the JSON path if the text is JSON."""

    kind: str
    start: int
    end: int
    line: int
    column: int
    path: str = ""


class Redactor:
    """Replaces findings of the rules by placeholders derived from the key. Safe to share between threads.

    Caches the messages of conversations that were checked, up to a limit (`piecewise`).
    """

    def __init__(self, key: bytes, rules: Rules = DEFAULT, *, names: NameFinder | None = None) -> None:
        if len(key) < 1:
            raise ValueError("expected a key of at least one byte")
        self.key = key
        self.rules = rules
        if names is None and rules.names:
            names = installed_finder()
        self.names = names
        self.has_forms = True
        """False to make placeholders like older versions."""
        self._is_usual = self.names is None and rules.are_usual
        self._piecewise: Piecewise | None = None
        self.hitless_texts: HitlessTexts | None = None
        """Long texts without a finding, if they will be checked again."""

    def text(self, text: str) -> str:
        """Return the redacted text; the same object if there is nothing to redact."""
        return self._settled(text)

    def raw(self, raw: bytes, *, name: str = "", tool: str = "") -> bytes:
        """Redact JSON text, or any other text, in bytes."""
        if len(raw) >= LEAST_BYTES and (shown := self._by_pieces(raw, name)) is not None:
            return shown
        if self._is_plainly_clean(raw, name):
            return raw
        before = raw.decode("utf-8", "surrogateescape")
        after = self._settled(before, name=name, tool=tool, is_json=is_scalar(before), looked=True)
        if after is before:
            return raw
        return after.encode("utf-8", "surrogateescape")

    def passes(self, raw: bytes) -> bool:
        """Return True if a quick check shows that nothing would be replaced; False proves nothing."""
        return self._is_usual and passes_quick_look(raw)

    def value(self, value: Json, *, name: str = "", tool: str = "") -> Json:
        """Redact a value; `name` is its key, `tool` the tool whose paths apply."""
        if value is None or value is True or value is False:
            return value
        before = encode(value)
        after = self.raw(before, name=name, tool=tool)
        if after is before:
            return value
        return decode(after)

    def header(self, name: str, value: str) -> str:
        """Redact a header's value: all but its scheme if the name is telling; cookies keep their names."""
        if name.lower() in _COOKIES:
            return "; ".join(map(self._cookie, value.split("; ")))
        hint = self.rules.hint_of(name)
        if name.lower() not in _HEADERS and (hint is None or not is_plausible(value, hint, quoted=True)):
            return self.text(value)
        start = _after_scheme(value)
        secret = value[start:]
        if is_placeholder(secret) or not is_plausible(secret, _ANY, quoted=True):
            return value
        return value[:start] + self._stand_in(refined(name, secret), secret)

    def _stand_in(self, kind: str, value: str) -> str:
        if self.has_forms:
            return placeholder(self.key, kind, value)
        return old_placeholder(self.key, kind, value)

    def tells_of_header(self, name: str) -> bool:
        """Return whether the name of a header announces a secret."""
        return name.lower() in _HEADERS or self.rules.hint_of(name) is not None

    def url(self, url: str) -> str:
        """Redact credentials in a URL, and parameters with names that are telling, some of them only in URLs."""
        head, mark, query = url.partition("?")
        return self.text(head + mark + "&".join(map(self._parameter, query.split("&"))))

    @overload
    def chunks(self, chunks: list[bytes]) -> list[bytes]: ...
    @overload
    def chunks(self, chunks: list[str]) -> list[str]: ...
    def chunks(self, chunks: list[bytes] | list[str]) -> list[bytes] | list[str]:
        """Redact the chunks of a body, as one text and event by event. Their number and borders stay."""
        from replaykit.redaction.streams import redacted_chunks  # noqa: PLC0415 (it imports this module)

        return redacted_chunks(self, chunks)  # type: ignore[misc]

    def is_clean(self, content: bytes | str) -> bool:
        """Return whether nothing in the text would be replaced."""
        if isinstance(content, bytes):
            if self._is_clean_in_pieces(content):
                return True
            content = content.decode("utf-8", "surrogateescape")
        return not self.edits(content)

    def scan(self, content: bytes | str | Json) -> list[Located]:
        """Return the findings in a text, or in the JSON text of a value, with their positions."""
        if not isinstance(content, bytes | str):
            content = encode(content)
        text: str | bytes = content
        if isinstance(text, bytes):
            is_known = self.hitless_texts is not None and self.hitless_texts.has(text)
            if is_known or self._is_clean_in_pieces(text):
                return []
            text = text.decode("utf-8", "surrogateescape")
        found, line, counted = [], 1, 0
        for edit in self.edits(text):
            line += text.count("\n", counted, edit.start)
            counted = edit.start
            column = edit.start - text.rfind("\n", 0, edit.start)
            found.append(Located(edit.kind, edit.start, edit.end, line, column, edit.path))
        return found

    def edits(
        self, text: str, *, name: str = "", tool: str = "", known: Known | None = None, is_json: bool = False
    ) -> list[Edit]:
        """Return the edits of one pass over the text, in order. `known` are values found before."""
        if not known and self._is_plainly_clean(text.encode("utf-8", "surrogatepass"), name):
            return []
        return self._edits(text, name, tool, known or {}, depth=0, is_json=is_json or name != "")

    def _settled(
        self, text: str, *, name: str = "", tool: str = "", is_json: bool = False, looked: bool = False
    ) -> str:
        """Redact until nothing is found: a replacement may reveal something, or occur elsewhere, too.

        `looked` means that the quick check has already failed.
        """
        known: Known = {}
        for number in range(MAX_PASSES):
            if looked and not number:
                edits = self._edits(text, name, tool, known, depth=0, is_json=is_json or name != "")
            else:
                edits = self.edits(text, name=name, tool=tool, known=known, is_json=is_json)
            if not edits:
                break
            text = applied(text, edits)
            known |= values_worth_knowing(edits)
        return text

    def _edits(self, text: str, name: str, tool: str, known: Known, *, depth: int, is_json: bool = False) -> list[Edit]:
        hits = self.hits(text, known)
        if not hits and self.hitless_texts is not None:
            self.hitless_texts.add(text)
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

    def _by_pieces(self, raw: bytes, name: str) -> bytes | None:
        """Redact a long text as a whole, but faster if parts of it repeat; None if that is impossible."""
        is_local = self.names is None and not (self.rules.paths or self.rules.extra or self.rules.finders)
        if not is_local or (name and self.rules.hint_of(name) is not None):
            return None
        if self._piecewise is None:
            from replaykit.redaction.piecewise import Piecewise  # noqa: PLC0415 (only for long texts)

            self._piecewise = Piecewise(self)
        return self._piecewise.redacted(raw, name)

    def _is_clean_in_pieces(self, raw: bytes) -> bool:
        """Return True if checking the pieces finds nothing; False proves nothing."""
        return len(raw) >= LEAST_BYTES and self._by_pieces(raw, "") is raw

    def _is_plainly_clean(self, raw: bytes, name: str) -> bool:
        return (not name or self.rules.hint_of(name) is None) and self.passes(raw)

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
            after = self.text(text)
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

    def _cookie(self, part: str) -> str:
        name, _, value = part.partition("=")
        if not value or value.isalpha() or is_placeholder(value) or name.lower() in COOKIE_ATTRIBUTES:
            return part
        return f"{name}={self._stand_in('secret', value)}"

    def _parameter(self, part: str) -> str:
        name, sign, value = part.partition("=")
        if not sign or name.lower() not in _PARAMETERS:
            return part
        plain, layers = unquoted(value)
        if is_placeholder(plain) or not looks_random(plain) or self.rules.allows(plain):
            return part
        return f"{name}={quoted(self._stand_in('secret', plain), max(layers, 1))}"


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
