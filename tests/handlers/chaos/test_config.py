"""Chaos in files: what may be written, what it means, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.cases.chaos_shape import CHAOS, plan_of
from replaykit.documents.shape import find_flaws
from replaykit.errors import InvalidFile, UsageError
from replaykit.handlers.chaos.profiles import PROFILES, merged, profile
from replaykit.model.faults import (
    Attack,
    ChaosPlan,
    ContextAttack,
    Drift,
    Grade,
    ModelFault,
    ModelTrouble,
    Strategy,
    ToolFault,
    ToolTrouble,
)
from replaykit.project.chaos_config import load_plan, matrix_of, named_plan

FLAKESTORM = {
    "tool_faults": [
        {"tool": "market_data", "mode": "error", "error_code": 504, "message": "late", "probability": 0.5},
        {
            "tool": "*",
            "mode": "slow",
            "delay_ms": 5000,
            "after_calls": 2,
            "match_url": "https://api/*",
            "payload": None,
        },
    ],
    "llm_faults": [
        {"mode": "truncated_response", "max_tokens": 5, "probability": None},
        {"mode": "response_drift", "drift_type": "json_field_rename", "severity": "subtle"},
    ],
    "context_attacks": [
        {"type": "indirect_injection", "payloads": ["a"], "trigger_probability": 0.3},
        {"type": "memory_poisoning", "inject_at": "input", "payload": "x", "strategy": "append"},
    ],
}


def test_flakestorms_fields_are_read() -> None:
    assert list(find_flaws(CHAOS, FLAKESTORM)) == []
    assert plan_of(FLAKESTORM, seed=7) == ChaosPlan(
        seed=7,
        tool_faults=(
            ToolFault(mode=ToolTrouble.ERROR, tool="market_data", error_code=504, message="late", probability=0.5),
            ToolFault(mode=ToolTrouble.SLOW, delay_ms=5000, after_calls=2, match_url="https://api/*"),
        ),
        llm_faults=(
            ModelFault(mode=ModelTrouble.TRUNCATED, max_tokens=5),
            ModelFault(mode=ModelTrouble.DRIFT, drift_type=Drift.FIELD_RENAME, severity=Grade.LOW),
        ),
        context_attacks=(
            ContextAttack(type=Attack.INDIRECT_INJECTION, payloads=("a",), probability=0.3),
            ContextAttack(type=Attack.MEMORY_POISONING, payload="x", strategy=Strategy.APPEND),
        ),
    )


@pytest.mark.parametrize(
    "attacks",
    [
        [{"type": "overflow", "inject_tokens": 9}],
        {"type": "overflow", "inject_tokens": 9},
        {"overflow": {"inject_tokens": 9}},
    ],
)
def test_attacks_are_a_list_one_of_them_or_a_mapping(attacks: Any) -> None:
    value = {"context_attacks": attacks}

    assert list(find_flaws(CHAOS, value)) == []
    assert plan_of(value).context_attacks == (ContextAttack(type=Attack.OVERFLOW, inject_tokens=9),)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"tool_fault": []}, "did you mean 'tool_faults'"),
        ({"tool_faults": [{"tool": "x"}]}, "'mode' is missing"),
        ({"tool_faults": [{"mode": "eror"}]}, "got 'eror'"),
        ({"tool_faults": [{"mode": "error", "probability": 1.5}]}, "from 0 to 1"),
        ({"tool_faults": [{"mode": "error", "probability": True}]}, "from 0 to 1"),
        ({"tool_faults": [{"mode": "error", "probability": float("nan")}]}, "from 0 to 1"),
        ({"tool_faults": [{"mode": "error", "after_calls": -1}]}, "after_calls"),
        ({"tool_faults": [{"mode": "error", "match": {"city": 1}}]}, "bad JSON path"),
        ({"llm_faults": [{"mode": "response_drift", "drift_type": "moood"}]}, "drift_type"),
        ({"context_attacks": {"overflows": {}}}, "did you mean 'overflow'"),
        ({"context_attacks": [{"type": "memory_poisoning", "inject_at": "$["}]}, "bad JSON path"),
        ("api_outag", "no profile"),
        ({"profile": "storm"}, "no profile"),
        (7, "expected"),
    ],
)
def test_a_mistake_is_named(value: Any, said: str) -> None:
    flaws = list(find_flaws(CHAOS, value, ("chaos",)))

    assert flaws
    assert said in f"{flaws[0].message} {flaws[0].hint}"


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_a_plan_that_a_file_could_spell(name: str) -> None:
    plan = profile(name, seed=3)
    spelled = msgspec.json.decode(msgspec.json.encode(plan))

    assert not plan.is_calm
    assert list(find_flaws(CHAOS, spelled)) == []
    assert plan_of(spelled) == plan
    assert plan_of(name, seed=3) == plan


def test_a_configs_faults_come_before_those_of_its_profile() -> None:
    plan = plan_of({"profile": "api_outage", "seed": 4, "tool_faults": [{"mode": "partial"}]})

    assert [fault.mode for fault in plan.tool_faults] == ["partial", "error"]
    assert (plan.seed, plan.llm_faults) == (4, profile("api_outage").llm_faults)


plans = st.sampled_from([profile(name) for name in PROFILES])


@given(plans, plans)
def test_merging_loses_no_fault(first: ChaosPlan, second: ChaosPlan) -> None:
    both = merged(first, second)

    assert len(both.tool_faults) == len(first.tool_faults) + len(second.tool_faults)
    assert both.llm_faults == first.llm_faults + second.llm_faults
    assert both.context_attacks == first.context_attacks + second.context_attacks


def test_a_plan_survives_its_way_to_another_process() -> None:
    plan = plan_of(FLAKESTORM, seed=7)

    assert msgspec.json.decode(msgspec.json.encode(plan), type=ChaosPlan) == plan


def test_a_file_of_faults_is_read_and_its_mistakes_have_lines(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text("seed: 9\ntool_faults:\n  - {mode: timeout}\n")
    assert load_plan(file) == ChaosPlan(seed=9, tool_faults=(ToolFault(mode=ToolTrouble.TIMEOUT),))
    assert named_plan(str(file), seed=1).seed == 1

    file.write_text("chaos:\n  tool_faults:\n    - {mode: timeout}\n    - {mod: error}\n")
    with pytest.raises(InvalidFile, match=r"storm\.yaml:4: unknown key 'mod'"):
        load_plan(file)

    file.write_text("seed: 9\n")
    with pytest.raises(InvalidFile, match="no fault is in it"):
        load_plan(file)


def test_a_name_that_is_neither_a_profile_nor_a_file_is_an_error() -> None:
    with pytest.raises(UsageError, match="did you mean 'high_latency'"):
        named_plan("hi_latency")


def test_a_matrix_gives_its_worlds() -> None:
    worlds = matrix_of([{"name": "calm"}, {"name": "storm", "profile": "api_outage"}], seed=5)

    assert [(world.name, world.plan.is_calm, world.plan.seed) for world in worlds] == [
        ("calm", True, 5),
        ("storm", False, 5),
    ]
    with pytest.raises(UsageError, match=r"chaos_matrix\[0\]"):
        matrix_of([{"name": "x", "tool_falts": []}])


def test_faults_in_python_are_spelled_as_in_a_file() -> None:
    plan = rk.chaos_plan({"tool_faults": [{"tool": "search", "mode": "timeout"}]}, seed=7)

    assert plan == ChaosPlan(seed=7, tool_faults=(ToolFault(mode=ToolTrouble.TIMEOUT, tool="search"),))
    assert rk.chaos_plan("api_outage", seed=7) == profile("api_outage", seed=7)
    with pytest.raises(UsageError, match="unknown key 'tools'"):
        rk.chaos_plan({"tools": []})
