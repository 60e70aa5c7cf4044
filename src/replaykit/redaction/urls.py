"""URLs: credentials in them, and the connection strings of databases."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.plausible_values import looks_random
from replaykit.redaction.text_view import View

_SCHEME = lazy(rb"[a-z][a-z0-9+.-]{0,30}\Z")
_LOGIN = lazy(
    rb"([^\s:/?#@\"'<>`]{0,200}+):((?:[^\s\"'<>`]|<{8,}+){1,512}?)@(?=[\w.\-\[%{]{1,253}\]?(?:[:/?#,\s\"'`;)\]}\\&<]|\Z))"
)
_LAST_LOGIN = lazy(
    rb"([^\s:/?#@\"'<>`]{0,200}+):((?:[^\s\"'<>`?]|<{8,}+){1,512})@(?=[\w.\-\[%{]{1,253}\]?(?:[:/?#,\s\"'`;)\]}\\&<]|\Z))"
)
_TOKEN_LOGIN = lazy(rb"([\w.~%-]{12,400})@(?=[\w.-]{1,253}(?:[:/?#\s\"']|\Z))")
_ORACLE = lazy(rb"jdbc:oracle:thin:[\w.$-]{1,60}/([^\s@\"']{1,128})@")
_WEB = frozenset(
    b"http https ftp ftps sftp ssh git svn ws wss git+https git+ssh socks5 socks5h socks4 smtp smtps imap imaps ldap "
    b"ldaps proxy webdav".split()
)
_STAND_IN = lazy(
    rb"\$\{?\w.*|\{+\w*\}*|<(?!<).*|<+|%\(\w+\)s|[*x.?]+|pass(?:word|wd)?|pwd|secret|token|your.*|\[.*|PASS(?:WORD)?|user|xxx+|\.\.\.|<+"
)
_SIGNED = lazy(rb"[A-Za-z0-9%+/_\-]{20,2000}=*")


def url_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Passwords and tokens in URLs."""
    flat = view.flat
    at = flat.find(b"://") if b"://" in literals else -1
    while at >= 0:
        hit = _login(view, at) or (_webhook(flat, at) if b"ook" in flat[at : at + 60] else None)
        if hit:
            yield hit
        at = flat.find(b"://", at + 3)
    if b":thin:" in literals:
        yield from (Hit("connection-string", *found.span(1), 2) for found in _ORACLE.finditer(view.low))
    for name in (b"sig=", b"signature=", b"security-token="):
        at = view.low.find(name) if name in literals and b"?" in flat else -1
        while at >= 0:
            found = _SIGNED.match(flat, at + len(name))
            if found:
                yield Hit("secret", *found.span(), 3)
            at = view.low.find(name, at + 1)


_WEBHOOK = lazy(
    rb"(?:hooks\.slack\.com(?P<slack>/(?:services|workflows|triggers)/[\w/-]{20,160})"
    rb"|(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks(?P<discord>/\d{15,22}/[\w-]{50,90})"
    rb"|[\w-]+\.webhook\.office\.com(?P<teams>/webhookb2/[\w@/-]{40,300}))"
)


def _webhook(flat: bytes, at: int) -> Hit | None:
    """The path of a webhook is its secret."""
    found = _WEBHOOK.match(flat, at + 3)
    return Hit(f"{found.lastgroup}-webhook", *found.span(found.lastgroup or 0), 1) if found else None


def _login(view: View, at: int) -> Hit | None:
    flat = view.flat
    if b"@" not in flat[at : at + 800]:
        return None
    scheme = _SCHEME.search(view.low, max(0, at - 30), at)
    name = scheme[0].rpartition(b":")[2] if scheme else b""
    kind = "url-credentials" if name in _WEB or not name else "connection-string"
    # In the address of a database the last @ ends the password: it has no other, and people forget to encode one.
    found = (_LOGIN if kind == "url-credentials" else _LAST_LOGIN).match(flat, at + 3) or _LOGIN.match(flat, at + 3)
    if found and not _STAND_IN.fullmatch(found[2]):
        return Hit(kind, *found.span(2), 2)
    alone = _TOKEN_LOGIN.match(flat, at + 3)
    if alone and not found and looks_random(alone[1].decode()) and not alone[1].isalpha():
        return Hit("url-credentials", *alone.span(1), 2)
    return None
