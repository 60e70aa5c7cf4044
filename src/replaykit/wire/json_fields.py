"""Fields: what a member of foreign JSON holds, when it holds what it should, and nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import orjson

from replaykit.errors import UsageError
from replaykit.model.values import Json

T = TypeVar("T")


def as_object(value: Json) -> dict[str, Json]:
    """The object, or an empty one."""
    if type(value) is dict:
        return value
    return {}


def as_objects(value: Json) -> list[dict[str, Json]]:
    """The objects in a list; whatever else is in it is passed over."""
    if type(value) is list:
        return [item for item in value if type(item) is dict]
    return []


def as_text(value: Json) -> str:
    """The text, or an empty one."""
    if type(value) is str:
        return value
    return ""


def as_count(value: Json) -> int | None:
    """A whole number that counts something."""
    if type(value) is int and 0 <= value < 2**53:
        return value
    return None


def without(value: dict[str, Json], *names: str) -> dict[str, Json]:
    """The object without these members."""
    return {name: item for name, item in value.items() if name not in names}


def nth(items: list[T], index: int) -> T | None:
    """The item at that index, if there is one."""
    if index < len(items):
        return items[index]
    return None


def joined(texts: Iterable[str], by: str = "") -> str | None:
    """The texts that say something, as one; None when none does."""
    return by.join(text for text in texts if text) or None


def load_object(text: bytes | str) -> dict[str, Json] | None:
    """The JSON object that the text spells; None when it spells none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if type(value) is dict:
        return value
    return None


def load_arguments(text: str) -> Json:
    """The arguments a model wrote as JSON text; the text itself where it is no object or list."""
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text
    if type(value) in (dict, list):
        return value
    return text


def dump(value: Json) -> bytes:
    """JSON text, as a server would send it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise UsageError(f"an answer that JSON cannot say: {error}") from None


def dump_arguments(arguments: Json) -> str:
    """Arguments as the JSON text that `load_arguments` reads."""
    if type(arguments) is str:
        return arguments
    return dump(arguments).decode()


_EXACT = 2.0**53
"""Up to here every whole number has a float of its own."""


def plain_numbers(value: Json) -> Json:
    """The value with every whole number written as one: JavaScript says `1` where Python says `1.0`."""
    if type(value) is dict:
        return {name: plain_numbers(item) for name, item in value.items()}
    if type(value) is list:
        return [plain_numbers(item) for item in value]
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
