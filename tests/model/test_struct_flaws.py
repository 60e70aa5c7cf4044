"""Struct flaws: the innermost part of a JSON text that is not what a struct declares."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct

from replaykit.model.struct_flaws import RefusedPart, refused_part


class Dog(Struct, tag_field="type", tag="dog"):
    age: Annotated[int, Meta(ge=0)]


class Cat(Struct, tag_field="type", tag="cat"):
    lives: int = 9


class Owner(Struct, forbid_unknown_fields=True):
    name: str


class House(Struct, forbid_unknown_fields=True, rename={"animals": "pets"}):
    animals: tuple[Dog | Cat, ...] = ()
    owner: Owner | None = None
    rooms: dict[str, list[int]] = {}
    corner: tuple[int, str] = (0, "")
    open: Any = None


def refused(text: str) -> RefusedPart:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=House)
    return refused_part(text.encode(), House)


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("[]", (), "Expected `object`, got `array`"),
        ('{"owner": 1}', ("owner",), "Expected `object | null`, got `int`"),
        ('{"owner": {"name": 1}}', ("owner", "name"), "Expected `str`, got `int`"),
        ('{"rooms": {"hall.[0]": [1, "2"]}}', ("rooms", "hall.[0]", 1), "Expected `int`, got `str`"),
        ('{"corner": [1, 2]}', ("corner", 1), "Expected `str`, got `int`"),
        ('{"corner": [1]}', ("corner",), "Expected `array` of length 2"),
        ('{"pets": [{"type": "cat"}, {"type": "dog", "age": -1}]}', ("pets", 1, "age"), "Expected `int` >= 0"),
        ('{"pets": [{"type": "cow"}]}', ("pets", 0, "type"), "Invalid enum value 'cow'"),
        ('{"pets": [{}]}', ("pets", 0), "Object missing required field `type`"),
    ],
)
def test_the_innermost_part_that_is_wrong_is_found(text: str, path: tuple[str | int, ...], reason: str) -> None:
    part = refused(text)

    assert (part.path, part.reason) == (path, reason)


def test_an_unknown_key_is_named_with_the_nearest_one() -> None:
    part = refused('{"owner": {"name": "Ann"}, "pet": []}')

    assert (part.path, part.unknown_key) == ((), "pet")
    assert part.unknown_key_reason == "unknown key 'pet'; did you mean 'pets'?"


def test_a_missing_key_is_named() -> None:
    part = refused('{"owner": {}}')

    assert (part.path, part.missing_key, part.unknown_key) == (("owner",), "name", None)
