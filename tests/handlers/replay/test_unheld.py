"""Misses that chance alone explains, and those that it does not."""

from __future__ import annotations

import pytest

from replaykit.handlers.replay.unrecorded_chance import by_chance
from replaykit.model.events import ToolCall
from replaykit.model.values import Json, raw


def told(before: Json, now: Json, *not_held: str) -> str:
    recorded = ToolCall(seq=0, name="send", arguments_json=raw({"what": before}))
    return by_chance(recorded, {"what": now}, not_held=not_held)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (["a", "b", "c"], ["c", "a", "b"]),
        ({"to": [["x", "y"], ["z"]]}, {"to": [["z"], ["y", "x"]]}),
        ("tags: red, green, blue", "tags: blue, red, green"),
    ],
)
def test_the_same_items_in_another_order_may_be_those_of_a_set(before: Json, now: Json) -> None:
    assert "in another order" in told(before, now)


@pytest.mark.parametrize(
    ("before", "now"),
    [(["a", "b"], ["a", "c"]), (["a", "b"], ["a", "b", "b"]), ("order 17", "order 18"), (1, 2), (["a"], ["a"])],
)
def test_other_items_are_no_matter_of_order(before: Json, now: Json) -> None:
    assert told(before, now) == ""


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("see <shop.Item object at 0x7f5aba3aad50>!", "see <shop.Item object at 0x7fc80be1b750>!"),
        ("<__main__.Item object at 0x7f5aba3aad50>", "<shop.Item object at 0x7fc80be1b750>"),
        (["<function f at 0x7f5aba3aad50>", 1], ["<function f at 0x7fc80be1b750>", 1]),
        ("ThreadPoolExecutor-0_0", "ThreadPoolExecutor-12_1"),
        ({"id": 139949272960080}, {"id": 140504355551504}),
    ],
)
def test_another_address_or_thread_of_a_pool_is_chance(before: Json, now: Json) -> None:
    assert "another address in memory" in told(before, now)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("<shop.Item object at 0x7f5aba3aad50>", "<shop.Price object at 0x7fc80be1b750>"),
        ("<shop.Item object at 0x7f5aba3aad50> 1", "<shop.Item object at 0x7fc80be1b750> 2"),
        ("0x7f5aba3aad50", "0x7fc80be1b750"),
        ({"id": 139949272960081}, {"id": 140504355551503}),
        ({"id": 139949272960080}, {"id": 4711}),
    ],
)
def test_anything_beside_the_address_is_no_chance(before: Json, now: Json) -> None:
    assert told(before, now) == ""


def test_another_number_is_chance_where_the_recording_says_that_a_text_was_hashed() -> None:
    assert told(697, 411) == ""
    assert "PYTHONHASHSEED" in told(697, 411, "hashes")
    assert told("lamp", "vase", "hashes") == ""


def test_another_key_is_chance_only_where_the_recording_says_that_keys_were_drawn() -> None:
    before, now = "token 9f86d081884c7d65", "token 60303ae22b998861"

    assert told(before, now) == ""
    assert "another random key" in told(before, now, "secrets")
    assert told(before, "token 60303ae22b99886", "secrets") == ""
    assert told(0.25, 0.75, "secrets") == ""


def test_another_number_is_chance_where_another_run_held_the_generators() -> None:
    assert "another random value" in told(0.25, 0.75, "random")
    assert told("yes", "no", "random") == ""
    assert told(True, False, "random") == ""


@pytest.mark.parametrize(("before", "now"), [(4711, 4712), ("worker 4711 of 8", "worker 93 of 8")])
def test_another_process_id_is_chance_where_the_agent_asked_for_one(before: Json, now: Json) -> None:
    assert "id of the process" in told(before, now, "process_id")
    assert told(before, now) == ""


def test_another_text_is_no_matter_of_the_process_id() -> None:
    assert told("worker 4711", "helper 4711", "process_id") == ""
