"""Addresses: of mailboxes and of machines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View
from replaykit.redaction.wordlist import words_of

_LOCAL = lazy(r"(?:[\w+](?:[\w.+'~!#$%*/-]{0,62}[\w+~!$*-])?|\"[^\"\\\s@<>]{1,30}(?: [^\"\\@<>]{1,30})?\")\Z")
_HOST = lazy(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,40})(?![\w-])", re.IGNORECASE)
_IP_HOST = lazy(r"\[(?:IPv6:)?[0-9a-fA-F.:]{7,45}\]")
_NOT_HOSTS = frozenset(
    words_of("png jpg jpeg gif svg webp ico bmp js mjs css json html htm xml txt yaml yml pdf lock toml whl gz")
)
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
    """E-mail addresses, in any script. Remotes of git, packages with versions and picture sizes are none."""
    text = view.text
    at = view.flat.find(b"@")
    while at >= 0:
        hit = _email(text, view.flat, at)
        if hit:
            yield hit
        at = view.flat.find(b"@", at + 1)
    for sign in (b"[at]", b"(at)"):
        at = view.low.find(sign) if sign in literals else -1
        while at >= 0:
            yield from (Hit("email", *found.span(), 5) for found in _SPELLED.finditer(text, max(0, at - 66), at + 120))
            at = view.low.find(sign, at + 120)


def _email(text: str, flat: bytes, at: int) -> Hit | None:
    host = _HOST.match(text, at + 1) or _IP_HOST.match(text, at + 1)
    if host is None or flat[at - 1 : at] == b"@":
        return None
    window = _back(text, flat, at)
    local = _LOCAL.search(window)
    if local is None:
        return None
    start = at - len(local[0])
    name, last = local[0], host[0].rpartition(".")[2].lower()
    if last in _NOT_HOSTS or _VERSION.match(host[0]) or _is_remote(name, text, host.end()):
        return None
    if flat[start - 1 : start] == b":" and b"://" in flat[max(0, start - 80) : start]:
        return None  # the password of a URL
    return Hit("email", start, host.end(), 5)


def _back(text: str, flat: bytes, at: int) -> str:
    """What may be the local part: blanked escapes (`\\n`) and placeholders end it, as blanks do outside of quotes."""
    first = max(0, at - 66)
    window = text[first:at]
    if window.endswith('"'):
        return window
    blank = max(flat.rfind(b" ", first, at), flat.rfind(b"<", first, at))
    return text[blank + 1 : at] if blank >= 0 else window


def _is_remote(name: str, text: str, end: int) -> bool:
    if name == "git":
        return True
    return text[end : end + 1] == ":" and re.match(r"[\w~.-]*/|[~\w-]+\.git", text[end + 1 : end + 80]) is not None


def ip_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Addresses of machines that other machines can reach: not loopback, private or reserved ones, not versions."""
    shape = view.shape
    dotted = b".0" in shape and (b".0.0" in shape or b".00.0" in shape or b".000.0" in shape)
    for found in _V4.finditer(shape) if dotted else ():
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
    parts = text.split(".")
    if any(int(part) > 255 or (len(part) > 1 and part[0] == "0") for part in parts):
        return False
    a, b, c, d = map(int, parts)
    private = (
        a in (0, 10, 127) or a >= 224 or (a == 192 and b == 168) or (a == 172 and 16 <= b < 32) or (a, b) == (169, 254)
    )
    return not private and not (a == 100 and 64 <= b < 128) and (b, c, d) != (0, 0, 0)


def _is_version(view: View, start: int, end: int) -> bool:
    before = view.low[max(0, start - 24) : start]
    if _VERSIONED.search(before):
        return b"://" not in before[-4:] and b"host" not in before and b"ip" not in before
    small = all(int(part) < 64 for part in view.flat[start:end].split(b"."))
    return small and not _MACHINE.search(before) and view.flat[end : end + 1] not in (b":", b"/")


def _is_public_v6(text: str) -> bool:
    if len(text) < 6 or not any(char.isdigit() for char in text) or (text.count(":") != 7 and "::" not in text):
        return False
    from ipaddress import AddressValueError, IPv6Address  # noqa: PLC0415 (few texts come here)

    try:
        address = IPv6Address(text)
    except AddressValueError:
        return False
    groups = [group for group in text.split(":") if group]
    return len(groups) > 2 and not (address.is_loopback or address.is_unspecified or address.is_multicast)
