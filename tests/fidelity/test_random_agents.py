"""Random concurrent agents, a few of them: `make fidelity` runs thousands, in many processes."""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, given, settings

import replaykit as rk

from .programs import Node, Program, edited, planned, program_of, programs
from .random_agents import Check, Laboratory, check_edited, check_unchanged, checked_again

EXAMPLES = 15


@pytest.mark.parametrize("check", [check_unchanged, check_edited])
def test_random_agents_get_their_answers_and_take_their_branches(check: Check, store: rk.Store) -> None:
    laboratory = Laboratory(store, random.Random(1))

    @settings(max_examples=EXAMPLES, database=None, derandomize=True, phases=[Phase.generate])
    @given(programs())
    def each(program: Program) -> None:
        assert checked_again(check, laboratory, program).failures == []

    each()


@given(programs())
def test_a_program_survives_json(program: Program) -> None:
    assert program_of(program.json()) == program


def call(delay_ms: int, key: str = "a") -> Node:
    return Node("call", key=key, delay_ms=delay_ms)


def test_the_deciding_moments_of_a_race_are_the_ends_of_its_calls() -> None:
    plan = planned(Program(Node("race", (call(150), call(5), call(290)))))

    assert plan.branch == ["won", 1, "returned"]
    assert plan.closest_ms == 145
    assert plan.ends_ms == 5


def test_the_deciding_moments_of_a_deadline_are_its_looks_at_the_clock() -> None:
    plan = planned(Program(Node("deadline", (call(5),), limit_ms=220)))

    assert plan.branch == ["polled", 2, ["returned", "returned"]]
    assert plan.closest_ms == 70


def test_an_inserted_call_with_equal_arguments_is_one_more_call() -> None:
    program = Program(Node("gather", (call(5, "a"), call(5, "b"))))

    changed = edited(program, "insert equal", random.Random(3))

    assert changed is not None
    keys = [part.key for part in changed.root.parts]
    assert len(keys) == 3
    assert set(keys) == {"a", "b"}
