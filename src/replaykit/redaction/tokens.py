"""Tokens: long runs of letters and digits, which contain all provider keys and encoded texts.

Most texts have few such runs, so that searching the forms of a hundred providers costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.redaction.checksums import unbase64
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.providers import BEGIN, LITERAL_FINDER, LOOSE, token_at
from replaykit.redaction.text_view import Trait, View, places_of

SHORTEST = 20
RUN = b"a" * SHORTEST
_NEAR_AWS = 400
_SECRET_AWS = lazy(rb"(?<![A-Za-z0-9/+=_\-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_\-])")
JOINTS = b".:~$"
"""The characters that join the parts of some tokens."""
_PEM = lazy(rb"-----BEGIN[ +](?:[A-Z0-9]{1,12}[ +]){0,4}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
_PEM_END = lazy(rb"-----END[ +][A-Z0-9 +]{0,40}-----")
_PEM_BODY = lazy(rb"(?:\s*+[A-Za-z-]{3,20}: [^\r\n]{1,80})*+[A-Za-z0-9+/=\s\\]*+")
_PEM_LONGEST = 16_384
_BEARER = lazy(rb"bearer\s{1,4}([a-z0-9\-._~+/]{12,4096}+=*)(?![\w(])")
_BASIC = lazy(rb"\bbasic\s{1,4}([a-z0-9+/_-]{8,1024}+={0,2})")
_CURL = lazy(rb" -u[ =]?[\"']?[^\s:\"'$]{1,100}:([^\s\"'$]{3,200})")
_MAILGUN = lazy(rb"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}")
_MAILGUN_LENGTH = 50
_HASH = lazy(
    rb"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|argon2(?:id|i|d)\$[\w=$,+/.-]{40,200}|[156]\$[\w./=,]{1,40}\$[\w./]{22,90}|scrypt\$[\w=$,+/.-]{40,200})"
)


Run = tuple[int, int]
"""The span of a run."""
_HEX = b"0123456789abcdef-"
_MORE = rb"[89ABab][0-9A-Fa-f]"
HEX_CHAR = rb"(?:[2-7][0-9A-Fa-f]|0[9aAdD]|[CDcd][0-9A-Fa-f]%b|[Ee][0-9A-Fa-f](?:%b){2}|[Ff][0-4](?:%b){3})" % (
    (_MORE,) * 3
)
"""A UTF-8 character in hexadecimal digits, except for control characters."""
HEX_HEADS = frozenset(b"0234567cdefCDEF")
"""The characters that such text may begin with."""
HEX_TEXT = lazy(rb"(?:0x)?((?:%b){10,4096}+)(?![A-Za-z0-9])" % HEX_CHAR)
"""Text in hexadecimal digits. Random digits rarely encode ten such characters in a row."""


def long_runs(view: View) -> list[Run]:
    """Return the runs that may be a token: no plain words, digests or UUIDs."""
    runs, flat = view.runs, view.flat
    found: list[Run] = []
    start = runs.find(RUN)
    while start >= 0:
        end = runs.find(b" ", start)
        if end < 0:
            end = len(runs)
        if is_token_like(flat[start:end]):
            found.append((start, end))
        start = runs.find(RUN, end)
    return found


def is_token_like(piece: bytes) -> bool:
    """Return False for a run that is a word, a digest or a UUID."""
    if piece.islower() and piece.isalpha():
        return False
    if len(piece) > 36 or piece.lstrip(_HEX) or piece[:3] == b"fc-":
        return True
    return piece[0] in HEX_HEADS and HEX_TEXT.match(piece) is not None


def token_hits(view: View, runs: list[Run]) -> Iterator[Hit]:
    """Yield provider keys in the runs."""
    flat, done = view.flat, 0
    for start, end in runs:
        first = start
        if start and flat[start - 1] in JOINTS:
            first = before_joints(flat, view.runs, start)
        begin = None
        # Most runs have no literal, and this check takes a third of a search for `BEGIN`.
        if LITERAL_FINDER.find_matches_as_indexes(flat[first:end]):
            begin = BEGIN.search(flat, max(first, done), end)
        while begin:
            token = token_at(flat, begin.start(), begin[0])
            following = begin.start() + 1
            if token:
                yield token
                done = following = token.end
            begin = BEGIN.search(flat, following, end)
        if end - start == _MAILGUN_LENGTH and _MAILGUN.fullmatch(flat, start, end):
            yield Hit("mailgun-key", start, end, 1)
        if first < start or flat[end : end + 1] in (b".", b"~") or flat.find(b"-us", end - 5, end) > 0:
            yield from _loose(flat, first, end)


def _loose(flat: bytes, first: int, end: int) -> Iterator[Hit]:
    for provider in LOOSE:
        for at in places_of(flat, provider.literal, first, end + 2):
            token = provider.token(flat, at)
            if token:
                yield token


def secret_hits(view: View, found: list[Hit], literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield secrets that their context reveals: armoured keys, headers, password hashes, AWS secrets."""
    low = view.low
    if b"private" in literals and b"-----" in view.flat:
        yield from _armoured(view)
    if b"bearer" in literals:
        for match in _BEARER.finditer(low):
            token = view.flat[match.start(1) : match.end(1)]
            if not token.isalpha() and not token.isdigit():
                yield Hit("secret", *match.span(1), 3)
    if b"basic" in literals:
        for match in _BASIC.finditer(low):
            if _is_user_and_password(view.flat[match.start(1) : match.end(1)]):
                yield Hit("secret", *match.span(1), 3)
    if b"curl" in literals and b" -u" in low:
        for match in _CURL.finditer(view.flat):
            yield Hit("url-credentials", *match.span(1), 2)
    if b"$" in view.flat:
        for match in _HASH.finditer(view.flat):
            yield Hit("password-hash", *match.span(), 2)
    for hit in found:
        if hit.kind == "aws-key":
            for match in _SECRET_AWS.finditer(view.flat, max(0, hit.start - _NEAR_AWS), hit.end + _NEAR_AWS):
                if _is_mixed(match[0]) and len(set(match[0])) > 14:
                    yield Hit("aws-secret", *match.span(), 2)


def before_joints(flat: bytes, runs: bytes, start: int) -> int:
    """Return where the token with this run as a later part begins: `SG.x.y`, `123:AAx`."""
    for _ in range(6):
        if start <= 0 or flat[start - 1] not in JOINTS:
            break
        start = max(runs.rfind(b" ", max(0, start - 40), start - 1) + 1, start - 40)
    return max(0, start)


def _armoured(view: View) -> Iterator[Hit]:
    flat = view.flat
    kind = "private-key"
    if view.traits & Trait.SERVICE_ACCOUNT:
        kind = "gcp-service-account"
    at = 0
    while found := _PEM.search(flat, at):
        end = _PEM_END.search(flat, found.end(), found.end() + _PEM_LONGEST)
        body = _PEM_BODY.match(flat, found.end())
        last = end or body or found
        at = last.end()
        while at > found.end() and flat[at - 1 : at] in (b" ", b"\n", b"\\", b"\r", b"\t"):
            at -= 1
        if at > found.end():
            yield Hit(kind, found.start(), at, 0)


def _is_mixed(token: bytes) -> bool:
    """Return whether a token has letters of both cases, and another character."""
    return not token.isalpha() and token != token.lower() and token != token.upper()


def _is_user_and_password(token: bytes) -> bool:
    decoded = unbase64(token)
    return decoded is not None and b":" in decoded and decoded.isascii() and decoded.decode().isprintable()
