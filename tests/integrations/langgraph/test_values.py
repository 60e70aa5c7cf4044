"""Values come back equal and of their own types: now, later, and in another process."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import langchain_core.messages as lc
import pytest
from graphs_for_savers import Elsewhere
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from values_for_savers import ALLOWED, SAMPLES, Cat, Colour, Dog, Name, Numbers, Pair, Person, Point, Word, same

from replaykit.errors import UsageError
from replaykit.integrations.langgraph import ReplayKitSaver
from replaykit.integrations.langgraph.known_types import BUILT_IN
from replaykit.integrations.langgraph.values import KnownTypes

TYPES = KnownTypes(ALLOWED)


def put(saver: ReplayKitSaver, number: int, **values: Any) -> Any:
    """Put a checkpoint with these values on top of the one before."""
    wanted: Any = {"thread_id": "t", "checkpoint_ns": ""}
    if number:
        wanted["checkpoint_id"] = f"{number - 1:04}"
    versions = dict.fromkeys(values, number + 1)
    checkpoint: Any = {
        **empty_checkpoint(),
        "id": f"{number:04}",
        "channel_values": values,
        "channel_versions": versions,
    }
    return saver.put({"configurable": wanted}, checkpoint, {"source": "loop", "step": number}, versions)  # type: ignore[arg-type]


def held(saver: ReplayKitSaver, number: int) -> dict[str, Any]:
    """The values at a checkpoint, from the disk."""
    saver.close()
    found = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": f"{number:04}"}})
    assert found is not None
    return dict(found.checkpoint["channel_values"])


@pytest.fixture
def roomy(own_directory: Path) -> Any:
    with ReplayKitSaver("threads.db", allow=ALLOWED) as saver:
        yield saver


@pytest.mark.parametrize("name", SAMPLES)
def test_a_value_comes_back_as_it_was(name: str) -> None:
    value = SAMPLES[name]

    for whole in (value, [value, [value]], {"a": value, "b": (value,)}):
        found = TYPES.value(TYPES.text(whole))
        assert same(found, whole), (found, whole)


def test_values_of_all_types_are_the_same_in_another_process(roomy: ReplayKitSaver, elsewhere: Elsewhere) -> None:
    config = put(roomy, 0, **SAMPLES, all=list(SAMPLES.values()))
    put(roomy, 1, **SAMPLES, all=[*SAMPLES.values(), *SAMPLES.values()])
    roomy.put_writes(config, list(SAMPLES.items()), "task")
    program = """
import json
from values_for_savers import ALLOWED, SAMPLES, same
from replaykit.integrations.langgraph import ReplayKitSaver
with ReplayKitSaver("threads.db", allow=ALLOWED) as saver:
    first, second = reversed(list(saver.list({"configurable": {"thread_id": "t"}})))
for found in (first, second):
    values = found.checkpoint["channel_values"]
    lists = values.pop("all")
    wrong = [name for name in SAMPLES if not same(values[name], SAMPLES[name])]
    wrong += [n for n, item in enumerate(lists) if not same(item, list(SAMPLES.values())[n % len(SAMPLES)])]
written = {channel: value for _, channel, value in first.pending_writes}
wrong += [name for name in SAMPLES if not same(written[name], SAMPLES[name])]
print(json.dumps([len(lists), len(written), wrong]))
"""

    assert elsewhere(program) == [2 * len(SAMPLES), len(SAMPLES), []]


keys = st.text(max_size=3) | st.sampled_from(["$obj", "$tuple", "$", "$dict"])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=4),
    st.binary(max_size=4),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals().filter(lambda number: not number.is_nan()),
    st.uuids(),
    st.complex_numbers(),
    st.sampled_from([*Colour, *Word, Name("n")]),
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(st.integers() | st.dates() | keys, inner, max_size=3),
        st.builds(Cat, st.text(max_size=2), toys=st.lists(inner, max_size=2)),
        st.builds(Pair, inner, inner),
        st.builds(lc.AIMessage, st.text(max_size=2), additional_kwargs=st.dictionaries(keys, inner, max_size=2)),
        st.builds(lambda name, extra: Person.model_construct(name=name, extra=extra), st.text(max_size=2), inner),
    ),
    max_leaves=8,
)


@given(anything)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert same(TYPES.value(TYPES.text(value)), value)


def test_everything_that_langgraph_holds_safe_is_known() -> None:
    plain = {"datetime", "date", "time", "timedelta", "UUID", "Decimal", "set", "frozenset", "compile", "Path"}
    known = {(cls.__module__, cls.__qualname__) for cls in BUILT_IN}

    missing = {(m, n) for m, n in SAFE_MSGPACK_TYPES if n not in plain and not m.startswith("pathlib")} - known

    assert missing == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Cat("Tom"), Dog("Tom")),
        (Cat("Tom"), {"name": "Tom", "lives": 9, "toys": [], "checked": False}),
        (Word.YES, "yes"),
        ("yes", Name("yes")),
        ((1, 2), [1, 2]),
        ({1}, [1]),
        (Pair(1, 2), [1, 2]),
        (Point(1, 2), Point(1.0, 2)),
        (Point(1.0, 2.0), {"x": 1.0, "y": 2.0}),
        (dt.date(2024, 1, 1), "2024-01-01"),
        (Decimal("1"), "1"),
        (b"a", bytearray(b"a")),
        (1, True),
        (0.0, -0.0),
        (lc.HumanMessage("x", id="1"), lc.HumanMessageChunk("x", id="1")),
        (Numbers([1]), {"root": [1]}),
    ],
    ids=repr,
)
def test_an_item_that_is_replaced_by_one_that_looks_like_it_is_seen(
    roomy: ReplayKitSaver, before: Any, after: Any
) -> None:
    lists = [["a", before], ["a", after], ["a", before, 1], ["a", after, 1, 2], ["a", before, 1, 2]]

    for number, items in enumerate(lists):
        put(roomy, number, items=items)

    for number, items in enumerate(lists):
        assert same(held(roomy, number)["items"], items)


def test_what_is_changed_in_place_is_seen_by_the_next_checkpoint(roomy: ReplayKitSaver) -> None:
    message, call, record, cat = lc.HumanMessage("one"), SAMPLES["ai"].model_copy(deep=True), {"n": [1]}, Cat("Tom")
    items = [message, call, record, cat]
    put(roomy, 0, items=items, alone=record)
    message.content = "two"
    put(roomy, 1, items=items, alone=record)
    call.tool_calls[0]["args"]["q"] = "y"
    put(roomy, 2, items=items, alone=record)
    record["n"].append(2)
    put(roomy, 3, items=items, alone=record)
    cat.toys.append("mouse")
    items.append(record)
    put(roomy, 4, items=items, alone=record)

    found = [held(roomy, number) for number in range(5)]

    assert [state["items"][0].content for state in found] == ["one", "two", "two", "two", "two"]
    assert [state["items"][1].tool_calls[0]["args"]["q"] for state in found] == ["x", "x", "y", "y", "y"]
    assert [state["items"][2]["n"] for state in found] == [[1], [1], [1], [1, 2], [1, 2]]
    assert [state["alone"]["n"] for state in found] == [[1], [1], [1], [1, 2], [1, 2]]
    assert [state["items"][3].toys for state in found] == [[], [], [], [], ["mouse"]]
    assert [len(state["items"]) for state in found] == [4, 4, 4, 4, 5]


@dataclass
class Meddler:
    """Changes the program's values the n-th time it is looked at, as another thread would while they are written."""

    name: str
    countdown: ClassVar[int] = -1
    meddle: ClassVar[Callable[[], object]]

    def __getattribute__(self, name: str) -> Any:
        if name == "name":
            Meddler.countdown -= 1
            if Meddler.countdown == 0:
                Meddler.meddle()
        return super().__getattribute__(name)


@pytest.mark.parametrize("known", [0, 2], ids=["a list", "a list that grew"])
def test_what_changes_while_it_is_written_is_right_at_the_next_checkpoint(own_directory: Path, known: int) -> None:
    met = 0
    with ReplayKitSaver("threads.db", allow=[Meddler]) as saver:
        for when in range(1, 9):
            items: list[Any] = ["a", "b", {"n": 0}, Meddler("m")]
            by_name: dict[str, Any] = {"meddler": items[3]}
            Meddler.countdown = -1
            Meddler.meddle = partial(
                lambda items, by_name: (items[2].update(n=1), items.append(2), by_name.update(x=1)), items, by_name
            )
            saver.delete_thread("t")
            put(saver, 0, items=items[:known])
            Meddler.countdown = when * 2  # each look is two: is there such a field, and what is it
            put(saver, 1, items=items, by_name=by_name)
            met += items[2]["n"]
            Meddler.countdown = -1
            put(saver, 2, items=items, by_name=by_name)
            assert held(saver, 2) == {"items": items, "by_name": by_name}
    assert met >= 4, "it did meddle"


def test_a_field_that_is_younger_than_the_log_has_its_default(roomy: ReplayKitSaver) -> None:
    texts = [
        b'{"$obj":["values_for_savers.Cat",{"name":"Tom"}]}',
        b'{"$obj":["values_for_savers.Person",{"name":"Ada"}]}',
        b'{"$obj":["values_for_savers.Pair",{"left":1}]}',
    ]

    cat, ada, pair = map(TYPES.value, texts)

    assert same(cat, Cat("Tom"))
    assert (ada.born, ada.friends, ada._secret) == (None, [], "none")
    assert pair == Pair(1, None)


def test_a_class_that_needs_its_own_code_cannot_be_allowed() -> None:
    import abc
    import threading

    import msgspec

    class Greedy(msgspec.Struct):
        n: int

        def __post_init__(self) -> None: ...

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def run(self) -> None: ...

    for cls in (Greedy, Abstract, threading.Thread, ValueError, object, list[int]):
        with pytest.raises(UsageError, match="cannot be allowed"):
            ReplayKitSaver("x.db", allow=[cls])  # type: ignore[list-item]
    for cls in (int, dict, tuple, dt.datetime):  # needs no word, and does no harm
        ReplayKitSaver("x.db", allow=[cls])
