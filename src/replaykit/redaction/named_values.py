"""Find values next to telling names, in whatever notation the text has.

`password: x`, `"password": "x"`, `\\"password\\": \\"x\\"`, `password=x&`, `--password x`, `<password>x</password>`,
`name="password" value="x"`, `Authorization: Bearer x`, `the password is x`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NUMBER_STEMS, STEMS, WIDE_STEMS, NameHint, Trust, compact, several_words
from replaykit.redaction.placeholders import digits_in, is_placeholder
from replaykit.redaction.plausible_values import cookie_hides_more, is_plausible, rest_is_secret
from replaykit.redaction.rules import Rules
from replaykit.redaction.tables import csv_hits
from replaykit.redaction.text_view import Trait, View

_Q = rb"(?:\\{0,8}[\"'`]|&quot;|&\#3[49];|%22)"
_SEPARATOR = lazy(
    rb"""(?P<close>%b?\]?)\s{0,16}(?:
        (?P<pair>,\s{0,4}(?:"\w{1,20}"\s{0,4}:\s{0,4}(?:"[^"\\]{0,60}"|[\w.-]{1,20})\s{0,4},\s{0,4}){0,3}
            %b?(?:value|val|content|data)%b?\s{0,4}[:=]\s{0,4}|(?:value|content)\s{0,4}=\s{0,4})
      | (?P<sign>(?::\s{0,4}[A-Za-z_][\w.\[\]| ?]{0,30}?\s{0,4}=(?=\s{0,4}[rbfu]{0,2}["'`])
            |:=|=>|===?|->|=|:|!==?)\s{0,32})
      | (?P<xml>>)
      | (?P<list>,\s{0,4})
      | (?P<call>\(\s{0,2}(?=["'`]))
      | (?P<cell>\|\s{1,16})
      | (?P<word>(?:is|ist|lautet|est|es|was|jest|eh)\b\s{0,4}:?\s{0,4})
      | (?P<flag>)
    )"""
    % (_Q, _Q, _Q),
    re.VERBOSE,
)
_QUOTED = lazy(
    rb"""[rbfu@$]{0,2}(?:
        (?P<e>\\{1,8}["'])(?P<escaped>(?:(?!(?P=e)).){0,4096}?)(?P=e)
      | "(?P<double>[^"\\\r\n]{0,4096}+(?:\\.[^"\\\r\n]{0,4096}+){0,512}+)(?:"|\Z)
      | '(?P<single>[^'\\\r\n]{0,4096}+(?:\\.[^'\\\r\n]{0,4096}+){0,512}+)(?:'|\Z)
      | `(?P<tick>[^`\r\n]{0,4096}+)`
      | &quot;(?P<html>[^&\r\n]{0,4096}+)&quot;
      | %22(?P<percent>[^%&\s]{0,4096}+)%22
    )""",
    re.VERBOSE,
)
_BARE = lazy(rb"[^\s\"'`,;&<>|\\(){}\[\]]{1,2048}+(?:[(){}\[\]|]{1,8}+(?![\s,;&]|\Z)[^\s\"'`,;&<>\\]{0,512}+)?")
_LINE_BARE = lazy(rb"[^\s\"'`<>\\]{1,2048}+")
_XML = lazy(
    rb"(?:<!\[CDATA\[)?((?:[^<>]|<(?=<)|<(?<=<<<<)(?!/)){1,4096}+)(?<!\])(?:\]\]>)?</|(?:<!\[CDATA\[)([^<>\]]{1,4096}+)"
)
_COOKIE = lazy(rb"[^\r\n\"']{1,8192}+(?:(?<==)\"[^\r\n\"']{0,4096}+\"[^\r\n\"']{0,4096}+){0,64}+")
_COLON = lazy(rb"\s{0,16}[:=]\s{0,4}")
# The parameters of `Authorization: Digest`, which form one secret.
_DIGEST = lazy(
    rb"\s{0,4}[:=]\s{0,4}digest\s{1,4}"
    rb"([a-z_-]{1,24}\s?=\s?(?:\\{0,8}\"[^\"\r\n]{0,2048}+\"|[^\s,\"']{1,512}+)"
    rb"(?:\s?,\s{0,4}[a-z_-]{1,24}\s?=\s?(?:\\{0,8}\"[^\"\r\n]{0,2048}+\"|[^\s,\"']{1,512}+)){0,24}+)",
    re.IGNORECASE,
)
_SCHEME = lazy(rb"(?:bearer|basic|token|bot|apikey|api-key|key|digest|negotiate|ntlm)\s+", re.IGNORECASE)
_ENV_LINE = lazy(rb"(?:^|[\r\n])[ \t]*(?:export |set |ENV |\$env:)?[A-Z][A-Z0-9_]*=?\Z")
_BLANKED = lazy(rb"<{8,}+(?=[A-Za-z0-9_.~-])")
_REST = lazy(rb"[ \t]*(?:[\r\n,;&)}\]<|#]|//|\\|\.?\Z|\.\s|\"|')")


def assigned_hits(view: View, rules: Rules, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield the values next to telling names; `view.findings` are hits inside such values."""
    low, runs, flat = view.low, view.runs, view.flat
    seen: set[int] = set()
    heads: set[int] = set()
    done = 0
    stems = list(filter(literals.__contains__, STEMS))
    stems += rules.stems
    if view.traits & Trait.DIGITS:
        stems += filter(literals.__contains__, NUMBER_STEMS)
    for stem in stems:
        at = low.find(stem)
        while at >= 0:
            end = runs.find(b" ", at)
            if end < 0 or end > at + 60:
                end = at + len(stem)
            start = max(runs.rfind(b" ", max(0, at - 40), at) + 1, at - 40)
            hint = _hint_of(flat[start:end], rules)
            if (hint is not None or (start and flat[start - 1] == 32)) and end not in seen:
                seen.add(end)
                if hint is not None and flat[end : end + 1] in _ENDS_CELL:
                    yield from csv_hits(view, rules, start, heads)
                for hit in _beside(view, rules, start, end, hint):
                    yield hit
                    done = hit.end
            at = low.find(stem, max(end, done))  # a name inside a value belongs to the value
        done = 0
    if not view.text.isascii():
        yield from _wide(view)


_IS = "是为為は은는이가"
_ENDS_CELL = (b",", b";", b"\t", b"|", b"\r", b"\n", b"\v", b"\\", b'"')


def _wide(view: View) -> Iterator[Hit]:
    """Yield values next to names beyond ASCII; the text after a name is read as for all names."""
    stems: dict[str, None] = {}
    for sign, words in WIDE_STEMS.items():
        if sign in view.text:
            stems |= dict.fromkeys(words.split())
    if not stems:
        return
    lowered = view.text.lower()
    if len(lowered) != len(view.text):
        return  # case changed the length of a letter, so positions would be off
    for stem in stems:
        at = lowered.find(stem)
        while at >= 0:
            end = at + len(stem)
            while end < min(len(lowered), at + 20) and lowered[end].isalnum() and not lowered[end].isascii():
                if lowered[end] in _IS:
                    break
                end += 1
            skip = end
            while skip < min(len(lowered), end + 3) and lowered[skip] in f"{_IS} ":
                skip += 1
            yield from _value(view, end, NameHint("secret", Trust.ANY), "", skipped=skip)
            value = _BARE.match(view.flat, skip + 1)  # a name inside a value belongs to the value
            if value:
                end = value.end()
            at = lowered.find(stem, end)


@lru_cache(maxsize=4096)
def _hint_of(name: bytes, rules: Rules) -> NameHint | None:
    return rules.hint_of(name.decode().strip("-_+/"))


def _beside(view: View, rules: Rules, start: int, end: int, hint: NameHint | None) -> Iterator[Hit]:
    flat = view.flat
    after = flat[end : end + 1]
    if not after or (after == b" " and _NEXT.match(flat, end) is None):
        return
    name = flat[start:end]
    if hint is None:  # `API key: x`, `mot de passe : x`, `driver's license: x`
        name = several_words(flat, start, end).replace(b"'", b"")
        if name[:1].isalpha():
            hint = _hint_of(name, rules)
    if hint is not None:
        yield from _value(view, end, hint, name.decode(), start=start)


_NEXT = lazy(rb"\s{1,16}(?:[:=!>|]|->|is\b|ist\b|lautet|est\b|es\b|was\b|jest\b|value|content|\S{2})")


def _value(view: View, end: int, hint: NameHint, name: str, *, start: int = 0, skipped: int = 0) -> Iterator[Hit]:
    """Yield the value after a name that ends at `end`, or, if a word for "is" follows, at `skipped`."""
    flat = view.flat
    if hint.kind == "secret" and b"igest" in flat[end : end + 12]:
        digest = _DIGEST.match(flat, end)
        if digest is not None:
            yield from _checked(view, digest.span(1), NameHint(hint.kind, Trust.ANY), name, quoted=True)
            return
    sign = _SEPARATOR.match(flat, max(skipped, end))
    if sign is None:
        return
    at = sign.end()
    how = sign.lastgroup or "flag"
    if how == "flag" and skipped > end:
        how = "word"
    if hint.trust is Trust.NUMBER and how in ("flag", "word"):
        yield from _numbered(view, end, hint)
        return
    if how == "flag" and flat[end : end + 1] == b" ":
        yield from _after_blank(view, end + 1, hint, start)
    if how == "flag":
        if flat[start : start + 2] != b"--" or flat[end : end + 1] not in (b" ", b"\t"):
            return
        at = end + 1
    if how == "cell" and b"| " not in flat[max(0, start - 4) : start]:
        return
    if how == "list" and not sign["close"]:
        return
    if how == "xml":
        content = b"<" in flat[max(0, start - 24) : start] and _XML.match(flat, at)
        if content:
            yield from _checked(view, content.span(content.lastindex or 0), hint, name, quoted=True)
        return
    if name.lower().endswith("cookie"):
        if how == "sign":
            yield from _cookie(view, end)
        return
    quoted = _QUOTED.match(flat, at)
    if quoted is not None:
        span = quoted.span(quoted.lastgroup or 0)
        if how == "list":
            if hint.trust is Trust.NUMBER or flat[quoted.end() : quoted.end() + 1] == b":":
                return
            hint = NameHint(hint.kind, Trust.RANDOM, hint.is_own)
        elif how == "call" and hint.trust is Trust.ANY:
            hint = NameHint(hint.kind, Trust.SECRET, hint.is_own)
        scheme = _SCHEME.match(flat, *span)
        if scheme:
            span = scheme.end(), span[1]
            if b"=" in flat[slice(*span)] and b"," in flat[slice(*span)]:
                hint = NameHint(hint.kind, Trust.ANY)  # the parameters of Digest
        yield from _checked(view, span, hint, name, quoted=True)
    elif how != "list":
        yield from _bare(view, at, hint, name, how, sign)


def _bare(view: View, at: int, hint: NameHint, name: str, how: str, sign: re.Match[bytes]) -> Iterator[Hit]:
    flat = view.flat
    scheme = _SCHEME.match(flat, at)
    if scheme:
        at = scheme.end()
    form = _BARE
    if sign[0] == b"=" and _ENV_LINE.search(flat, max(0, sign.start() - 80), sign.start()):
        form = _LINE_BARE
    first = at
    blanked = _BLANKED.match(flat, at)  # a placeholder with the rest of a value after it
    if blanked:
        at = blanked.end()
    found = form.match(flat, at)
    if found is None:
        return
    last = _closed(flat, first, found.end())
    while last > first and flat[last - 1] in b".,:!?":
        last -= 1
    if flat[last : last + 1] in (b"(", b"[") and flat[last - 1 : last].isalnum():
        return  # a call or a subscript, so this is code
    is_tight = not sign[0][-1:].isspace() or how == "flag"
    loose = _REST.match(flat, last) is not None and (is_tight or b":" in sign[0])
    if how == "word" and flat[first:last].isalpha():
        return
    if hint.trust is Trust.NUMBER:
        number = _NUMBER.match(flat, first)
        if number:
            last = number.end()
    yield from _checked(view, (first, last), hint, name, quoted=False, loose=loose)


_TOKEN_ALONE = lazy(rb"[\"'`]?([A-Za-z0-9_\-./+=~]{8,2048}+)")


def _after_blank(view: View, at: int, hint: NameHint, start: int) -> Iterator[Hit]:
    """Yield the value of `the API key a8f5…`, and of `login x password y` in netrc.

    Without a separator, only a word that no sentence contains counts as a value.
    """
    found = _TOKEN_ALONE.match(view.flat, at)
    if found is None or hint.trust not in (Trust.RANDOM, Trust.SECRET, Trust.ANY):
        return
    token = found[1].rstrip(b".")
    is_netrc = b"login " in view.low[max(0, start - 80) : start]
    if digits_in(token) and not token.isdigit() and (len(token) >= 16 or is_netrc):
        yield from _checked(view, (found.start(1), found.start(1) + len(token)), _AS_DRAWN, "", quoted=True)


_AS_DRAWN = NameHint("secret", Trust.RANDOM)
_NUMBERED = lazy(
    rb"[\s\"'_-]{0,3}(?:(?i:no|nr|num|number|nummer|id)\b|\#)?\.?[\"']?\s{0,3}(?P<sign>[:=\#]|is\b|ist\b)?\s{0,3}[\"']?"
    rb"(?P<value>[A-Z0-9][A-Z0-9]*(?:[ \-./]{1,2}[A-Z0-9]*\d[A-Z0-9]*){0,6})(?![A-Za-z0-9])"
)


def _numbered(view: View, end: int, hint: NameHint) -> Iterator[Hit]:
    """Yield the value of `Passport No. X1234567` and `SSN is 123 45 6789`."""
    found = _NUMBERED.match(view.flat, end)
    if found and (found["sign"] or hint.kind not in ("secret", "phone")) and len(digits_in(found["value"])) >= 4:
        yield from _checked(view, found.span("value"), hint, "", quoted=True)


def _closed(flat: bytes, first: int, last: int) -> int:
    """Return the end before a bracket that was opened ahead of the value."""
    for opener, closer in (b"()", b"[]", b"{}"):
        at = flat.find(closer, first, last)
        if at >= 0 and flat.find(opener, first, at) < 0:
            last = at
    return last


_NUMBER = lazy(rb"[A-Za-z0-9+(][A-Za-z0-9]*(?:[ \-./()]{1,2}[A-Z0-9]*\d[A-Z0-9]*)*")


def _checked(
    view: View, span: tuple[int, int], hint: NameHint, name: str, *, quoted: bool, loose: bool = True
) -> Iterator[Hit]:
    start, end = span
    flat = view.flat[start:end]
    end -= len(flat) - len(flat.rstrip())
    start += len(flat) - len(flat.lstrip())
    if start >= end or (b"<<<<<<<<" in flat and not flat.strip().strip(b"<")):
        return
    value = view.text[start:end]
    is_secret = is_plausible(value, hint, quoted=quoted, loose=loose) or _is_composed(view, value, start, hint)
    if is_secret and not is_placeholder(value, hint.kind):
        kind = hint.kind
        if kind == "secret":
            kind = refined(name, value, view.low[max(0, start - 160) : start])
        yield Hit(kind, start, end, 3, is_own=hint.is_own)


def _cookie(view: View, end: int) -> Iterator[Hit]:
    """Yield all pairs of a cookie as one hit, unless each is redacted already."""
    sign = _COLON.match(view.flat, end)
    found = sign and _COOKIE.match(view.flat, sign.end())
    if not found or b"=" not in found[0]:
        return
    start, end = found.span()
    if b"<<<<" not in found[0] or cookie_hides_more(view.text[start:end]):
        yield Hit("secret", start, end, 2)


def _is_composed(view: View, value: str, start: int, hint: NameHint) -> bool:
    """Return whether a value contains a hit and the rest of it is secret, too."""
    if hint.trust not in (Trust.SECRET, Trust.RANDOM):
        return False
    end = start + len(value)
    inner = [hit for hit in view.findings if start <= hit.start and hit.end <= end]
    return rest_is_secret(value, start, inner)


_AWS_SECRET = lazy(r"[A-Za-z0-9/+]{40}")
_DSN = lazy(
    rb"jdbc:|(?:^|[;\s\"'])(?:server|data source|driver|host|addr|address|initial catalog|dsn|accountname|endpoint)="
    rb"[^=]{1,120}[;&? ]"
)


def refined(name: str, value: str, before: bytes = b"") -> str:
    """Return a more specific kind of secret, from its name or the text before it."""
    words = compact(name)
    if ("aws" in words or words.endswith("secretaccesskey")) and _AWS_SECRET.fullmatch(value):
        return "aws-secret"
    if words.endswith(("accountkey", "sharedaccesskey")):
        return "azure-key"
    if _DSN.search(before):
        return "connection-string"
    return "secret"
