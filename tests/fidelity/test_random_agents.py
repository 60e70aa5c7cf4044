"""Random concurrent agents, a few of them: `make fidelity` runs thousands, in many processes."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from tests.fidelity.execution import Execution
from tests.fidelity.programs import Node, Program, edited, planned, program_of, programs
from tests.fidelity.random_agents import Check, Figures, Laboratory, check_edited, check_unchanged, checked_again

import replaykit as rk

EXAMPLES = 15
ATTEMPTS = 10
HELD_UP_S = 0.1


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


class HeldUp(random.Random):
    """Chance of an execution whose fourth call is held up, and its event loop with it."""

    count = 0

    def randrange(self, *limits: Any) -> int:
        self.count += 1
        if self.count == 4:
            time.sleep(HELD_UP_S)
        return super().randrange(*limits)


class BusyLaboratory(Laboratory):
    """A laboratory whose recordings are held up once, and its replays never."""

    def replay(self, *what: Any) -> tuple[Execution, rk.ReplayResult]:
        return Laboratory(self.store, self.chance).replay(*what)

    def _random(self) -> random.Random:
        return HeldUp(self.chance.random())


def hedge(first: Node, second: Node) -> Node:
    return Node("hedge", (first, second), limit_ms=80)


def test_a_call_beyond_the_recording_displaces_the_answers_of_equal_calls_and_that_is_shown(store: rk.Store) -> None:
    twins = Node("as_completed", (hedge(call(150, "b"), call(5)), hedge(call(150, "b"), call(5))))
    program = Program(Node("callbacks", (hedge(call(5, "c"), call(20)), twins, call(290, "b"))))
    figures = Figures()

    for _ in range(ATTEMPTS):  # a machine that is busy itself may decide the recording otherwise
        check_unchanged(BusyLaboratory(store, random.Random(1)), program, figures)
        if figures.counts["displaced, and shown"]:
            break

    assert figures.failures == []
    assert figures.counts["displaced, and shown"] > 0


def test_answers_of_equal_calls_that_are_exchanged_silently_break_the_law(store: rk.Store) -> None:
    class ExchangingLaboratory(Laboratory):
        def replay(self, *what: Any) -> tuple[Execution, rk.ReplayResult]:
            execution, result = super().replay(*what)
            received = execution.received
            received["0.0"], received["0.1"] = received["0.1"], received["0.0"]
            return execution, result

    figures = Figures()

    check_unchanged(ExchangingLaboratory(store, random.Random(1)), Program(Node("gather", (call(5), call(5)))), figures)

    assert [failure["why"] for failure in figures.failures] == ["wrong answer"]
