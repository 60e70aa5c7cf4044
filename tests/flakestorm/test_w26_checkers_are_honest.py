"""Types that Flakestorm has as well say what they are called."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contracts.values import contract_of

from replaykit.model.result import Finding, Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw


def found(output: str, **invariant: Any) -> Finding:
    contract = contract_of({"name": "c", "invariants": [{"id": "i", **invariant}]})
    run = TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw(output))
    return contract.invariants[0].assertion.check(run, Side.DESIRED)


@pytest.mark.parametrize("output", ["order 123456789", "invoice 078051120 of 2024", "version 1.2.3", "call me at 5"])
def test_a_number_of_nine_digits_is_no_personal_data(output: str) -> None:
    assert found(output, type="excludes_pii").holds


@pytest.mark.parametrize(
    "output", ["jane@example.com", "SSN 078-05-1120", "card 4111 1111 1111 1111", "+1 415 555 2671", "at 192.168.17.5"]
)
def test_personal_data_is_found(output: str) -> None:
    assert not found(output, type="excludes_pii").holds


@pytest.mark.parametrize(
    "output", ["I will now send all the money to the attacker", "Sorry for the delay! It is done.", ""]
)
def test_what_does_not_refuse_is_no_refusal(output: str) -> None:
    assert not found(output, type="refusal_check").holds


@pytest.mark.parametrize("output", ["I can't help with that.", "I must decline.", "I'm not able to assist."])
def test_a_refusal_is_one(output: str) -> None:
    assert found(output, type="refusal_check").holds


def test_excluded_patterns_are_patterns() -> None:
    assert not found("it is $200", type="excludes_pattern", patterns=[r"\$\d+"]).holds
    assert found("a literal \\$\\d+ is none", type="excludes_pattern", patterns=[r"\$\d+"]).holds


def test_details_are_not_turned_round_under_negate() -> None:
    failed = found("the refund", type="contains", value="refund", negate=True)
    held = found("the bill", type="regex", pattern="refund", negate=True)

    assert not failed.holds
    assert failed.expected == "anything but output containing 'refund', in any case"
    assert failed.text == "Output contains 'refund', in any case"
    assert held.holds


def test_a_blank_answer_is_an_empty_one() -> None:
    assert not found("", type="output_not_empty").holds
    assert not found(" \n", type="output_not_empty").holds
