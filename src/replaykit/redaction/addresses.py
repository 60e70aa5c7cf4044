"""Find addresses of mailboxes and machines, and URLs with credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.model.text_lines import words_of
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.plausible_values import looks_random
from replaykit.redaction.text_view import View, places_of

_LOCAL = lazy(r"(?:[\w+](?:[\w.+'~!#$%*/-]{0,62}[\w+~!$*-])?|\"[^\"\\\s@<>]{1,30}(?: [^\"\\@<>]{1,30})?\")\Z")
_HOST = lazy(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,40})(?![\w-])", re.IGNORECASE)
_IP_HOST = lazy(r"\[(?:IPv6:)?[0-9a-fA-F.:]{7,45}\]")
_NOT_HOSTS = frozenset(
    words_of("png jpg jpeg gif svg webp ico bmp js mjs css json html htm xml txt yaml yml pdf lock toml whl gz")
)
_REMOTE_PATH = lazy(r":(?:[\w~.-]*/|[~\w-]+\.git)")
_VERSION = lazy(r"v?\d+\.\d+")
_SPELLED = lazy(
    r"([\w.+-]{1,64}) ?[\[({<] ?at ?[\])}>] ?((?:[\w-]{1,63} ?(?:\.|[\[({<] ?dot ?[\])}>]) ?){1,4}[a-z]{2,24})\b",
    re.IGNORECASE,
)

_V4 = lazy(rb"0(?<![aA0.]0)(?<!0-0)0{0,2}\.0{1,3}\.0{1,3}\.0{1,3}(?![0aA]|\.0|-[aA0])")
_V6 = lazy(rb"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}(?:[0-9a-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])")
_MACHINE = lazy(
    rb"\bip|addr|host|client|server|from|remote|forwarded|peer|source|src|dst|dest|connect|login|://|ping|dns|via|\bat$|\bto$"
)
_VERSIONED = lazy(
    rb"(?:\bv|ver(?:sion|s)?\.?|release|build|[=<>~^]=?|[a-z]/|[a-z]@|[a-z]-|upgrad\w*|updat\w*|firmware|package|rev)"
    rb"[\s:=\"']*(?:to |from |is )?$"
)


def email_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield e-mail addresses in any script, but not git remotes, packages with versions, or image sizes."""
    text = view.text
    for at in places_of(view.flat, b"@"):
        hit = _email(text, view.flat, at)
        if hit:
            yield hit
    for sign in (b"[at]", b"(at)"):
        at = view.low.find(sign) if sign in literals else -1
        while at >= 0:
            for found in _SPELLED.finditer(text, max(0, at - 66), at + 120):
                yield Hit("email", *found.span(), 5)
            at = view.low.find(sign, at + 120)


def _email(text: str, flat: bytes, at: int) -> Hit | None:
    host = _HOST.match(text, at + 1) or _IP_HOST.match(text, at + 1)
    if host is None or flat[at - 1 : at] == b"@":
        return None
    local = _LOCAL.search(_back(text, flat, at))
    if local is None:
        return None
    start = at - len(local[0])
    last = host[0].rpartition(".")[2].lower()
    if last in _NOT_HOSTS or _VERSION.match(host[0]) or _is_remote(local[0], text, host.end()):
        return None
    if flat[start - 1 : start] == b":" and b"://" in flat[max(0, start - 80) : start]:
        return None  # the password of a URL
    return Hit("email", start, host.end(), 5)


def _back(text: str, flat: bytes, at: int) -> str:
    """Return the text that may hold the local part. Placeholders end it, and so do blanks outside quotes."""
    first = max(0, at - 66)
    if text[at - 1 : at] != '"':
        first = max(first, flat.rfind(b" ", first, at) + 1, flat.rfind(b"<", first, at) + 1)
    return text[first:at]


def _is_remote(name: str, text: str, end: int) -> bool:
    return name == "git" or _REMOTE_PATH.match(text[end : end + 80]) is not None


def ip_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield public addresses of machines: no loopback, private or reserved ones, and no version numbers."""
    shape = view.shape
    if b".0" in shape and (b".0.0" in shape or b".00.0" in shape or b".000.0" in shape):
        for found in _V4.finditer(shape):
            start, end = found.span()
            if _is_public_v4(view.flat[start:end].decode()) and not _is_version(view, start, end):
                yield Hit("ip", start, end, 6)
    if b"::" in literals:
        yield from _v6(view, _SHORT)
    if view.flat.count(b":") > 6:
        yield from _v6(view, _EIGHT)


_SHORT = lazy(rb"::(?<![\w:]::)[0-9a-f]|::(?<=[0-9a-f]::)[0-9a-f]{0,4}[:0-9]")
_EIGHT = lazy(rb":[0-9a-f]{1,4}:[0-9a-f]{1,4}:[0-9a-f]{1,4}:[0-9a-f]{1,4}:[0-9a-f]{1,4}:[0-9a-f]{1,4}:")


def _v6(view: View, sign: re.Pattern[bytes]) -> Iterator[Hit]:
    done = 0
    for found in sign.finditer(view.low):
        if found.start() < done:
            continue
        for whole in _V6.finditer(view.low, max(done, found.start() - 40), found.end() + 45):
            done = max(done, whole.end())
            if _is_public_v6(whole[0].decode()):
                yield Hit("ip", *whole.span(), 6)


def _is_public_v4(text: str) -> bool:
    a, b, c, d = map(int, text.split("."))
    if max(a, b, c, d) > 255 or f"{a}.{b}.{c}.{d}" != text:  # addresses have no leading zeros
        return False
    if a in (0, 10, 127) or a >= 224 or (a == 192 and b == 168) or (a == 172 and 16 <= b < 32) or (a, b) == (169, 254):
        return False
    return not (a == 100 and 64 <= b < 128) and (b, c, d) != (0, 0, 0)


def _is_version(view: View, start: int, end: int) -> bool:
    before = view.low[max(0, start - 24) : start]
    if _VERSIONED.search(before):
        return b"://" not in before[-4:] and b"host" not in before and b"ip" not in before
    is_small = max(map(int, view.flat[start:end].split(b"."))) < 64
    return is_small and not _MACHINE.search(before) and view.flat[end : end + 1] not in (b":", b"/")


def _is_public_v6(text: str) -> bool:
    if len(text) < 6 or not any(map(str.isdigit, text)) or (text.count(":") != 7 and "::" not in text):
        return False
    from ipaddress import AddressValueError, IPv6Address  # noqa: PLC0415 (rarely reached)

    try:
        address = IPv6Address(text)
    except AddressValueError:
        return False
    groups = text.replace(":", " ").split()
    return len(groups) > 2 and not (address.is_loopback or address.is_unspecified or address.is_multicast)


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
_SIGNATURES = (b"sig=", b"signature=", b"security-token=")
_SIGNED = lazy(rb"[A-Za-z0-9%+/_\-]{20,2000}=*")


def url_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield passwords and tokens in URLs."""
    flat = view.flat
    if b"://" in literals:
        for at in places_of(flat, b"://"):
            hit = _login(view, at) or _webhook(flat, at)
            if hit:
                yield hit
    if b":thin:" in literals:
        for found in _ORACLE.finditer(view.low):
            yield Hit("connection-string", *found.span(1), 2)
    for name in _SIGNATURES:
        if name in literals and b"?" in flat:
            for at in places_of(view.low, name):
                signature = _SIGNED.match(flat, at + len(name))
                if signature:
                    yield Hit("secret", *signature.span(), 3)


_WEBHOOK = lazy(
    rb"(?:hooks\.slack\.com(?P<slack>/(?:services|workflows|triggers)/[\w/-]{20,160})"
    rb"|(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks(?P<discord>/\d{15,22}/[\w-]{50,90})"
    rb"|[\w-]+\.webhook\.office\.com(?P<teams>/webhookb2/[\w@/-]{40,300}))"
)


def _webhook(flat: bytes, at: int) -> Hit | None:
    """Return the path of a webhook, which is its secret."""
    found = b"ook" in flat[at : at + 60] and _WEBHOOK.match(flat, at + 3)
    if not found:
        return None
    return Hit(f"{found.lastgroup}-webhook", *found.span(found.lastgroup or 0), 1)


def _login(view: View, at: int) -> Hit | None:
    flat = view.flat
    if b"@" not in flat[at : at + 800]:
        return None
    scheme = _SCHEME.search(view.low, max(0, at - 30), at)
    kind, found = "url-credentials", None
    if scheme and scheme[0] not in _WEB:
        # In a database address, the last @ ends the password: nothing else has one, and people forget to encode theirs.
        kind, found = "connection-string", _LAST_LOGIN.match(flat, at + 3)
    found = found or _LOGIN.match(flat, at + 3)
    if found and not _STAND_IN.fullmatch(found[2]):
        return Hit(kind, *found.span(2), 2)
    alone = _TOKEN_LOGIN.match(flat, at + 3)
    if alone and not found and looks_random(alone[1].decode()) and not alone[1].isalpha():
        return Hit("url-credentials", *alone.span(1), 2)
    return None
