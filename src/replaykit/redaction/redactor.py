"""The redactor: texts, values and bodies without what must not be kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, overload

from msgspec import Struct

from replaykit.model.values import Json, decode, encode
from replaykit.redaction.composed_values import COOKIE_ATTRIBUTES, cookie_hides_more, rest_is_secret
from replaykit.redaction.edits import Edit, applied, in_order
from replaykit.redaction.encoded import as_base64, packed, text_in, text_in_hex, unpacked_whole
from replaykit.redaction.finding import Hit, Spelling, settled
from replaykit.redaction.json_text import Leaf, escaped, is_scalar, is_whole, leaves, looks_like_json, unescaped
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NameHint, Trust
from replaykit.redaction.named_values import refined
from replaykit.redaction.names import NameFinder, installed_finder
from replaykit.redaction.percent import quoted, unquoted
from replaykit.redaction.pieces import LEAST_BYTES
from replaykit.redaction.placeholders import (
    OF_DIGITS,
    is_placeholder,
    old_placeholder,
    placeholder,
    placeholders_in,
    spans,
    without_placeholders,
)
from replaykit.redaction.plausible_values import is_plausible, looks_random
from replaykit.redaction.prefilter import is_plainly_clean
from replaykit.redaction.rules import DEFAULT, Rules
from replaykit.redaction.search import hits_in
from replaykit.redaction.wordlist import words_of

if TYPE_CHECKING:
    from replaykit.redaction.clean_texts import HitlessTexts
    from replaykit.redaction.piecewise import Piecewise

MAX_PASSES = 6
MAX_DEPTH = 4
_SCHEMES = ("bearer ", "basic ", "token ", "bot ", "apikey ", "digest ", "negotiate ")
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
"""Values that were found before: what stands for them, and their kind."""
_BYTE_LIMIT = 8
_HIDES_SOMETHING = lazy(r'\\[u/]|\[\["')
_TEXTS = lazy(r'\[\s*"')
_WIDEST_SIGN = 64
"""How many characters may be between a name and its value."""


class Located(Struct, frozen=True):
    """A finding with its place: line and column from 1, and the JSON path where the text is JSON."""

    kind: str
    start: int
    end: int
    line: int
    column: int
    path: str = ""


class Redactor:
    """Replaces what the rules find by placeholders under the key. One for many threads.

    It remembers the messages of conversations that it has looked at, up to a limit (`piecewise`).
    """

    def __init__(self, key: bytes, rules: Rules = DEFAULT, *, names: NameFinder | None = None) -> None:
        if len(key) < 1:
            raise ValueError("expected a key of at least one byte")
        self.key = key
        self.rules = rules
        self.names = names or (installed_finder() if rules.names else None)
        self.has_forms = True
        """False where placeholders shall be as older versions made them."""
        self._is_usual = self.names is None and rules.are_usual
        self._piecewise: Piecewise | None = None
        self.hitless_texts: HitlessTexts | None = None
        """Long texts in which nothing was found, where somebody has them looked at again."""

    def text(self, text: str) -> str:
        """The text without what must not be kept; the same object when there is nothing of that kind."""
        return self._settled(text)

    def raw(self, raw: bytes, *, name: str = "", tool: str = "") -> bytes:
        """The same for JSON text, or any other, in bytes."""
        if len(raw) >= LEAST_BYTES and (shown := self._by_pieces(raw, name)) is not None:
            return shown
        if self._is_plainly_clean(raw, name):
            return raw
        before = raw.decode("utf-8", "surrogateescape")
        after = self._settled(before, name=name, tool=tool, is_json=is_scalar(before), looked=True)
        return raw if after is before else after.encode("utf-8", "surrogateescape")

    def passes(self, raw: bytes) -> bool:
        """True when a quick look shows that nothing in it would be replaced; False says nothing."""
        if not self._is_usual:
            return False
        return is_plainly_clean(raw) or ((masked := without_placeholders(raw)) is not raw and is_plainly_clean(masked))

    def value(self, value: Json, *, name: str = "", tool: str = "") -> Json:
        """The same for a value; `name` is the key that it stands under, `tool` the tool whose paths hold."""
        if value is None or value is True or value is False:
            return value
        before = encode(value)
        after = self.raw(before, name=name, tool=tool)
        return value if after is before else decode(after)

    def header(self, name: str, value: str) -> str:
        """The value of a header: all of it but its scheme where the name tells; of a cookie its name stays."""
        if not self.tells_of_header(name):
            return self.text(value)
        if name.lower() in ("cookie", "set-cookie"):
            return "; ".join(map(self._cookie, value.split("; ")))
        hint = self.rules.hint_of(name)
        if name.lower() in _HEADERS or (hint is not None and is_plausible(value, hint, quoted=True)):
            start = _after_scheme(value)
            secret = value[start:]
            if is_placeholder(secret) or not is_plausible(secret, _ANY, quoted=True):
                return value
            return value[:start] + self._stand_in(refined(name, secret), secret)
        return self.text(value)

    def _stand_in(self, kind: str, value: str) -> str:
        return (placeholder if self.has_forms else old_placeholder)(self.key, kind, value)

    def tells_of_header(self, name: str) -> bool:
        """True when the name of a header says that its value is not for everybody."""
        return name.lower() in _HEADERS or self.rules.hint_of(name) is not None

    def url(self, url: str) -> str:
        """A URL: credentials, and parameters of telling names, among them those that tell in a URL alone."""
        head, mark, query = url.partition("?")
        if mark:
            parts = query.split("&")
            changed = [self._parameter(part) for part in parts]
            if changed != parts:
                url = f"{head}?{'&'.join(changed)}"
        return self.text(url)

    @overload
    def chunks(self, chunks: list[bytes]) -> list[bytes]: ...
    @overload
    def chunks(self, chunks: list[str]) -> list[str]: ...
    def chunks(self, chunks: list[bytes] | list[str]) -> list[bytes] | list[str]:
        """A body in pieces: looked at as one text, and event by event. Their number and their borders stay."""
        from replaykit.redaction.streams import redacted_chunks  # noqa: PLC0415 (it imports this module)

        return redacted_chunks(self, chunks)  # type: ignore[misc]

    def is_clean(self, content: bytes | str) -> bool:
        """True when nothing in the text would be replaced."""
        if isinstance(content, bytes) and self._is_clean_in_pieces(content):
            return True
        text = content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content
        return not self.edits(text)

    def scan(self, content: bytes | str | Json) -> list[Located]:
        """What would be replaced in a text, or in the JSON text of a value, with its places."""
        if not isinstance(content, bytes | str):
            content = encode(content)
        if isinstance(content, bytes):
            is_known = self.hitless_texts is not None and self.hitless_texts.has(content)
            if is_known or self._is_clean_in_pieces(content):
                return []
        text = content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content
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
        """What one look at the text replaces, in order. `known`: values that were found before, and their stand-ins."""
        if not known and self._is_plainly_clean(text.encode("utf-8", "surrogatepass"), name):
            return []
        return self._edits(text, name, tool, known or {}, depth=0, is_json=is_json or name != "")

    def _settled(
        self, text: str, *, name: str = "", tool: str = "", is_json: bool = False, looked: bool = False
    ) -> str:
        """Looked at until nothing is found: what was replaced may have hidden something, or stand elsewhere too.

        `looked`: a quick look was taken, and was not enough.
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
            known |= {edit.value: (edit.text, edit.kind) for edit in edits if is_worth_knowing(edit)}
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
        """The edits of a JSON text in which these were found: theirs, and those of values that their names tell."""
        edits = self._json(text, hits, name, tool, known, depth)
        return in_order([edit for edit in edits if edit.text != text[edit.start : edit.end]])

    def _by_pieces(self, raw: bytes, name: str) -> bytes | None:
        """The same as a look at the whole of a long text, in less time where parts of it come again."""
        is_local = self.names is None and not self.rules.paths and not self.rules.extra
        if not is_local or (name and self.rules.hint_of(name) is not None):
            return None
        if self._piecewise is None:
            from replaykit.redaction.piecewise import Piecewise  # noqa: PLC0415 (only for long texts)

            self._piecewise = Piecewise(self)
        return self._piecewise.redacted(raw, name)

    def _is_clean_in_pieces(self, raw: bytes) -> bool:
        """True when a look at the pieces finds nothing; False says nothing."""
        return len(raw) >= LEAST_BYTES and self._by_pieces(raw, "") is raw

    def _is_plainly_clean(self, raw: bytes, name: str) -> bool:
        return (not name or self.rules.hint_of(name) is None) and self.passes(raw)

    def must_walk(self, text: str, name: str) -> bool:
        """True when JSON may hold something that a look at its text cannot see."""
        if name and self.rules.hint_of(name) is not None:
            return True
        if self.rules.paths or self.names is not None:
            return True
        return _HIDES_SOMETHING.search(text) is not None or _has_texts_of_a_name(text)

    def hits(self, text: str, known: Known, around: int = 0) -> list[Hit]:
        """What is found in a text, and the known values in it; `around`: traits of what it is a part of."""
        hits = hits_in(text, self.rules, around=around)
        if known:
            again = [Hit("", at, at + len(value), 9) for value in known for at in _places(text, value)]
            hits = settled(hits + again, text)
        if self.names is not None and not looks_like_json(text):
            named = [Hit("name", *span, 8) for span in self.names.find(text)]
            taken = placeholders_in(text.encode("ascii", "replace"))
            free = [hit for hit in named if not any(hit.start < one.end and one.start < hit.end for one in taken)]
            hits = settled(hits + free, text)
        return hits

    def _edit(self, text: str, hit: Hit, known: Known) -> Edit:
        raw = text[hit.start : hit.end]
        if not hit.kind:
            return Edit(hit.start, hit.end, *known[raw], raw)
        if hit.spelling in (Spelling.BASE64, Spelling.HEX, Spelling.PACKED):
            return Edit(hit.start, hit.end, self._encoded(raw, hit), hit.kind)
        if hit.spelling in (Spelling.PERCENT, Spelling.FORM):
            in_form = hit.spelling is Spelling.FORM
            value, layers = unquoted(raw, in_form=in_form)
            shown = quoted(self._stand_in(hit.kind, value), layers, in_form=in_form)
            return Edit(hit.start, hit.end, shown, hit.kind)
        return Edit(hit.start, hit.end, self._stand_in(hit.kind, raw), hit.kind, raw)

    def _encoded(self, raw: str, hit: Hit) -> str:
        """The same text in the same encoding, redacted."""
        decode_text, encode_text = _CODECS[hit.spelling]
        text = decode_text(raw)
        after = self.text(text) if text is not None else None
        if text is None or after is None or after == text:
            return self._stand_in(hit.kind, raw)
        return encode_text(after, raw)

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
        inside = text[start:end]
        places = None
        value = inside
        if "\\" in inside:
            value, places = unescaped(inside)
        edit = None if leaf.is_key else self._named_edit(leaf, value)
        if edit is not None:
            return (
                [Edit(start + edit.start, end, edit.text, edit.kind, edit.value, leaf.path)]
                if not places
                else [Edit(start + places[edit.start], end, edit.text, edit.kind, edit.value, leaf.path)]
            )
        if places is None and not (depth < MAX_DEPTH and looks_like_json(value)) and self.names is None:
            return [
                self._clipped(text, hit, start, end, leaf, known)
                for hit in hits
                if max(hit.start, start) < min(hit.end, end)
            ]
        if depth >= MAX_DEPTH:
            return []
        inner = self._edits(value, "", "", known, depth=depth + 1)
        if not inner and hits and places is not None:
            return [
                self._clipped(text, hit, start, end, leaf, known)
                for hit in hits
                if start <= hit.start and hit.end <= end and "\\" not in text[hit.start : hit.end]
            ]
        where = places or range(len(value) + 1)
        return [
            Edit(
                start + where[edit.start], start + where[edit.end], escaped(edit.text), edit.kind, edit.value, leaf.path
            )
            for edit in inner
        ]

    def _clipped(self, text: str, hit: Hit, start: int, end: int, leaf: Leaf, known: Known) -> Edit:
        """A hit in the JSON text, kept inside of the string that it is in."""
        within = Hit(hit.kind, max(hit.start, start), min(hit.end, end), hit.rank, hit.spelling)
        edit = self._edit(text, within, known)
        return Edit(edit.start, edit.end, edit.text, edit.kind, edit.value, leaf.path)

    def _named_edit(self, leaf: Leaf, value: str) -> Edit | None:
        """The edit of a whole value that its name or a path gives away."""
        is_own = leaf.picked
        if leaf.picked:
            kind = "secret"
        else:
            hint = self.rules.hint_of(leaf.name) if leaf.name else None
            if hint is None or not self._is_secret(value, hint):
                return None
            kind = refined(leaf.name, value) if hint.kind == "secret" else hint.kind
            is_own = hint.is_own
        start = _after_scheme(value)
        secret = value[start:]
        if not secret or is_placeholder(secret, kind) or self.rules.allows(value, is_own=is_own):
            return None
        found = hits_in(secret, self.rules)
        if len(found) == 1 and found[0].start == 0 and found[0].end == len(secret) and not found[0].spelling:
            kind = found[0].kind if found[0].kind not in OF_DIGITS else kind  # `token: ghp_…`: as anywhere else
        return Edit(start, len(value), self._stand_in(kind, secret), kind, secret)

    def _is_secret(self, value: str, hint: NameHint) -> bool:
        """True for a value that its name gives away: by itself, behind a scheme, or for what else it holds."""
        if hint.trust is Trust.COOKIE:
            return is_plausible(value, hint, quoted=True) and (not spans(value.encode()) or cookie_hides_more(value))
        if is_plausible(value, hint, quoted=True):
            return True
        if hint.trust not in (Trust.SECRET, Trust.RANDOM):
            return False
        start = _after_scheme(value)
        if start and is_plausible(value[start:], _ANY if '="' in value else hint, quoted=True):
            return True
        return rest_is_secret(value, 0, hits_in(value, self.rules))

    def _scalar(self, text: str, leaf: Leaf) -> list[Edit]:
        """A bare number is taken by its name alone: ids and seeds pass every check on numbers now and then."""
        word = text[leaf.start : leaf.end]
        edit = None if word in ("true", "false", "null") else self._named_edit(leaf, word)
        if edit is None:
            return []
        is_number = edit.text.isdigit() and edit.text[0] != "0"
        return [Edit(leaf.start, leaf.end, edit.text if is_number else f'"{edit.text}"', edit.kind, "", leaf.path)]

    def _cookie(self, part: str) -> str:
        name, sign, value = part.partition("=")
        if not sign or value.isalpha() or is_placeholder(value) or name.lower() in COOKIE_ATTRIBUTES:
            return part
        return f"{name}={self._stand_in('secret', value)}" if value else part

    def _parameter(self, part: str) -> str:
        name, sign, value = part.partition("=")
        if not sign or name.lower() not in _PARAMETERS:
            return part
        plain, layers = unquoted(value)
        if is_placeholder(plain) or not looks_random(plain) or self.rules.allows(plain):
            return part
        return f"{name}={quoted(self._stand_in('secret', plain), max(layers, 1))}"


def _in_base64(text: str, like: str) -> str:
    return as_base64(text.encode("utf-8", "surrogatepass"), like)


def _in_hex(text: str, like: str) -> str:
    digits = text.encode("utf-8", "surrogatepass").hex()
    return digits.upper() if like.isupper() else digits


_CODECS: dict[Spelling, tuple[Callable[[str], str | None], Callable[[str, str], str]]] = {
    Spelling.BASE64: (text_in, _in_base64),
    Spelling.HEX: (text_in_hex, _in_hex),
    Spelling.PACKED: (unpacked_whole, packed),
}
"""How text is taken out of what is encoded as a whole, and put back."""


def _has_texts_of_a_name(text: str) -> bool:
    """True when JSON may have a name with texts in brackets behind it.

    The bracket is looked for first: a pattern that begins with the quote of the name stops at every quote of the text,
    which takes six times as long.
    """
    return any(_ends_with_name(text, found.start()) for found in _TEXTS.finditer(text))


def _ends_with_name(text: str, end: int) -> bool:
    """True when what is before `end` ends with a name and a colon, or with more blanks than are looked at."""
    start = max(0, end - _WIDEST_SIGN)
    name, _, blanks = text[start:end].rpartition(":")
    if blanks.strip():
        return False
    name = name.rstrip()
    return name.endswith('"') or (start > 0 and not name)


def _after_scheme(value: str) -> int:
    lowered = value[:12].lower()
    return next((len(scheme) for scheme in _SCHEMES if lowered.startswith(scheme)), 0)


def is_worth_knowing(edit: Edit) -> bool:
    """A value that is looked for elsewhere too: long enough to be no word by chance."""
    return len(edit.value) >= _BYTE_LIMIT and looks_random(edit.value)


def _places(text: str, value: str) -> list[int]:
    places, at = [], text.find(value)
    while at >= 0:
        places.append(at)
        at = text.find(value, at + len(value))
    return places
