"""Placeholders: what stands where a value was, `<kind:8 hex digits>`.

The digits are the beginning of an HMAC of the value under the project's key: the same value is the same placeholder
wherever it stands, and nobody without the key can try values out.
"""

from __future__ import annotations

import re

from replaykit.redaction.lazy import lazy

_FORM = r"<[a-z][a-z0-9-]{1,30}:[0-9a-f*]{8}>"
_QUOTED = r"%3C[a-z][a-z0-9-]{1,30}(?:%3A|:)[0-9a-f*]{8}%3E"

PATTERN = lazy(f"{_FORM}|{_QUOTED}")
"""A placeholder, also percent-encoded."""
IN_BYTES = (lazy(_FORM.encode()), lazy(_QUOTED.encode()))
"""The two apart: each begins with a literal, which is found at once."""
_BYTES = lazy(f"{_FORM}|{_QUOTED}".encode())

_LOWER = frozenset({"email"})
_COMPACT = frozenset({"phone", "card", "iban", "ssn", "imei"})
_SEPARATORS = lazy(r"[^0-9A-Za-z+]|(?<!^)\+")


def placeholder(key: bytes, kind: str, value: str) -> str:
    """What stands for the value; values that differ in spelling alone have the same one."""
    from hashlib import sha256  # noqa: PLC0415 (slow to import, and most texts need no placeholder)
    from hmac import digest  # noqa: PLC0415

    mac = digest(key, f"{kind}\0{normal(kind, value)}".encode("utf-8", "surrogatepass"), sha256)
    return f"<{kind}:{mac[:4].hex()}>"


def normal(kind: str, value: str) -> str:
    """The value without what people spell differently: case of an e-mail address, separators of a number."""
    if kind in _LOWER:
        return value.lower()
    if kind in _COMPACT:
        return _SEPARATORS.sub("", value).upper()
    return value


def is_placeholder(text: str) -> bool:
    """True when the text is a placeholder and nothing else."""
    return PATTERN.fullmatch(text) is not None


def blurred(raw: bytes) -> bytes:
    """The bytes with the digits of every placeholder starred out: equal where only the key was another."""
    if b":" not in raw or (b"<" not in raw and b"%3C" not in raw):
        return raw
    return _BYTES.sub(_blur, raw)


def _blur(found: re.Match[bytes]) -> bytes:
    tail = 1 if found[0].endswith(b">") else 3
    whole = found[0]
    return whole[: -tail - 8] + b"*" * 8 + whole[-tail:]
