"""Files as nobody means them to be: cut, damaged, of two formats at once. A seed makes each, and makes it again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.formats.damage import as_lines

Path = tuple[Any, ...]
_JUNK: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**70, 1e308, "", "x", "{", '{"a": [', "[]", "\u0000", "\ud83d"),
    *([], [None], [[]], [{}], {}, {"a": None}, {"type": "x"}, {"role": "user"}),
]


def cut(random: Random, text: bytes, _other: bytes) -> bytes:
    """The first bytes of the file."""
    return text[: random.randrange(len(text))]


def flipped(random: Random, text: bytes, _other: bytes) -> bytes:
    """A few bytes are others."""
    broken = bytearray(text)
    for _ in range(random.randint(1, 4)):
        broken[random.randrange(len(broken))] = random.choice(b'"{}[],:0\\\n\x00\xffa')
    return bytes(broken)


def damaged(random: Random, text: bytes, _other: bytes) -> bytes:
    """A few values are gone, or something else is in their place."""
    return _changed(random, text, lambda: copy.deepcopy(random.choice(_JUNK)), random.randint(1, 3))


def swapped(random: Random, text: bytes, other: bytes) -> bytes:
    """A value of the other file is in the place of one of this."""
    given = [value for _path, value in _places(random.choice(documents(other)))]
    return _changed(random, text, lambda: copy.deepcopy(random.choice(given)), 1)


def embedded(random: Random, text: bytes, other: bytes) -> bytes:
    """All of the other file is in the place of a value, as JSON or as text."""
    held = documents(other)
    whole: Any = held[0] if len(held) == 1 else held
    return _changed(random, text, lambda: whole if random.random() < 0.5 else json.dumps(whole), 1)


def beside(random: Random, text: bytes, other: bytes) -> bytes:
    """One file after the other, on the same line or on the next."""
    return text + random.choice([b"", b"\n", b"\n\n", b",", b" "]) + other


def listed(random: Random, text: bytes, other: bytes) -> bytes:
    """The documents of both in one list."""
    mixed = documents(text) + documents(other)
    random.shuffle(mixed)
    return json.dumps(mixed).encode()


def lines(random: Random, text: bytes, other: bytes) -> bytes:
    """The documents of both, one a line, in any order."""
    mixed = documents(text) + documents(other)
    random.shuffle(mixed)
    return as_lines(mixed)


def items(random: Random, text: bytes, other: bytes) -> bytes:
    """The items of both, where they are lists: one of the other's among those of this one."""
    mine, theirs = (_items(documents(one)) for one in (text, other))
    mine.insert(random.randint(0, len(mine)), random.choice(theirs))
    return json.dumps(mine).encode() if random.random() < 0.5 else as_lines(mine)


Maker = Callable[[Random, bytes, bytes], bytes]
ALONE: tuple[Maker, ...] = (cut, flipped, damaged)
TOGETHER: tuple[Maker, ...] = (swapped, embedded, beside, listed, lines, items)


def documents(text: bytes) -> list[Any]:
    """The JSON documents of a file."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _items(held: list[Any]) -> list[Any]:
    return list(held[0]) if len(held) == 1 and isinstance(held[0], list) else held


def _changed(random: Random, text: bytes, junk: Callable[[], Any], times: int) -> bytes:
    held = copy.deepcopy(documents(text))
    for _ in range(times):
        places = [path for path, _value in _places(held) if len(path) > 1]  # what stands for all of it is another file
        if not places:
            break
        *above, last = random.choice(places)
        value: Any = held
        for key in above:
            value = value[key]
        if random.random() < 0.3:
            del value[last]
        else:
            value[last] = junk()
    return json.dumps(held[0]).encode() if len(held) == 1 else as_lines(held)


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every place below a value, and what stands there; the value itself where there is none."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key), item
        yield from _places(item, (*path, key))
    if not path and not inner:
        yield (0,), value
