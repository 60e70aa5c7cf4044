"""Assigned: values beside telling names, in whatever a text is written in.

`password: x`, `"password": "x"`, `\\"password\\": \\"x\\"`, `password=x&`, `--password x`, `<password>x</password>`,
`name="password" value="x"`, `Authorization: Bearer x`, `the password is x`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from replaykit.redaction import traits
from replaykit.redaction.composed_values import cookie_hides_more, rest_is_secret
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NUMBER_STEMS, STEMS, WIDE_STEMS, NameHint, Trust, compact, several_words
from replaykit.redaction.placeholders import is_placeholder
from replaykit.redaction.plausible_values import is_plausible
from replaykit.redaction.rules import Rules
from replaykit.redaction.tables import csv_hits
from replaykit.redaction.text_view import View

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
_DIGEST = lazy(
    rb"\s{0,4}[:=]\s{0,4}digest\s{1,4}"
    rb"([a-z_-]{1,24}\s?=\s?(?:\\{0,8}\"[^\"\r\n]{0,2048}+\"|[^\s,\"']{1,512}+)"
    rb"(?:\s?,\s{0,4}[a-z_-]{1,24}\s?=\s?(?:\\{0,8}\"[^\"\r\n]{0,2048}+\"|[^\s,\"']{1,512}+)){0,24}+)",
    re.IGNORECASE,
)
"""The parameters of `Authorization: Digest`, which are one secret."""
_SCHEME = lazy(rb"(?:bearer|basic|token|bot|apikey|api-key|key|digest|negotiate|ntlm)\s+", re.IGNORECASE)
_ENV_LINE = lazy(rb"(?:^|[\r\n])[ \t]*(?:export |set |ENV |\$env:)?[A-Z][A-Z0-9_]*=?\Z")
_BLANKED = lazy(rb"<{8,}+(?=[A-Za-z0-9_.~-])")
_REST = lazy(rb"[ \t]*(?:[\r\n,;&)}\]<|#]|//|\\|\.?\Z|\.\s|\"|')")
_HARD = lazy(rb"[^A-Za-z]")


def assigned_hits(view: View, rules: Rules, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Every value beside a telling name; `view.findings` are what such values may hold."""
    low, runs, flat = view.low, view.runs, view.flat
    seen: set[int] = set()
    heads: set[int] = set()
    done = 0
    for stem in stems_for(view.traits, rules, literals):
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
            at = low.find(stem, max(end, done))  # a name inside of a value is a part of it
        done = 0
    if not view.text.isascii():
        yield from _wide(view, rules)


_ENDS_CELL = (b",", b";", b"\t", b"|", b"\r", b"\n", b"\v", b"\\", b'"')


def stems_for(text_traits: int, rules: Rules, literals: frozenset[bytes]) -> list[bytes]:
    """What is in every name that could tell in this text."""
    stems = [stem for stem in STEMS if stem in literals]
    stems += rules.stems
    if text_traits & traits.DIGITS:
        stems += [stem for stem in NUMBER_STEMS if stem in literals]
    return stems


def _wide(view: View, rules: Rules) -> Iterator[Hit]:
    """Names beyond ASCII; what follows them is read as for all others."""
    stems = [stem for sign, words in WIDE_STEMS.items() if sign in view.text for stem in words.split()]
    lowered = view.text.lower() if stems else ""
    if len(lowered) != len(view.text):
        return  # a letter that changes its length with its case: positions would be off
    for stem in dict.fromkeys(stems):
        at = lowered.find(stem)
        while at >= 0:
            end = at + len(stem)
            while end < len(lowered) and (lowered[end].isalnum() and not lowered[end].isascii() and end - at < 20):
                if lowered[end] in "是为為は은는이가":
                    break
                end += 1
            skip = end
            while skip < len(lowered) and skip - end < 3 and lowered[skip] in "是为為は은는이가 ":
                skip += 1
            yield from _value(view, rules, end, NameHint("secret", Trust.ANY), "", skipped=skip if skip > end else 0)
            value = _BARE.match(view.flat, skip + 1)  # a name inside of a value is a part of it
            at = lowered.find(stem, value.end() if value else end)


@lru_cache(maxsize=4096)
def _hint_of(name: bytes, rules: Rules) -> NameHint | None:
    return rules.hint_of(name.decode().strip("-_+/"))


def _beside(view: View, rules: Rules, start: int, end: int, hint: NameHint | None) -> Iterator[Hit]:
    flat = view.flat
    after = flat[end : end + 1]
    if not after or (after == b" " and _NEXT.match(flat, end) is None):
        return
    name = flat[start:end]
    if hint is None:
        name, hint = _two_words(view, rules, start, end)
    if hint is not None:
        yield from _value(view, rules, end, hint, name.decode(), start=start)


_NEXT = lazy(rb"\s{1,16}(?:[:=!>|]|->|is\b|ist\b|lautet|est\b|es\b|was\b|jest\b|value|content|\S{2})")


def _two_words(view: View, rules: Rules, start: int, end: int) -> tuple[bytes, NameHint | None]:
    """`API key: x`, `mot de passe : x`, `driver's license: x`: names of several words."""
    name = several_words(view.flat, start, end).replace(b"'", b"")
    return name, _hint_of(name, rules) if name[:1].isalpha() else None


def _value(
    view: View, rules: Rules, end: int, hint: NameHint, name: str, *, start: int = 0, skipped: int = 0
) -> Iterator[Hit]:
    flat = view.flat
    digest = _DIGEST.match(flat, end) if hint.kind == "secret" and b"igest" in flat[end : end + 12] else None
    if digest is not None:
        yield from _checked(view, digest.span(1), NameHint(hint.kind, Trust.ANY), name, quoted=True)
        return
    sign = _SEPARATOR.match(flat, skipped or end)
    if sign is None:
        return
    at = sign.end()
    how = sign.lastgroup or "flag"
    if skipped and how == "flag":
        how = "word"
    if hint.trust is Trust.NUMBER and how in ("flag", "word"):
        yield from _numbered(view, end, hint)
        return
    if how == "flag" and flat[end : end + 1] == b" ":
        yield from _after_blank(view, end + 1, hint, start)
        if flat[start : start + 2] != b"--":
            return
    if how == "cell" and b"| " not in flat[max(0, start - 4) : start]:
        return
    if how == "flag":
        if flat[start : start + 2] != b"--" or flat[end : end + 1] not in (b" ", b"\t"):
            return
        at = end + 1
    if how == "list" and not sign["close"]:
        return
    if how == "xml":
        found = (
            _XML.match(flat, at)
            if flat[max(0, start - 1) : start] == b"<" or b"<" in flat[max(0, start - 24) : start]
            else None
        )
        span = None
        if found:
            span = found.span(1 if found[1] is not None else 2)
        yield from _checked(view, span, hint, name, quoted=True)
        return
    if name.lower().endswith("cookie"):
        if how == "sign":
            yield from _cookie(view, end)
        return
    quoted = _QUOTED.match(flat, at)
    if quoted is not None:
        span = next(quoted.span(group) for group in _GROUPS if quoted[group] is not None)
        if how == "list" and (hint.trust is not Trust.NUMBER and flat[quoted.end() : quoted.end() + 1] != b":"):
            hint = NameHint(hint.kind, Trust.RANDOM, hint.is_own)
        elif how == "list":
            return
        elif how == "call" and hint.trust is Trust.ANY:
            hint = NameHint(hint.kind, Trust.SECRET, hint.is_own)
        first, last = _after_scheme(flat, *span)
        if first > span[0] and b"=" in flat[first:last] and b"," in flat[first:last]:
            hint = NameHint(hint.kind, Trust.ANY)  # the parameters of Digest
        yield from _checked(view, (first, last), hint, name, quoted=True)
    elif how != "list":
        yield from _bare(view, at, hint, name, how, sign)


_GROUPS = ("escaped", "double", "single", "tick", "html", "percent")


def _bare(view: View, at: int, hint: NameHint, name: str, how: str, sign: re.Match[bytes]) -> Iterator[Hit]:
    flat = view.flat
    scheme = _SCHEME.match(flat, at)
    at = scheme.end() if scheme else at
    is_env = sign[0] == b"=" and _ENV_LINE.search(flat, max(0, sign.start() - 80), sign.start()) is not None
    blanked = _BLANKED.match(flat, at)  # a placeholder that the value goes on behind
    found = (_LINE_BARE if is_env else _BARE).match(flat, blanked.end() if blanked else at)
    if found is None:
        return
    first, last = at, found.end()
    last = _closed(flat, first, last)
    while last > first and flat[last - 1] in b".,:!?":
        last -= 1
    if flat[last : last + 1] in (b"(", b"[") and flat[last - 1 : last].isalnum():
        return  # a call or a subscript: code
    tight = not sign[0][-1:].isspace() or how == "flag"
    alone = _REST.match(flat, last) is not None
    loose = alone and (tight or b":" in sign[0])
    if how == "word" and not _HARD.search(flat, first, last):
        return
    if hint.trust is Trust.NUMBER:
        found = _NUMBER.match(flat, first)
        last = found.end() if found else last
    yield from _checked(view, (first, last), hint, name, quoted=False, loose=loose)


_TOKEN_ALONE = lazy(rb"[\"'`]?([A-Za-z0-9_\-./+=~]{8,2048}+)")


def _after_blank(view: View, at: int, hint: NameHint, start: int) -> Iterator[Hit]:
    """`the API key a8f5…`: without a sign, only what no sentence goes on with; and `login x password y` of netrc."""
    found = _TOKEN_ALONE.match(view.flat, at)
    if found is None or hint.trust not in (Trust.RANDOM, Trust.SECRET, Trust.ANY):
        return
    token = found[1].rstrip(b".")
    is_netrc = b"login " in view.low[max(0, start - 80) : start]
    if any(48 <= char <= 57 for char in token) and not token.isdigit() and (len(token) >= 16 or is_netrc):
        yield from _checked(view, (found.start(1), found.start(1) + len(token)), _AS_DRAWN, "", quoted=True)


_AS_DRAWN = NameHint("secret", Trust.RANDOM)
_NUMBERED = lazy(
    rb"[\s\"'_-]{0,3}(?:(?i:no|nr|num|number|nummer|id)\b|\#)?\.?[\"']?\s{0,3}(?P<sign>[:=\#]|is\b|ist\b)?\s{0,3}[\"']?"
    rb"(?P<value>[A-Z0-9][A-Z0-9]*(?:[ \-./]{1,2}[A-Z0-9]*\d[A-Z0-9]*){0,6})(?![A-Za-z0-9])"
)


def _numbered(view: View, end: int, hint: NameHint) -> Iterator[Hit]:
    """`Passport No. X1234567`, `SSN is 123 45 6789`."""
    found = _NUMBERED.match(view.flat, end)
    if found and (found["sign"] or hint.kind not in ("secret", "phone")) and _digits(found["value"]) >= 4:
        yield from _checked(view, found.span("value"), hint, "", quoted=True)


def _digits(text: bytes) -> int:
    return sum(48 <= char <= 57 for char in text)


def _closed(flat: bytes, first: int, last: int) -> int:
    """Without a bracket that closes what was opened before the value."""
    for opener, closer in (b"()", b"[]", b"{}"):
        at = flat.find(closer, first, last)
        if at >= 0 and flat.find(opener, first, at) < 0:
            last = at
    return last


_NUMBER = lazy(rb"[A-Za-z0-9+(][A-Za-z0-9]*(?:[ \-./()]{1,2}[A-Z0-9]*\d[A-Z0-9]*)*")


def _after_scheme(flat: bytes, start: int, end: int) -> tuple[int, int]:
    scheme = _SCHEME.match(flat, start, end)
    return (scheme.end(), end) if scheme else (start, end)


def _checked(
    view: View, span: tuple[int, int] | None, hint: NameHint, name: str, *, quoted: bool, loose: bool = True
) -> Iterator[Hit]:
    if span is None or span[0] >= span[1]:
        return
    start, end = span
    while start < end and view.flat[start : start + 1].isspace():
        start += 1
    while start < end and view.flat[end - 1 : end].isspace():
        end -= 1
    if b"<<<<<<<<" in view.flat[start:end] and not view.flat[start:end].strip(b"<"):
        return
    value = view.text[start:end]
    is_secret = is_plausible(value, hint, quoted=quoted, loose=loose) or _is_composed(view, value, start, hint)
    if is_secret and not is_placeholder(value, hint.kind):
        kind = hint.kind
        if kind == "secret":
            kind = refined(name, value, view.low[max(0, start - 160) : start])
        yield Hit(kind, start, end, 3, is_own=hint.is_own)


def _cookie(view: View, end: int) -> Iterator[Hit]:
    """All pairs of a cookie, unless they have been redacted one by one."""
    sign = _COLON.match(view.flat, end)
    found = _COOKIE.match(view.flat, sign.end()) if sign else None
    if found is None or b"=" not in found[0]:
        return
    start, end = found.span()
    if b"<<<<" not in found[0] or cookie_hides_more(view.text[start:end]):
        yield Hit("secret", start, end, 2)


def _is_composed(view: View, value: str, start: int, hint: NameHint) -> bool:
    """True for a value with a finding in it, of which the rest is secret as well."""
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
    """The kind of a secret that its name, or what stands before it, knows better."""
    words = compact(name)
    if ("aws" in words or words.endswith("secretaccesskey")) and _AWS_SECRET.fullmatch(value):
        return "aws-secret"
    if words.endswith(("accountkey", "sharedaccesskey")):
        return "azure-key"
    return "connection-string" if before and _DSN.search(before) else "secret"
