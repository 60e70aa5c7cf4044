"""Composed values: a secret inside of a secret, in a carrier, in an encoding. Half of the templates are held out.

A value is gone when it can be read neither in what was redacted nor in what that stands for once it is decoded.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from . import personal, tokens
from .corpus import HELD_OUT, TUNING
from .forms import Form

SEED = "composed values 1"
Redact = Callable[[bytes], bytes]
Code = Callable[[str], str]

CARRIERS = {
    "cookie": "GET / HTTP/1.1\r\nHost: x.example\r\nCookie: theme=dark; sessionid={}\r\nAccept: */*\r\n\r\n",
    "set-cookie": "Set-Cookie: sid={}; Path=/; HttpOnly; SameSite=Lax",
    "digest": 'Authorization: Digest username="bob", realm="r", nonce="{}", qop=auth',
    "bearer": "POST /v1/x HTTP/1.1\r\nAuthorization: Bearer {}\r\n\r\n",
    "shell": 'export SECRET="{}"\n./start --fast\n',
    "python": 'db.connect(host="db", password="{}", retries=2)\n',
    "dotenv": "MODE=fast\nDB_PASSWORD={}\nWORKERS=4\n",
    "json": '{{"id": 4711, "client_secret": "{}", "ok": true}}',
    "yaml": "service:\n  name: web\n  password: {}\n  replicas: 2\n",
    "xml": "<job><mode>fast</mode><password>{}</password></job>",
    "query": "GET https://x.example/cb?page=2&access_token={}&n=3 200",
    "database": "postgres://app:{}@db.internal:5432/app",
    "header": "X-Api-Key: {}\r\n",
    "sql": "INSERT INTO users (id, password) VALUES (12, '{}');",
    "csv": "id,password,mode\n12,{},fast\n",
    "option": "$ tool login --password '{}' --retries 3",
}


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _json_string(text: str) -> str:
    return json.dumps(text)[1:-1]


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


ENCODINGS: dict[str, tuple[str, Code, Code]] = {
    "plain": ("{}", str, str),
    "json": ('{{"body": "{}"}}', _json_string, _unescaped),
    "escapes": ('{{"body": "{}"}}', _escaped, _unescaped),
    "percent": ("to=%7B{}", lambda text: quote(text, safe=""), unquote),
    "form": ("a=1&body={}&n=3", quote_plus, unquote_plus),
    "base64": ("blob: {} end", lambda text: base64.b64encode(text.encode()).decode(), lambda text: _from_base64(text)),
    "base64url": (
        '{{"blob":"{}"}}',
        lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
        lambda text: _from_base64(text),
    ),
    "hex": ("blob {} end", lambda text: text.encode().hex(), lambda text: bytes.fromhex(text).decode()),
    "gzip": ('{{"blob":"{}"}}', _packed, lambda text: gzip.decompress(base64.b64decode(text)).decode()),
}
"""By name: what stands around the encoded text, how it is encoded, how it is read."""


def _from_base64(text: str) -> str:
    return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)).decode()


@dataclass(frozen=True)
class Composed:
    """One text and the values in it that must be gone."""

    text: str
    secrets: tuple[str, ...]
    encoding: str
    template: str
    half: str

    def left_by(self, redact: Redact) -> list[str]:
        """The values that can still be read."""
        after = redact(self.text.encode()).decode()
        seen = [after, *self._decoded(after)]
        return [secret for secret in self.secrets if any(secret in text for text in seen)]

    def _decoded(self, after: str) -> Iterator[str]:
        frame, _, decode = ENCODINGS[self.encoding]
        before, behind = frame.format("\0").split("\0")
        if after.startswith(before) and after.endswith(behind):
            try:
                yield decode(after[len(before) : len(after) - len(behind)])
            except (ValueError, OSError, EOFError):
                return  # it is a placeholder as a whole


def composed(half: str) -> list[Composed]:
    """All samples of a half, the same on every machine."""
    return [sample for sample in _all() if sample.half == half]


def _all() -> Iterator[Composed]:
    forms = [form for form in (*tokens.FORMS, *personal.FORMS) if not (form.whole or form.multiline or form.needs_name)]
    for carrier, encoding in ((carrier, encoding) for carrier in CARRIERS for encoding in ENCODINGS):
        for form in sorted(forms, key=lambda form: _number(carrier, encoding, form.id))[:_FORMS_EACH]:
            yield _sample(form, carrier, encoding)


_FORMS_EACH = 12


def _sample(form: Form, carrier: str, encoding: str) -> Composed:
    template = f"{form.id}/{carrier}/{encoding}"
    rng = random.Random(f"{SEED}|{template}")
    inner = _inner(form, rng)
    head, tail = _drawn(rng), _drawn(rng)
    joint = rng.choice("-._~")
    frame, encode, _ = ENCODINGS[encoding]
    text = frame.format(encode(CARRIERS[carrier].format(joint.join((head, inner, tail)))))
    half = HELD_OUT if _number(template) % 2 else TUNING
    return Composed(text, (head, inner, tail), encoding, template, half)


def _inner(form: Form, rng: random.Random) -> str:
    """A value of the form, without what would end the carrier's."""
    marked = form.make(rng)
    return "".join(char for char in marked.text if char not in " \t\r\n\"'`<>,;&|(){}[]\\@/?#:%")


def _drawn(rng: random.Random) -> str:
    """Twelve characters, digits among them, as half of a password."""
    while True:
        text = "".join(rng.choices(string.ascii_letters + string.digits, k=12))
        if sum(char.isdigit() for char in text) > 1:
            return text


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("|".join((SEED, *parts)).encode()).digest()[:8], "big")
