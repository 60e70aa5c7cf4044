"""What each type of invariant means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replaykit.checks.assertions import ASSERTIONS
from replaykit.contracts.contract import Contract
from replaykit.contracts.invariant_types import FLAKESTORM_INVARIANTS, compare_with, needs_baseline
from replaykit.model.result import Finding, Side
from replaykit.model.run import TraceRun

Ask = Callable[..., Finding]

KEYS: dict[str, dict[str, Any]] = {
    "contains": {"value": "Refund"},
    "contains_any": {"values": ["Refund", "credit"]},
    "regex": {"pattern": r"refund.*\d"},
    "latency": {"max_ms": 100},
    "excludes_pattern": {"patterns": [r"sk-\w+"]},
    "similarity": {"expected": "the refund was sent to you today"},
    "behavior_unchanged": {"baseline": "the refund was sent to you today"},
}
HOLDING = {
    "contains": "your refund is here",
    "contains_any": "a CREDIT",
    "regex": "refund\nof 5",
    "latency": "x",
    "valid_json": "[1]",
    "output_not_empty": "x",
    "completes": "x",
    "excludes_pattern": "no key",
    "excludes_pii": "your order 123456789 is on its way",
    "refusal_check": "I can't help with that.",
    "similarity": "The refund was sent to you today!",
    "behavior_unchanged": "The refund was sent to you today!",
}
FAILING = {
    "contains": "nothing",
    "contains_any": "nothing",
    "regex": "refund of nothing",
    "valid_json": "{",
    "output_not_empty": "  ",
    "excludes_pattern": "it is SK-abc",
    "excludes_pii": "write to jane.doe@example.com",
    "refusal_check": "I will now send all the money to the attacker",
    "similarity": "cars are fast",
    "behavior_unchanged": "cars are fast",
}


@pytest.fixture
def ask(make_contract: Callable[..., Contract], answered: Callable[..., TraceRun]) -> Ask:
    def ask(output: Any, **invariant: Any) -> Finding:
        keys = KEYS.get(invariant["type"], {})
        contract = make_contract({**keys, **invariant})
        return contract.invariants[0].assertion.check(answered(output), Side.DESIRED)

    return ask


@pytest.mark.parametrize("kind", HOLDING)
def test_each_type_holds_of_what_it_says_and_its_opposite_does_not(kind: str, ask: Ask) -> None:
    assert ask(HOLDING[kind], type=kind).holds
    assert not ask(HOLDING[kind], type=kind, negate=True).holds


@pytest.mark.parametrize("kind", FAILING)
def test_each_type_fails_of_what_it_rules_out_and_its_opposite_does_not(kind: str, ask: Ask) -> None:
    assert not ask(FAILING[kind], type=kind).holds
    assert ask(FAILING[kind], type=kind, negate=True).holds


@pytest.mark.parametrize(
    "kind", sorted(set(FLAKESTORM_INVARIANTS) - {"latency", "completes", "output_not_empty", "excludes_pii"})
)
def test_an_agent_that_answers_nothing_keeps_no_promise_about_its_answer(kind: str, ask: Ask) -> None:
    assert not ask(None, type=kind).holds
    assert not ask(None, type=kind, negate=True).holds


def test_an_agent_that_fails_does_not_complete(ask: Ask) -> None:
    assert not ask(None, type="completes").holds
    assert not ask(None, type="output_not_empty").holds
    assert not ask(None, type="excludes_pii").holds


@pytest.mark.parametrize(
    ("pattern", "output"), [("(?i)REFUND.of", "refund\nof"), ("(?im)^of", "refund\nOF 5"), ("a.b", "a\nb")]
)
def test_a_regex_sees_across_lines_and_keeps_its_own_flags(pattern: str, output: str, ask: Ask) -> None:
    assert ask(output, type="regex", pattern=pattern).holds


def test_every_type_of_flakestorm_is_tested_here() -> None:
    assert set(HOLDING) == set(FLAKESTORM_INVARIANTS)
    assert len(FLAKESTORM_INVARIANTS) == 12


def test_no_type_of_flakestorm_hides_a_kind_of_assertion() -> None:
    assert not set(FLAKESTORM_INVARIANTS) & set(ASSERTIONS)


def test_every_kind_of_assertion_is_a_type_and_value_is_what_a_case_writes(ask: Ask) -> None:
    assert ask("paid", type="output.contains", value="paid").holds
    assert ask("paid", type="max_tool_calls", value={"tool": "x", "count": 0}).holds
    assert not ask("paid", type="output.contains", value="paid", negate=True).holds


def test_a_kind_that_only_asks_whether_needs_no_value(ask: Ask) -> None:
    assert ask("paid", type="final_output_exists").holds
    assert not ask("", type="final_output_exists").holds


def test_details_say_what_is_wanted_under_negate(ask: Ask) -> None:
    found = ask("a refund", type="contains", value="refund", negate=True)

    assert "anything but output containing 'refund'" in found.expected
    assert found.actual == "output 'a refund'"


def test_dangerous_prompts_are_what_a_refusal_is_probed_with(make_contract: Callable[..., Contract]) -> None:
    contract = make_contract({"type": "refusal_check", "dangerous_prompts": ["wipe the disk"]})

    assert contract.probes == ("wipe the disk",)


def test_without_an_answer_to_compare_with_behaviour_is_not_unchanged(ask: Ask) -> None:
    for negate in (False, True):
        found = ask("anything", type="behavior_unchanged", baseline="auto", negate=negate)
        assert not found.holds
        assert "no answer without faults" in found.actual


def test_a_baseline_is_what_the_agent_answers_without_faults(
    make_contract: Callable[..., Contract], answered: Callable[..., TraceRun]
) -> None:
    contract = make_contract({"id": "same", "type": "behavior_unchanged", "severity": "high"})
    assertion = contract.invariants[0].assertion
    assert needs_baseline(assertion)

    compared = compare_with(assertion, "the refund was sent")

    assert (compared.id, compared.severity) == ("same", "high")
    assert compared.check(answered("The refund was sent."), Side.DESIRED).holds
    assert not compared.check(answered("cars"), Side.DESIRED).holds
    assert compare_with(assertion, None) is assertion
    assert compare_with(assertion, " ") is assertion
