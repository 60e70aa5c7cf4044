"""Hard negatives: what looks like a secret or a person and is none. Five hundred texts, the same on every machine."""

from __future__ import annotations

import base64
import gzip
import random
import string
import uuid
from collections.abc import Callable
from urllib.parse import urlencode

from .forms import LOWER_HEX, pick, word

COUNT = 500
SEED = "hard negatives 1"
Make = Callable[[random.Random], str]
_BASE62 = string.ascii_letters + string.digits
_CAPITALS = string.ascii_uppercase
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PROSE = (
    "Der Zug um {n}:{m} fiel aus, die {w} kostete {k} Euro und kam am {d}.{o}.2026 an.",
    "Le rapport de {w} compte {k} pages, dont {n} sur les ventes de 2025.",
    "El pedido {w} tardó {n} días; faltan {k} unidades en el almacén {m}.",
    "Zamówienie {w} ma {k} pozycji, nie {n}, i czeka od {d} dni.",
    "Заказ {w} содержит {k} позиций и ждёт {n} дней.",
    "この{w}は{k}件あり、{n}時{m}分に終わりました。",
    "这份{w}有{k}页,{n}点{m}分完成。",
    "The {w} of {k} rows took {n} minutes and {m} seconds, which nobody had expected.",
    "O relatório {w} tem {k} linhas e {n} colunas, sem erros desde {d}/{o}.",
    "Il treno delle {n}:{m} ha portato {k} casse di {w}.",
)
_FRAMES = (
    "{}", "see {} for more", '{{"note": "{}", "n": 3}}', "2026-03-04T10:22:31Z INFO worker: {} done", "id,note\n7,{}\n",
)  # fmt: skip


def _digits(rng: random.Random, count: int) -> str:
    return str(rng.randint(10 ** (count - 1), 10**count - 1))


def _one(rng: random.Random) -> str:
    return _digits(rng, 1)


def _prose(rng: random.Random) -> str:
    return rng.choice(_PROSE).format(
        w=word(rng), n=rng.randint(1, 23), m=f"{rng.randint(0, 59):02}", k=rng.randint(3, 99_999), d=rng.randint(1, 28),
        o=rng.randint(1, 12),
    )  # fmt: skip


def _image(rng: random.Random) -> str:
    head = rng.choice((b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\xff\xd8\xff\xe0\0\x10JFIF\0", b"GIF89a\x10\0\x10\0"))
    kind = {137: "png", 255: "jpeg", 71: "gif"}[head[0]]
    return f"data:image/{kind};base64,{base64.b64encode(head + rng.randbytes(120)).decode()}"


def _minified(rng: random.Random) -> str:
    a, b, c = (rng.choice(string.ascii_lowercase) for _ in range(3))
    return (
        f"!function({a},{b}){{var {c}={rng.randint(10, 10**8)},t={a}.{word(rng)}||{{}};return t.key={b}+{c}*"
        f'{rng.random():.12f},t.token?{a}({c}):"{pick(rng, LOWER_HEX, 8)}"}}(window,{rng.randint(1, 9)});'
    )


def _usage(rng: random.Random) -> str:
    ids = f"chatcmpl-{pick(rng, _BASE62, 29)}"
    return f"{ids} model=gpt-4o-mini-2024-07-18 input_tokens={rng.randint(9, 9999)} max_tokens={rng.randint(9, 9999)}"


def _form(rng: random.Random) -> str:
    return urlencode({"q": f"{word(rng)} {word(rng)} and {word(rng)}", "page": rng.randint(1, 99), "sort": "asc +1"})


def _packed(rng: random.Random) -> str:
    return base64.b64encode(gzip.compress(_prose(rng).encode(), mtime=0)).decode()


MAKERS: dict[str, Make] = {
    "uuid": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
    "commit": lambda rng: f"commit {pick(rng, LOWER_HEX, 40)}",
    "short commit": lambda rng: f"{pick(rng, LOWER_HEX, 7)}..{pick(rng, LOWER_HEX, 7)}",
    "md5": lambda rng: f"md5 {pick(rng, LOWER_HEX, 32)}",
    "sha256": lambda rng: f"sha256:{pick(rng, LOWER_HEX, 64)}",
    "integrity": lambda rng: f"sha512-{base64.b64encode(rng.randbytes(64)).decode()}",
    "image": _image,
    "minified": _minified,
    "ulid": lambda rng: f"01{pick(rng, _CROCKFORD, 24)}",
    "object id": lambda rng: f"ObjectId({pick(rng, LOWER_HEX, 24)})",
    "snowflake": lambda rng: f"message {rng.randint(10**17, 10**18 - 1)}",
    "stripe id": lambda rng: f"{rng.choice(('cus', 'pi', 'ch', 'evt'))}_{pick(rng, _BASE62, 24)}",
    "message id": lambda rng: f"msg_{pick(rng, _BASE62, 24)}",
    "epoch": lambda rng: f"{rng.randint(1_600_000_000, 1_800_000_000)}",
    "milliseconds": lambda rng: f"at {rng.randint(1_600_000_000_000, 1_800_000_000_000)}",
    "timestamp": lambda rng: f"2026-0{_one(rng)}-1{_one(rng)}T1{_one(rng)}:07:31.118+02:00",
    "prose": _prose,
    "prices": lambda rng: f"EUR {_one(rng)}.{_digits(rng, 3)},{_digits(rng, 2)} and $1,{_digits(rng, 3)},000.00",
    "order": lambda rng: f"order {_digits(rng, 3)}-{_digits(rng, 3)}-{_digits(rng, 4)}",
    "order number": lambda rng: f"Bestellnummer {rng.randint(10**10, 10**11 - 1)}",
    "invoice": lambda rng: f"invoice no. {rng.randint(10**8, 10**9 - 1)}",
    "tracking": lambda rng: f"tracking 1Z{pick(rng, _CAPITALS + string.digits, 8)}{_digits(rng, 8)}",
    "version": lambda rng: f"version {_one(rng)}.{_one(rng)}.{_one(rng)}.{_one(rng)}",
    "coordinates": lambda rng: f"lat {rng.uniform(-90, 90):.7f} lon {rng.uniform(-180, 180):.7f}",
    "vector": lambda rng: ", ".join(f"{rng.uniform(-1, 1):.16f}" for _ in range(4)),
    "usage": _usage,
    "form": _form,
    "packed prose": _packed,
    "prose in hex": lambda rng: _prose(rng).encode().hex(),
    "prose in base64": lambda rng: base64.b64encode(_prose(rng).encode()).decode(),
    "isbn": lambda rng: f"ISBN 978-3-{_digits(rng, 2)}-{_digits(rng, 6)}-{_one(rng)}",
    "etag": lambda rng: f'W/"{pick(rng, LOWER_HEX, 3)}-{pick(rng, LOWER_HEX, 11)}"'.replace('"', "'"),
    "color": lambda rng: f"#{pick(rng, LOWER_HEX, 6)} rgba({_digits(rng, 2)}, {_digits(rng, 2)}, 0, 0.{_one(rng)})",
    "mac": lambda rng: ":".join(pick(rng, LOWER_HEX, 2) for _ in range(6)),
    "part": lambda rng: f"part {pick(rng, _CAPITALS, 2)}{_digits(rng, 6)}{pick(rng, _CAPITALS, 1)}",
    "size": lambda rng: f"{rng.randint(10**7, 10**10)} bytes in {rng.randint(10**6, 10**8)} ns",
}  # fmt: skip


def hard_negatives() -> list[tuple[str, str]]:
    """Kind and text of each, in turn over all kinds."""
    kinds = list(MAKERS)
    found = []
    for number in range(COUNT):
        kind = kinds[number % len(kinds)]
        rng = random.Random(f"{SEED}|{kind}|{number}")
        frame = _FRAMES[number // len(kinds) % len(_FRAMES)]
        found.append((kind, frame.format(MAKERS[kind](rng))))
    return found
