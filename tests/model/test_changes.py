"""Changes: folding them again gives every state back."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replaykit.model.changes import StateFold
from replaykit.model.events import Change, State
from replaykit.model.values import Raw, decode, encode

LEAF = st.none() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False) | st.tuples(st.integers())
VALUE = st.recursive(
    LEAF, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=3), v, max_size=3), max_leaves=8
)
STATE = st.dictionaries(st.sampled_from(["messages", "n", "memory", "$x", "é"]), VALUE, max_size=4) | VALUE


def folded(states: list[Any]) -> list[Any]:
    """The states, through changes and back."""
    writer, reader, back = StateFold(), StateFold(), []
    for seq, state in enumerate(states):
        whole, change = writer.advance(state)
        reader.apply(State(seq=seq, state_json=whole, change=change))
        back.append(decode(reader.text))
    return back


@given(st.lists(STATE, max_size=8))
def test_any_sequence_of_states_comes_back(states: list[Any]) -> None:
    assert [encode(state) for state in folded(states)] == [encode(state) for state in states]


@given(st.lists(STATE, max_size=8), st.integers(0, 7), st.booleans())
def test_a_copy_goes_on_by_itself_and_says_what_its_text_says(states: list[Any], at: int, parsed: bool) -> None:
    writer, fold = StateFold(), StateFold()
    for seq, given_state in enumerate(states):
        state = {"long": ["x" * 700] * (seq + 2), "given": given_state}
        whole, change = writer.advance(state)
        if seq == at:
            if parsed:
                fold.parse()
            before, fold = (fold, fold.text), fold.copy()
        fold.apply(State(seq=seq, state_json=whole, change=change))

        assert encode(fold.value) == encode(fold.copy().value) == encode(state)
    if len(states) > at:
        assert before[0].text == before[1]


@given(st.lists(VALUE, max_size=6), st.lists(st.lists(VALUE, max_size=3), max_size=6))
def test_a_growing_list_comes_back(start: list[Any], more: list[list[Any]]) -> None:
    states, messages = [{"messages": list(start), "n": 0}], list(start)
    for n, items in enumerate(more):
        messages = messages + items
        states.append({"messages": messages, "n": n})

    assert [encode(state) for state in folded(states)] == [encode(state) for state in states]


@given(st.lists(st.text(), min_size=2, max_size=6))
def test_texts_that_change_in_the_middle_come_back(texts: list[str]) -> None:
    states = [{"text": "é" * 300 + text + "ü" * 300} for text in texts]

    assert folded(states) == states


def test_growth_is_written_as_growth() -> None:
    fold = StateFold()
    fold.advance({"messages": ["m" * 1000] * 50, "n": 1})
    whole, change = fold.advance({"messages": ["m" * 1000] * 50 + ["new"], "n": 2})

    assert not whole
    assert change is not None
    assert {key: bytes(items) for key, items in change.add.items()} == {"messages": b'["new"]'}
    assert list(change.put) == ["n"]


@pytest.mark.parametrize("part", [["m" * 100], "m" * 100], ids=["list", "text"])
def test_a_state_that_is_no_object_is_written_as_what_it_grew_by(part: Any) -> None:
    fold = StateFold()
    written = []
    for step in range(1, 1001):
        whole, change = fold.advance(part * step)
        written.append(len(whole) + len(encode(change)))

    assert sum(written) < 5 * len(fold.text)
    assert folded([part * step for step in range(1, 50)]) == [part * step for step in range(1, 50)]


@pytest.mark.parametrize(
    "states",
    [
        [[1] * 200, {"": [1] * 200}, [1] * 201],
        [{"$set": [1]}, {"$set": [1]}, "x" * 400, {"$set": ["x" * 400]}, ("x" * 400,), ["x" * 400]],
        [{"$x": "y" * 400}, {"$x": "y" * 400 + "z"}, {"$x": "y" * 400 + "z"}],
        [None, None, [], [], [1], "é" * 300, "é" * 301, {"": "é" * 301}, "é" * 301],
    ],
)
def test_states_of_any_kind_follow_each_other(states: list[Any]) -> None:
    assert [encode(state) for state in folded(states)] == [encode(state) for state in states]


def test_mutation_in_place_is_noticed() -> None:
    state = {"messages": [{"text": "a"}, {"text": "b"}]}
    fold, states = StateFold(), []
    reader = StateFold()
    for edit in ("x", "y"):
        state["messages"][0]["text"] = edit
        states.append(copy.deepcopy(state))
        whole, change = fold.advance(state)
        reader.apply(State(seq=0, state_json=whole, change=change))
        assert decode(reader.text) == states[-1]


def test_the_whole_state_is_written_again_when_changes_have_piled_up() -> None:
    fold = StateFold()
    wholes = 0
    for n in range(2000):
        whole, _ = fold.advance({"text": f"{n:05d}" * 40})
        wholes += bool(whole)

    assert 2 <= wholes <= 20


@pytest.mark.parametrize(
    "change",
    [b'{"add":{"nothing":[1]}}', b'{"del":["nothing"]}', b'{"cut":{"a":[9,9,"x"]}}', b'{"cut":{"a":[0,-5,"x"]}}'],
)
def test_a_change_that_does_not_fit_is_an_error(change: bytes) -> None:
    fold = StateFold()
    fold.apply(State(seq=0, state_json=Raw(b'{"a":[1]}')))

    with pytest.raises((ValueError, KeyError)):
        fold.apply(State(seq=1, change=msgspec.json.decode(change, type=Change)))


def test_a_change_without_a_state_before_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a state"):
        StateFold().apply(State(seq=1, change=Change()))


def test_a_change_of_members_does_not_fit_a_list() -> None:
    fold = StateFold()
    fold.apply(State(seq=0, state_json=Raw(b"[1]")))

    with pytest.raises(ValueError, match="without a state"):
        fold.apply(State(seq=1, change=Change(put={"a": Raw(b"1")})))


class Starred:
    """Writes stars for a word; of a key that tells, for the whole value."""

    is_local = True

    def text(self, text: bytes, key: str) -> bytes:
        return b'"*"' if key == "pin" else text.replace(b"hidden", b"***")

    def name(self, key: str) -> str:
        return key.replace("hidden", "***")


WORDS = st.text(alphabet="hiden ", max_size=12) | st.sampled_from(["hidden", "is hidden here", "hid"])
SAID = st.recursive(WORDS, lambda v: st.lists(v, max_size=4) | st.dictionaries(WORDS, v, max_size=3), max_leaves=6)
NAMED = st.dictionaries(st.sampled_from(["messages", "text", "pin", "hidden", "of hidden"]), SAID, max_size=4)


@given(st.lists(NAMED | SAID, max_size=8))
@example([{"pin": ["a"]}, {"pin": ["a", "b"]}])
def test_what_may_not_be_written_is_in_no_change_and_in_no_state(states: list[Any]) -> None:
    clean = Starred()
    writer, reader = StateFold(cleaning=clean), StateFold()
    for seq, state in enumerate(states):
        whole, change = writer.advance(state)
        event = State(seq=seq, state_json=whole, change=change)
        reader.apply(event)

        assert b"hidden" not in msgspec.json.encode(event)
        if not isinstance(state, dict):
            assert reader.text == clean.text(encode(state), "")
        else:
            shown = {clean.name(k): clean.text(encode(v), k) for k, v in state.items()}
            assert decode(reader.text) == {k: decode(v) for k, v in shown.items()}


class Covering(Starred):
    """Writes a star for all of a value that has a word in it."""

    def text(self, text: bytes, key: str) -> bytes:
        return b'"*"' if b"hidden" in text else text


def test_a_list_that_is_written_as_something_else_is_not_extended() -> None:
    writer, reader, back = StateFold(cleaning=Covering()), StateFold(), []
    for log in (["a"], ["a", "b"], ["a", "b", "hidden"], ["a", "b", "hidden", "c"], ["a", "b"], ["a", "b", "c"]):
        whole, change = writer.advance({"log": log})
        reader.apply(State(seq=0, state_json=whole, change=change))
        back.append(decode(reader.text)["log"])

    assert back == [["a"], ["a", "b"], "*", "*", ["a", "b"], ["a", "b", "c"]]


def test_a_word_that_grows_from_step_to_step_is_never_written() -> None:
    writer, reader = StateFold(cleaning=Starred()), StateFold()
    written = []
    for end in range(8):
        whole, change = writer.advance({"text": "x" * 300 + "hidden"[:end] + "y" * 300, "log": ["hidden"] * end})
        event = State(seq=end, state_json=whole, change=change)
        reader.apply(event)
        written.append(msgspec.json.encode(event))

    assert b"hidden" not in b"".join(written)
    assert decode(reader.text) == {"text": "x" * 300 + "***" + "y" * 300, "log": ["***"] * 7}


def test_what_has_not_changed_is_not_cleaned_again() -> None:
    class Counting(Starred):
        seen = 0

        def text(self, text: bytes, key: str) -> bytes:
            self.seen += len(text)
            return super().text(text, key)

    clean = Counting()
    fold = StateFold(cleaning=clean)
    for n in range(100):
        fold.advance({"memory": "m" * 100_000, "messages": ["hello"] * n})

    assert clean.seen < 110_000
