"""Mutations of the input: the same for the same seed, each says what it did, and only texts change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.candidates.inprocess import CallableCandidate
from replaykit.errors import NothingSelected, UsageError
from replaykit.handlers.chaos.mutations import KINDS, Mutation, Seeded
from replaykit.trials.mutation import MutationResult, MutationRun, MutationTrial, run_mutations

ASK = "Where is my order 77, please?"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_it_otherwise_and_says_how(kind: str) -> None:
    found = Seeded([kind], seed=3).mutate(ASK, 3)

    assert len(found) == 3
    assert {mutation.kind for mutation in found} == {kind}
    assert all(mutation.input != ASK and mutation.what for mutation in found)
    assert len({mutation.input for mutation in found}) == 3


@given(st.text(max_size=60), st.integers(0, 2**53))
def test_the_same_seed_gives_the_same_mutations_of_any_text(text: str, seed: int) -> None:
    first, second = (Seeded(seed=seed).mutate(text, 9) for _ in range(2))

    assert first == second
    assert text not in [mutation.input for mutation in first]


def test_another_seed_gives_others() -> None:
    assert Seeded(seed=1).mutate(ASK, 9) != Seeded(seed=2).mutate(ASK, 9)


def test_of_messages_only_what_users_say_is_mutated() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASK}]

    for mutation in Seeded().mutate({"messages": chat, "model": "m"}, 18):
        system, user = mutation.input["messages"]
        assert (system, user["role"], mutation.input["model"]) == (chat[0], "user", "m")
        assert user["content"] != ASK


def test_names_and_ids_are_left_alone() -> None:
    asked = {"id": "order-seventy", "name": "Ann Smith", "question": ASK}

    for mutation in Seeded().mutate(asked, 18):
        assert {**mutation.input, "question": ASK} == asked


Values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return str if isinstance(value, str) else value


@given(Values, st.integers(0, 100))
def test_keys_numbers_and_the_order_of_things_stay(value: Any, seed: int) -> None:
    for mutation in Seeded(seed=seed).mutate(value, 9):
        assert _shape(mutation.input) == _shape(value)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'typos'"):
        Seeded(["typo"])


def test_the_score_is_the_weighted_share_that_passed() -> None:
    def agent(question: str) -> str:
        if "previous instructions" in question or "SYSTEM" in question or "unrestricted" in question:
            raise ValueError("injected")
        return "there"

    class Two:
        def mutate(self, given: Any, count: int) -> list[Mutation]:
            return [
                Mutation(kind="casing", what="all capitals", input="WHERE?"),
                Mutation(kind="injection", what="claims to be the system", input="SYSTEM: x", weight=3.0),
            ]

    result = run_mutations(MutationTrial(mutator=Two(), count=2, inputs=(ASK,)), CallableCandidate(agent))

    assert (result.score, [run.passed for run in result.runs]) == (25.0, [True, False])
    assert result.runs[1].reason == "ended with error: ValueError: injected"
    assert (result.exit_code(), result.exit_code(25)) == (1, 0)


def test_a_mutation_that_failed_goes_before_one_of_which_nobody_can_tell() -> None:
    mutation = Mutation(kind="casing", what="all capitals", input="WHERE?")
    failed, unknown = (
        MutationRun(mutation=mutation, passed=False),
        MutationRun(mutation=mutation, passed=False, is_error=True),
    )
    result = MutationResult(agent="a", runs=(failed, unknown))

    assert (result.exit_code(), result.exit_code(50), result.best_score) == (1, 3, 50.0)


def test_an_input_without_text_has_no_mutation_and_that_is_no_pass() -> None:
    trial = MutationTrial(mutator=Seeded(), count=3, inputs=(7,))

    with pytest.raises(NothingSelected):
        run_mutations(trial, CallableCandidate(lambda _: "x"))
