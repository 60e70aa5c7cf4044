"""Values: what goes into the log comes out again."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import subprocess
import sys
import uuid
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.values import Opaque, canonical, canonical_read, decode, encode, encode_read, freeze, thaw

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    TEXT,
    st.binary(max_size=20),
    st.datetimes(timezones=st.none() | st.just(dt.UTC)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.complex_numbers(allow_nan=False),
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(TEXT, inner, max_size=4),
        st.dictionaries(st.sampled_from(["$tuple", "$dict", "$obj", "$blob", "$", "a"]), inner, max_size=1),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
    ),
    max_leaves=12,
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) and same(a[x], b[y]) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return bool(a == b)


@given(VALUES)
def test_every_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    assert same(decode(encode(value)), value)


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(str):
    __slots__ = ()


@dataclass
class Point:
    x: float


class Pair(NamedTuple):
    first: int


LOOKS_PLAIN = st.sampled_from(
    [Colour.RED, Level.HIGH, Word("red"), Point(0.5), Pair(1), (), math.inf, uuid.UUID(int=7), dt.date(2026, 1, 1)]
)
"""What orjson writes as if it were plain JSON, or would without being told not to."""


@given(
    st.recursive(
        JSON | LOOKS_PLAIN,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "$tuple", "$", Word("b"), Colour.RED, 1]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_the_quick_way_to_write_a_value_gives_what_the_long_way_gives(value: Any) -> None:
    assert encode(value) == orjson.dumps(freeze(value))
    assert canonical(value) == orjson.dumps(freeze(value), option=orjson.OPT_SORT_KEYS)


@given(JSON)
def test_plain_json_is_written_as_plain_json(value: Any) -> None:
    assert orjson.loads(encode(value)) == value or b'"$dict"' in encode(value)


@given(VALUES)
def test_equal_values_have_equal_canonical_text(value: Any) -> None:
    again = decode(encode(value))

    assert canonical(again) == canonical(value)


@given(st.dictionaries(st.text(), JSON, min_size=2))
def test_canonical_text_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    backwards = dict(reversed(value.items()))

    assert canonical(backwards) == canonical(value)
    assert list(decode(encode(backwards))) == list(backwards), "but what is stored keeps its order"


@given(JSON)
def test_reading_any_json_never_fails(value: Any) -> None:
    thaw(value)


@given(st.sampled_from(["$tuple", "$dict", "$int", "$datetime", "$bytes", "$obj", "$set", "$complex", "$str"]), JSON)
def test_malformed_tags_are_plain_data(tag: str, content: Any) -> None:
    decode(orjson.dumps({tag: content}))


def test_nan_and_infinities_survive() -> None:
    back = decode(encode([math.nan, math.inf, -math.inf]))

    assert math.isnan(back[0])
    assert back[1:] == [math.inf, -math.inf]


def test_integers_of_any_size_survive() -> None:
    sys.set_int_max_str_digits(1000)
    assert decode(encode([2**63, 2**64, -(2**200), 10**3000])) == [2**63, 2**64, -(2**200), 10**3000]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (type("Text", (str,), {})("x"), "x"),
        (type("Number", (int,), {})(5), 5),
        (memoryview(b"ab"), b"ab"),
        (bytearray(b"ab"), bytearray(b"ab")),
    ],
)
def test_subclasses_are_kept_as_what_they_are_a_kind_of(value: Any, plain: Any) -> None:
    assert same(decode(encode(value)), plain)


def test_what_has_no_form_is_named_and_never_called() -> None:
    class Bomb:
        def __repr__(self) -> str:
            raise AssertionError("repr() embeds addresses and runs code")

        def __reduce__(self) -> Any:
            raise AssertionError("nothing is pickled")

    assert decode(encode([Bomb(), open])) == [
        Opaque(f"{__name__}.test_what_has_no_form_is_named_and_never_called.<locals>.Bomb"),
        Opaque("open"),
    ]


def test_cycles_and_bottomless_nesting_are_cut_not_fatal() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]

    assert b"nested too deeply" in encode(deep)
    for value in (cycle, {"a": cycle}):
        assert b"a value that holds itself" in encode(value)


def test_a_value_that_holds_itself_in_two_ways_is_written_at_once() -> None:
    value: dict[str, Any] = {"same": [1]}
    value |= {"left": value, "right": [value, value], "again": value["same"]}

    itself = {"$opaque": "a value that holds itself"}

    assert freeze(value) == {"same": [1], "left": itself, "right": [itself, itself], "again": [1]}
    assert encode(value) == encode(value)


def test_a_frozen_value_names_classes_but_reading_gives_data() -> None:
    from dataclasses import dataclass

    @dataclass
    class Order:
        id: int

    assert freeze(Order(1)) == {"$obj": ["Order", {"id": 1}]}
    assert decode(encode([Order(1)])) == [{"id": 1}]


def test_paths_and_ids_survive() -> None:
    value = [Path("a/b"), uuid.UUID(int=5), decimal.Decimal("1.10")]

    assert [str(item) for item in decode(encode(value))] == [str(item) for item in value]


def test_very_deep_json_is_a_clear_error() -> None:
    text = b'[{"$tuple":' * 500 + b"1" + b"}]" * 500
    with pytest.raises(ValueError, match=r"deep|recursion"):
        decode(text)


READ = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(['{"$', "$", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.sampled_from(["$tuple", "$x", "\ud800"]), inner, max_size=3)
    ),
    max_leaves=15,
)


@given(READ)
def test_what_was_read_from_json_is_written_quicker_and_the_same(value: Any) -> None:
    assert encode_read(value) == encode(value)
    assert canonical_read(value) == canonical(value)


_HELD = """
import resource
from replaykit.model.values import canonical, encode, raw

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
before = resident()
texts = [write({"index": index}) for index in range(5000) for write in (canonical, encode, raw)]
print((resident() - before) // len(texts))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_text_that_is_held_takes_no_more_room_than_it_needs() -> None:
    """The buffer that it was written to has 4 KB."""
    done = subprocess.run([sys.executable, "-c", _HELD], capture_output=True, check=True)

    assert int(done.stdout) < 400
