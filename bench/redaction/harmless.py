"""Values that look like secrets or personal data and are neither: the hard negatives that stand in places.

Numbers that could pass for cards or IMEIs fail Luhn's check here, so that there is no doubt about them.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable

from .checks import ean_digit, iban, luhn_digit
from .forms import ALNUM, DIGITS, LOWER_HEX, Form, digits, encoded, pick, word
from .marked import Marked, plain

Text = Callable[[random.Random], str]

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_UPPER = string.ascii_uppercase


def uuid(rng: random.Random) -> str:
    text = pick(rng, LOWER_HEX, 32)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{rng.choice('89ab')}{text[17:20]}-{text[20:]}"


def no_card(rng: random.Random, start: str, size: int) -> str:
    """A number that begins like a card's, with a wrong check digit."""
    number = start + pick(rng, DIGITS, size - 1 - len(start))
    return number + str((int(luhn_digit(number)) + rng.randint(1, 9)) % 10)


def no_iban(rng: random.Random) -> str:
    """A number that begins like a German account's, with wrong check digits."""
    right = iban("DE", digits(rng, 18))
    return f"DE{(int(right[2:4]) + rng.randint(1, 9)) % 97:02}{right[4:]}"


def _grouped(text: str, size: int, separator: str) -> str:
    return separator.join(text[at : at + size] for at in range(0, len(text), size))


def _ean(rng: random.Random, start: str) -> str:
    while True:
        number = start + pick(rng, DIGITS, 12 - len(start))
        number += ean_digit(number)
        if luhn_digit(number[:-1]) != number[-1]:
            return number


def _coordinates(rng: random.Random) -> str:
    return f"{rng.uniform(-80, 80):.6f}, {rng.uniform(-170, 170):.6f}"


def _timestamp(rng: random.Random) -> str:
    day = f"20{rng.randint(19, 26)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return f"{day}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:07.{digits(rng, 6)}+00:00"


def _version(rng: random.Random) -> str:
    return f"{rng.randint(1, 30)}.{rng.randint(0, 40)}.{rng.randint(0, 60)}"


def _image(rng: random.Random) -> str:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10\x08\x06\0\0\0" + rng.randbytes(220)
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _mac(rng: random.Random) -> str:
    return _grouped(pick(rng, LOWER_HEX, 12), 2, ":")


_VALUES: dict[str, tuple[Text, tuple[str, ...]]] = {
    "git-hash": (lambda rng: pick(rng, LOWER_HEX, 40), ("commit", "sha", "revision", "head", "GIT_COMMIT")),
    "git-short": (lambda rng: pick(rng, LOWER_HEX, rng.randint(7, 10)), ("commit", "rev", "build")),
    "sha256": (lambda rng: pick(rng, LOWER_HEX, 64), ("sha256", "digest", "checksum", "content_hash")),
    "image-digest": (lambda rng: f"sha256:{pick(rng, LOWER_HEX, 64)}", ("image", "digest")),
    "md5": (lambda rng: pick(rng, LOWER_HEX, 32), ("md5", "checksum", "etag", "fingerprint")),
    "uuid": (uuid, ("id", "request_id", "requestId", "session", "run_id", "value")),
    "uuid-capitals": (lambda rng: uuid(rng).upper(), ("id", "device", "value")),
    "ulid": (lambda rng: f"01{pick(rng, _CROCKFORD, 24)}", ("id", "event_id", "value")),
    "nanoid": (lambda rng: pick(rng, ALNUM, 21), ("id", "short_id", "slug")),
    "prefixed-id": (
        lambda rng: (
            f"{rng.choice(('cus', 'chatcmpl', 'msg', 'run', 'call', 'evt', 'resp', 'file'))}_{pick(rng, ALNUM, 24)}"
        ),
        ("id", "object", "value", "tool_call_id"),
    ),
    "order-number": (lambda rng: f"ORD-{digits(rng, 9)}", ("order", "order_id", "orderNumber", "value")),
    "order-long": (lambda rng: no_card(rng, digits(rng, 2), 16), ("order_id", "order", "batch", "sequence")),
    "order-dashed": (lambda rng: f"{digits(rng, 3)}-{digits(rng, 7)}-{digits(rng, 7)}", ("order", "order_id")),
    "invoice": (lambda rng: f"INV-2026-{digits(rng, 6)}", ("invoice", "invoice_no", "value")),
    "invoice-digits": (lambda rng: f"{digits(rng, 10)}", ("invoice_no", "invoice", "order_id", "count")),
    "card-like": (lambda rng: no_card(rng, rng.choice(("4", "51", "37", "6011")), 16), ("order_id", "serial", "sku")),
    "card-like-spaced": (lambda rng: _grouped(no_card(rng, "4", 16), 4, " "), ("serial", "batch", "reference")),
    "card-like-dashed": (lambda rng: _grouped(no_card(rng, "5", 16), 4, "-"), ("serial", "license_code", "batch")),
    "iban-like": (no_iban, ("reference", "sku", "article")),
    "isbn": (lambda rng: _ean(rng, "978"), ("isbn", "book", "value")),
    "isbn-dashed": (
        lambda rng: f"978-{rng.randint(0, 9)}-{digits(rng, 3)}-{digits(rng, 5)}-{rng.randint(0, 9)}",
        ("isbn",),
    ),
    "ean": (lambda rng: _ean(rng, rng.choice(("40", "54", "76"))), ("ean", "barcode", "gtin")),
    "tracking-ups": (
        lambda rng: f"1Z{pick(rng, _UPPER + DIGITS, 6)}{digits(rng, 10)}",
        ("tracking", "parcel", "value"),
    ),
    "tracking-post": (lambda rng: f"{pick(rng, 'RLCE', 2)}{digits(rng, 9)}DE", ("tracking", "parcel", "value")),
    "unix-time": (lambda rng: f"17{digits(rng, 8)}", ("timestamp", "created", "exp", "updated_at")),
    "unix-ms": (lambda rng: f"17{digits(rng, 11)}", ("timestamp", "created", "t")),
    "unix-ns": (lambda rng: f"17{digits(rng, 17)}", ("timestamp", "ts_ns")),
    "timestamp": (_timestamp, ("at", "created", "updated_at", "value")),
    "date-range": (lambda rng: f"20{rng.randint(10, 25)}-20{rng.randint(26, 39)}", ("years", "period")),
    "compact-time": (
        lambda rng: f"2026{rng.randint(1, 12):02}{rng.randint(1, 28):02}{digits(rng, 6)}",
        ("build", "stamp"),
    ),
    "version": (_version, ("version", "v", "release")),
    "version-four": (
        lambda rng: f"{_version(rng)}.{rng.randint(0, 99)}",
        ("version", "file_version", "AssemblyVersion"),
    ),
    "version-browser": (
        lambda rng: f"Chrome/{rng.randint(100, 140)}.0.{rng.randint(4000, 7000)}.{rng.randint(10, 200)}",
        ("agent", "value"),
    ),
    "version-tag": (
        lambda rng: f"v{_version(rng)}-rc.{rng.randint(1, 9)}+{pick(rng, LOWER_HEX, 7)}",
        ("tag", "version"),
    ),
    "float": (lambda rng: f"{rng.random():.17f}", ("score", "loss", "weight", "value")),
    "float-large": (lambda rng: f"{rng.uniform(1e5, 1e9):.6f}", ("total", "value", "mean")),
    "embedding": (lambda rng: ", ".join(f"{rng.uniform(-1, 1):.8f}" for _ in range(12)), ("embedding", "vector")),
    "coordinates": (_coordinates, ("position", "latlng", "center")),
    "money": (lambda rng: f"{rng.randint(1, 999)},{digits(rng, 3)}.{digits(rng, 2)} USD", ("amount", "total")),
    "colour": (lambda rng: f"#{pick(rng, LOWER_HEX, 6)}", ("color", "background", "value")),
    "colour-alpha": (lambda rng: f"#{pick(rng, '0123456789ABCDEF', 8)}", ("color", "border")),
    "mac": (_mac, ("mac", "ether", "hwaddr")),
    "image": (_image, ("image_url", "src", "url")),
    "integrity": (lambda rng: f"sha512-{encoded(rng, 64)}", ("integrity",)),
    "wheel-hash": (lambda rng: f"--hash=sha256:{pick(rng, LOWER_HEX, 64)}", ("requirement", "line")),
    "etag": (lambda rng: f'W/"{pick(rng, LOWER_HEX, 5)}-{pick(rng, ALNUM, 27)}"', ("ETag", "etag", "If-None-Match")),
    "traceparent": (lambda rng: f"00-{pick(rng, LOWER_HEX, 32)}-{pick(rng, LOWER_HEX, 16)}-01", ("traceparent",)),
    "trace-id": (lambda rng: pick(rng, LOWER_HEX, 32), ("trace_id", "traceId", "dd.trace_id", "x-trace-id")),
    "request-id": (lambda rng: f"req_{pick(rng, ALNUM, 24)}", ("request_id", "x-request-id", "requestId")),
    "arn": (
        lambda rng: f"arn:aws:lambda:eu-west-1:{digits(rng, 12)}:function:{word(rng)}",
        ("arn", "resource", "value"),
    ),
    "scoped-package": (lambda rng: f"@{word(rng)}/{word(rng)}@{_version(rng)}", ("package", "dependency", "value")),
    "git-remote": (lambda rng: f"git@github.com:{word(rng)}/{word(rng)}.git", ("remote", "origin", "repository")),
    "port": (lambda rng: f"{word(rng)}.internal:{rng.randint(1024, 9999)}", ("host", "endpoint", "addr")),
    "path": (lambda rng: f"/usr/lib/{word(rng)}/{_version(rng)}/{word(rng)}.so.{rng.randint(1, 9)}", ("path", "file")),
    "part-number": (lambda rng: f"000-{digits(rng, 2)}-{digits(rng, 4)}", ("part", "sku")),
    "range": (lambda rng: f"{digits(rng, 6)}-{digits(rng, 6)}/{digits(rng, 7)}", ("content-range", "bytes")),
    "token-count": (lambda rng: str(rng.randint(100, 128_000)), ("max_tokens", "prompt_tokens", "tokens", "maxTokens")),
    "tokenizer": (lambda rng: f"{word(rng)}/{word(rng)}-{rng.randint(1, 70)}b-instruct", ("tokenizer", "model")),
    "cache-key": (
        lambda rng: f"{word(rng)}:{word(rng)}:{rng.randint(1, 9999)}",
        ("cache_key", "partition_key", "sort_key"),
    ),
    "object-key": (lambda rng: f"uploads/2026/03/{word(rng)}-{word(rng)}.pdf", ("key", "Key", "object_key", "s3_key")),
    "finish-reason": (lambda rng: rng.choice(("stop", "length", "tool_calls")), ("stop_token", "finish_reason")),
}


def _value(text: Text) -> Callable[[random.Random], Marked]:
    return lambda rng: plain(text(rng))


# Without its name, a bare number or run of letters may be anything: those stand beside a name only.
_ANYTHING = {"md5", "nanoid", "invoice-digits", "version-four", "token-count", "trace-id", "order-dashed"}

VALUES = [
    Form(f"no-{name}", _value(text), names, name in _ANYTHING or len(names) == 1, places=18)
    for name, (text, names) in _VALUES.items()
]
