"""Attacks on the input: where they go, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.candidates.worlds import with_chaos, world_of
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.errors import UsageError
from replaykit.handlers.chaos.attacks import attacked
from replaykit.model.faults import Attack, ChaosPlan, ContextAttack, Strategy
from replaykit.model.values import raw

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "yes?"},
    {"role": "user", "content": "second"},
]


def plan_of(kind: str, seed: int = 0, **options: Any) -> ChaosPlan:
    return ChaosPlan(seed=seed, context_attacks=(ContextAttack(type=Attack(kind), **options),))


def poisoned(given: Any, **options: Any) -> Any:
    return attacked(given, plan_of("memory_poisoning", payload="EVIL", **options))[0]


@pytest.mark.parametrize(
    ("strategy", "expected"), [("prepend", "EVIL\n\nask"), ("append", "ask\n\nEVIL"), ("replace", "EVIL")]
)
def test_a_payload_goes_where_the_strategy_says(strategy: str, expected: str) -> None:
    assert poisoned("ask", strategy=Strategy(strategy)) == expected


@pytest.mark.parametrize(
    ("given", "place", "expected"),
    [
        ({"question": "a long question", "id": "x"}, "input", {"question": "EVIL\n\na long question", "id": "x"}),
        ({"n": 1}, "input", {"n": 1, "input": "EVIL\n\n"}),
        (CHAT, "input", [*CHAT[:3], {"role": "user", "content": "EVIL\n\nsecond"}]),
        (CHAT, 0, [{"role": "system", "content": "EVIL\n\nBe brief."}, *CHAT[1:]]),
        ({"messages": CHAT}, 1, {"messages": [CHAT[0], {"role": "user", "content": "EVIL\n\nfirst"}, *CHAT[2:]]}),
        ({"a": {"b": ["x", "y"]}}, "$.a.b[1]", {"a": {"b": ["x", "EVIL\n\ny"]}}),
        (
            [{"role": "user", "content": [{"type": "image"}]}],
            "input",
            [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "EVIL\n\n"}]}],
        ),
        (None, "input", "EVIL\n\n"),
        (7, "input", "EVIL\n\n7"),
        ([1, 2], "input", [1, 2, "EVIL\n\n"]),
    ],
)
def test_a_payload_goes_to_the_text_that_is_meant(given: Any, place: str | int, expected: Any) -> None:
    before = raw(given)

    assert poisoned(given, inject_at=place) == expected
    assert raw(given) == before  # nothing was changed in place


@pytest.mark.parametrize("place", ["$.missing", "$..a"])
def test_a_path_that_leads_to_no_text_is_an_error(place: str) -> None:
    with pytest.raises(UsageError, match="inject_at"):
        poisoned({"a": 1}, inject_at=place)


def test_noise_conflicts_and_documents() -> None:
    noise, names = attacked("ask", plan_of("overflow", inject_tokens=500))
    assert (len(noise.split()), noise.endswith("\n\nask"), names) == (501, True, ("context.overflow",))

    conflict = attacked("ask", plan_of("conflicting_context"))[0].split("\n\n")
    assert len(conflict) == 3
    assert conflict[1] == "ask"

    document = attacked("ask", plan_of("injection_via_context", payload="EVIL"))[0]
    assert document == "ask\n\n<document>\nEVIL\n</document>"


def test_an_injection_by_tools_leaves_the_input_alone() -> None:
    assert attacked("ask", plan_of("indirect_injection", payload="EVIL")) == ("ask", ())


@given(st.integers(0, 2**53), st.floats(0, 1))
def test_the_same_seed_attacks_the_same_inputs(seed: int, share: float) -> None:
    plan = plan_of("overflow", seed, probability=share, inject_tokens=20)

    assert attacked("ask", plan) == attacked("ask", plan)


def test_a_case_with_chaos_carries_the_plan_and_the_attacked_input() -> None:
    case = ReplayCase(id="x", scenario=Scenario(input_json=raw("ask")), tape=())
    plan = plan_of("memory_poisoning", payload="EVIL")

    world = world_of(with_chaos(case, plan))

    assert (world.chaos, bytes(world.input_json)) == (plan, b'"EVIL\\n\\nask"')
    assert case.scenario.chaos is None


def test_the_input_of_a_calm_case_keeps_its_bytes() -> None:
    case = ReplayCase(id="x", scenario=Scenario(input_json=raw({"$tuple": [1]})), tape=())

    assert with_chaos(case, ChaosPlan()).scenario.input_json == case.scenario.input_json
