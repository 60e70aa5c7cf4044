"""Made-up secrets of the right form, from a seed: nothing here was ever handed out."""

from __future__ import annotations

import base64
import json
import random
import string
import zlib

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def drawn(count: int, alphabet: str = ALPHABET, seed: int = 7) -> str:
    """`count` characters, the same every time; the first three are of each class when the alphabet has them."""
    chance = random.Random(f"{seed}/{count}/{alphabet}")
    return "".join(chance.choice(alphabet) for _ in range(count))


def hexed(count: int, seed: int = 7) -> str:
    return drawn(count, "0123456789abcdef", seed)


def with_crc(prefix: str, seed: int = 7) -> str:
    """A token with the checksum that GitHub and npm give theirs."""
    body = drawn(30, seed=seed)
    value, check = zlib.crc32(body.encode()), ""
    for _ in range(6):
        value, rest = divmod(value, 62)
        check = ALPHABET[rest] + check
    return prefix + body + check


def jwt() -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": "42", "exp": 1700000000}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, drawn(43, ALPHABET + "-_")])


def pem(kind: str = "RSA ", lines: int = 6) -> str:
    body = "\n".join(drawn(64, ALPHABET + "+/", seed=line) for line in range(lines))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"
