"""When an invariant is asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replaykit.contracts.contract import Conditions, Contract, When, conditions_of
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import raw

CALM = Conditions()
TOOLS = Conditions(tool_faults=True)
MODELS = Conditions(llm_faults=True)
CONTEXT = Conditions(context_faults=True)


@pytest.mark.parametrize(
    ("when", "asked_in"),
    [
        (When.ALWAYS, [CALM, TOOLS, MODELS, CONTEXT]),
        (When.TOOL_FAULTS, [TOOLS]),
        (When.LLM_FAULTS, [MODELS]),
        (When.ANY_CHAOS, [TOOLS, MODELS, CONTEXT]),
        (When.NO_CHAOS, [CALM]),
    ],
)
def test_an_invariant_is_asked_under_its_conditions_and_no_others(
    when: When, asked_in: list[Conditions], make_contract: Callable[..., Contract]
) -> None:
    contract = make_contract({"when": when.value})

    assert [c for c in (CALM, TOOLS, MODELS, CONTEXT) if contract.assertions(c)] == asked_in


def test_why_an_invariant_is_not_asked_is_told() -> None:
    assert CALM.why_not(When.TOOL_FAULTS) == "when: tool_faults_active, and no fault is active"
    assert TOOLS.why_not(When.NO_CHAOS) == "when: no_chaos, and active faults: tool"
    assert TOOLS.why_not(When.TOOL_FAULTS) == ""


def test_assertions_carry_the_id_and_the_severity_of_their_invariant(make_contract: Callable[..., Contract]) -> None:
    contract = make_contract({"id": "one", "severity": "critical"}, {"id": "two", "type": "valid_json", "negate": True})

    found = contract.assertions(CALM)

    assert [(assertion.id, assertion.severity) for assertion in found] == [("one", "critical"), ("two", "medium")]


def test_a_session_with_a_failed_tool_has_tool_faults() -> None:
    error = ErrorInfo(type="ToolError", message="504")

    assert conditions_of(recorded=[ToolCall(seq=0, name="t", result_json=raw("ok"))]) == CALM
    assert (
        conditions_of(
            recorded=[ToolCall(seq=0, name="t", result_json=raw("ok")), ToolCall(seq=1, name="t", error=error)]
        )
        == TOOLS
    )
    assert conditions_of(recorded=[ToolCall(seq=0, name="t", result_json=raw({"status": 503}))]) == TOOLS
    assert conditions_of(recorded=[LlmCall(seq=0, name="m", error=error)]) == MODELS
