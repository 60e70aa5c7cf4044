"""Cleaning: remove credentials from exchanges, in headers, in the URL, and in known places of bodies.

Matching hides the same values, so that another API key finds the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from replaykit.model.values import MAX_DEPTH, Json

Headers = tuple[tuple[str, str], ...]

SEEN = "x-replaykit-seen"
"""Marks a request that was recorded or served in its own process; the proxy removes it."""
HIDDEN = "hidden"

_SECRET_HEADER = re.compile(
    r"(?:proxy-)?authorization|cookie2?|.*(?:secret|credential|password).*"
    r"|.*(?:api|access|auth|subscription|security|session|csrf|xsrf|refresh|bearer)[-_]?(?:key|token)(?:[-_]?id)?",
    re.IGNORECASE,
)
_SECRET_PARAMETER = re.compile(
    r"(?!.*(?:page|next|continuation|sync)[-_]?token$)"  # the cursor of a list is no secret
    r"(?:.*(?:key|token|secret|signature|password|credential)|sig|auth|x-amz-.*|x-goog-.*)",
    re.IGNORECASE,
)
_SECRET_MEMBER = re.compile(
    r"(?:x[-_])?(?:password|passwd|passphrase|(?:client|app)[-_]?secret|secret[-_]?(?:access[-_]?)?key|private[-_]?key"
    r"|api[-_]?key|(?:access|refresh|session|auth|bearer|security)[-_]?token|authorization)",
    re.IGNORECASE,
)
_HINTS = (b"passw", b"passph", b"secret", b"private", b"apikey", b"api_key", b"api-key", b'token"', b"authorization")
_HINTS_IN_ANSWERS = (b'token"', b"secret", b"token>")
_ANSWERED_SECRET = re.compile(
    rb'(?i)(?:"(?:access|refresh|session|auth)_?token"\s*:\s*"|"(?:client_?secret|secret_?access_?key)"\s*:\s*"'
    rb"|<(?:SecretAccessKey|SessionToken)>)([^\"<\\]+)"
)
_SEARCHED_BYTES = 1024 * 1024


def clean_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return response headers with secrets hidden; of a cookie, name and attributes stay."""
    return tuple([(name, _clean_value(name, value)) for name, value in headers if name.lower() != SEEN])


def first_header(headers: Headers, name: str) -> str:
    """Return the first value of a header, given its name in lower case; empty if there is none."""
    for key, value in headers:  # a loop, not next(): this runs for every request
        if key.lower() == name:
            return value
    return ""


def header_text(value: Any) -> str:
    """Return the name or value of a header as text: each byte is one character, so that none is lost."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


def text_pairs(headers: Iterable[tuple[Any, Any]]) -> Headers:
    """Return headers as pairs of texts."""
    return tuple([(header_text(name), header_text(value)) for name, value in headers])


class CleanUrl(Struct, frozen=True):
    """A URL without user, password, fragment and secret values."""

    place: str
    """Host and port, without a default port."""
    path: str
    query: tuple[tuple[str, str], ...]
    text: str


@lru_cache(maxsize=256)  # an agent uses few URLs, and parsing one takes long
def taken_apart(url: str) -> CleanUrl:
    """Return the URL without secrets, and its parts."""
    parts = urlsplit(url)
    usual = {"http": ":80", "https": ":443"}.get(parts.scheme, ":")
    place = parts.netloc.rpartition("@")[2].lower().removesuffix(usual)
    query = tuple(clean_query(parts.query)) if parts.query else ()
    text = urlunsplit((parts.scheme, place, parts.path, urlencode(query), ""))
    return CleanUrl(place, parts.path or "/", query, text)


def clean_url(url: str) -> str:
    """Return the URL without secrets."""
    return taken_apart(url).text


def clean_query(query: str) -> list[tuple[str, str]]:
    """Return the parameters of a query or form, with secret values hidden."""
    pairs = parse_qsl(query, keep_blank_values=True)
    return [(name, HIDDEN if _SECRET_PARAMETER.fullmatch(name) else value) for name, value in pairs]


def clean_json(value: Json, text: bytes) -> Json:
    """Return a body that was parsed from this text, with the values of secret members hidden."""
    if not _hints(text, _HINTS):
        return value
    return _without_secrets(value, MAX_DEPTH)


def clean_chunks(chunks: list[bytes]) -> list[bytes]:
    """Return the chunks of an answer with its tokens and keys masked; every length stays the same."""
    if sum(map(len, chunks)) > _SEARCHED_BYTES:
        return chunks
    whole = b"".join(chunks)
    if not _hints(whole, _HINTS_IN_ANSWERS):
        return chunks
    masked = _ANSWERED_SECRET.sub(lambda found: found[0][: -len(found[1])] + b"x" * len(found[1]), whole)
    cuts = [0]
    for chunk in chunks:
        cuts.append(cuts[-1] + len(chunk))
    return [masked[start:end] for start, end in pairwise(cuts)]


def _hints(text: bytes, words: tuple[bytes, ...]) -> bool:
    """True if the text may contain a secret. Nearly none does, and a regular expression takes far longer to tell."""
    lowered = text.lower()
    for word in words:  # a loop, not any(): this runs for every request
        if lowered.find(word) >= 0:  # `in` would first try the bytes as an integer
            return True
    return False


def _clean_value(name: str, value: str) -> str:
    if name.lower() in ("set-cookie", "set-cookie2"):
        cookie, semicolon, attributes = value.partition(";")
        if not attributes:
            semicolon = ""
        return f"{cookie.partition('=')[0]}={HIDDEN}{semicolon}{attributes}"
    if _is_secret(name):
        return HIDDEN
    return value


@lru_cache(maxsize=1024)  # every request has the same few headers; matching one takes 3 µs
def _is_secret(header: str) -> bool:
    return _SECRET_HEADER.fullmatch(header) is not None


def _without_secrets(value: Json, levels: int) -> Json:
    if levels == 0:
        return None  # nothing below this is stored
    if type(value) is list:
        return [_without_secrets(item, levels - 1) for item in value]
    if type(value) is not dict:
        return value
    return {
        name: HIDDEN if type(item) is str and _SECRET_MEMBER.fullmatch(name) else _without_secrets(item, levels - 1)
        for name, item in value.items()
    }
