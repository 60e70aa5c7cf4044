"""What a form is: one way a kind of value is written; and the random parts they share."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable
from dataclasses import dataclass

from .marked import Marked

LOWER_HEX = "0123456789abcdef"
LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"
BASE32 = string.ascii_uppercase + "234567"
DIGITS = string.digits

_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "an", "el", "or")]

Make = Callable[[random.Random], Marked]


@dataclass(frozen=True)
class Form:
    """One way a kind of value is written."""

    id: str
    make: Make
    names: tuple[str, ...] = ("value", "note", "input", "item", "data")
    """What the value may be called where it stands beside a name."""
    needs_name: bool = False
    """Without its name nobody could tell what it is."""
    multiline: bool = False
    whole: bool = False
    """A whole text of its own, put nowhere."""
    places: int = 12
    """How many places it is put in: few where a kind has many forms, many where it has one."""


def pick(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choices(alphabet, k=size))


def digits(rng: random.Random, size: int) -> str:
    """Digits of which the first is not 0."""
    return rng.choice("123456789") + pick(rng, DIGITS, size - 1)


def mixed(rng: random.Random, size: int, alphabet: str = ALNUM) -> str:
    """Like `pick`, and always with a capital, a small letter and a digit, as keys of this size have."""
    while True:
        text = pick(rng, alphabet, size)
        if any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text)):
            return text


def encoded(rng: random.Random, size: int) -> str:
    """Random bytes as base64."""
    return base64.b64encode(rng.randbytes(size)).decode()


def word(rng: random.Random) -> str:
    """An invented word."""
    return "".join(rng.choices(_SYLLABLES, k=rng.randint(2, 3)))


def host(rng: random.Random) -> str:
    return (
        f"{rng.choice(('db', 'cache', 'mq', 'prod', 'eu1'))}.{word(rng)}.{rng.choice(('net', 'io', 'com', 'internal'))}"
    )


def password(rng: random.Random) -> str:
    """One that a person might choose: words, digits and a sign; no sign that needs quoting anywhere."""
    return f"{word(rng).capitalize()}{rng.choice('-_.')}{word(rng)}{digits(rng, rng.randint(2, 4))}"
