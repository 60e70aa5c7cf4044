"""What a contract's file may say, and how mistakes in it are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.values import contract_of

from replaykit.contracts.contract import Severity, When
from replaykit.contracts.find import contract_flaws, find_contract, load_contract
from replaykit.contracts.shape import CONTRACT
from replaykit.documents.document import parse_document
from replaykit.documents.shape import Flaw, find_flaws
from replaykit.errors import InvalidFile, UsageError

GOOD = """\
name: Finance Agent Contract
description: What it promises.
invariants:
  - id: no-invented-prices
    type: excludes_pattern
    patterns: ['\\$\\d+']
    severity: critical
    when: tool_faults_active
    probes: [What is AAPL worth?]
  - id: answers
    type: output_not_empty
  - id: few-calls
    type: max_tool_calls
    value: {tool: market_data_api, count: 2}
    severity: low
"""


def lines(text: str) -> list[tuple[int | None, str]]:
    document = parse_document(text, "c.yaml")
    return [(document.line(flaw.path), flaw.message) for flaw in contract_flaws(document)]


def test_a_contract_is_read_from_a_file_of_its_own() -> None:
    Path("c.yaml").write_text(GOOD)

    contract = load_contract("c.yaml")

    assert contract.name == "Finance Agent Contract"
    first, second, third = contract.invariants
    assert (first.id, first.severity, first.when) == ("no-invented-prices", Severity.CRITICAL, When.TOOL_FAULTS)
    assert first.probes == ("What is AAPL worth?",)
    assert (second.severity, second.when, second.negate) == (Severity.MEDIUM, When.ALWAYS, False)
    assert (third.assertion.kind, third.assertion.id, third.assertion.severity) == (
        "max_tool_calls",
        "few-calls",
        "low",
    )


def test_a_contract_may_be_wrapped_as_in_a_configuration() -> None:
    Path("c.yaml").write_text("contract:\n" + "".join(f"  {line}\n" for line in GOOD.splitlines()))

    assert load_contract("c.yaml").name == "Finance Agent Contract"


@pytest.mark.parametrize(
    ("wrong", "line", "message"),
    [
        ("type: excludes_patern\n    patterns: [x]", 4, "did you mean 'excludes_pattern'?"),
        ("type: contains\n    value: x\n    severity: crtical", 6, "expected critical | high | medium | low"),
        ("type: contains\n    value: x\n    when: tool_fault_active", 6, "expected always | tool_faults_active"),
        ("type: contains\n    valeu: x", 5, "did you mean 'value'?"),
        ("type: contains", 3, "the key 'value' is missing"),
        ("type: contains\n    value: 3", 5, "expected some text"),
        ("type: regex\n    pattern: '('", 5, "bad pattern"),
        ("type: excludes_pattern\n    patterns: []", 5, "expected at least one pattern"),
        ("type: excludes_pattern\n    patterns: []\n    negate: true", 5, "expected at least one pattern"),
        ("type: latency\n    max_ms: fast", 5, "expected a number"),
        ("type: output.contains", 3, "the key 'value' is missing"),
        ("type: max_tool_calls\n    value: {tools: x}", 5, "did you mean 'tool'?"),
        ("type: completes\n    negate: sometimes", 5, "expected true or false"),
        ("type: completes\n    probes: [3]", 5, "expected some text"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_the_nearest_word(wrong: str, line: int, message: str) -> None:
    found, *_ = lines(f"name: c\ninvariants:\n  - id: a\n    {wrong}\n")

    assert found[0] == line
    assert message in found[1]


def test_all_mistakes_are_told_at_once_and_not_only_the_first() -> None:
    found = lines(
        "nam: c\ninvariants:\n  - id: a\n    type: nonsense\n    severity: bad\n  - type: contains\n    value: x\n"
    )

    assert [line for line, _ in found] == [1, 1, 4, 5, 6]


def test_a_contract_without_invariants_is_none() -> None:
    ((line, message),) = lines("name: c\ninvariants: []\n")

    assert (line, message) == (2, "a contract without an invariant promises nothing")


def test_two_invariants_of_one_id_cannot_be_told_apart() -> None:
    ((line, message),) = lines("name: c\ninvariants:\n  - {id: a, type: completes}\n  - {id: a, type: valid_json}\n")

    assert line == 4
    assert "'a' appears twice" in message


@pytest.mark.parametrize("text", ["", "[]", "3", "name: c", "contract: 3", "contract: {}"])
def test_what_is_no_contract_is_an_error_and_not_an_empty_one(text: str, flaws: Callable[[str], list[Flaw]]) -> None:
    assert flaws(text)


def test_a_wrong_file_is_refused_with_its_line() -> None:
    Path("c.yaml").write_text(GOOD.replace("critical", "crtical"))

    with pytest.raises(InvalidFile, match=r"c\.yaml:7: .*expected critical"):
        load_contract("c.yaml")


def test_lint_tells_every_problem_of_a_file_in_the_order_of_its_lines() -> None:
    from replaykit.contracts.find import lint_contracts

    Path("c.yaml").write_text(GOOD.replace("critical", "crtical").replace("output_not_empty", "output_not_emty"))

    assert [(problem.line, problem.code) for problem in lint_contracts("c.yaml")] == [
        (7, "bad-value"),
        (11, "unknown-type"),
    ]


def test_lint_tells_a_file_that_cannot_be_read() -> None:
    from replaykit.contracts.find import lint_contracts

    Path("c.yaml").write_text("name: [")

    (problem,) = lint_contracts("c.yaml")

    assert problem.code == "invalid-file"


def test_a_contract_is_found_by_its_name_before_a_file_of_that_name() -> None:
    Path("c.yaml").write_text(GOOD)
    known = load_contract("c.yaml")
    Path("other.yaml").write_text(GOOD.replace("Finance", "Other"))

    assert find_contract("Finance Agent Contract", {known.name: known}, Path()) is known
    assert find_contract("other.yaml", {known.name: known}, Path()).name == "Other Agent Contract"


def test_a_path_is_relative_to_the_configuration_and_not_to_the_working_directory() -> None:
    Path("conf/contracts").mkdir(parents=True)
    Path("conf/contracts/safety.yaml").write_text(GOOD)

    assert find_contract("./contracts/safety.yaml", {}, Path("conf")).name == "Finance Agent Contract"
    with pytest.raises(UsageError, match="there is no file"):
        find_contract("./contracts/safety.yaml", {}, Path())


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    Path("c.yaml").write_text(GOOD)
    known = load_contract("c.yaml")

    with pytest.raises(UsageError, match="did you mean 'Finance Agent Contract'"):
        find_contract("Finance Agnt Contract", {known.name: known}, Path())


def values() -> st.SearchStrategy[Any]:
    words = st.sampled_from(
        ["name", "id", "type", "value", "values", "patterns", "when", "severity", "probes", "contains", "regex",
         "excludes_pattern", "max_tool_calls", "always", "high", "behavior_unchanged", "baseline", "auto", "negate"]
    )  # fmt: skip
    atoms = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | words
    return st.recursive(
        atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6), max_leaves=12
    )


INVARIANTS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text(min_size=1, max_size=2),
            "type": st.sampled_from(["contains", "regex", "valid_json", "tool.called"]),
        },
        optional={"value": values(), "pattern": values(), "negate": values(), "when": values(), "probes": values()},
    ),
    max_size=3,
)


@given(values() | st.fixed_dictionaries({"name": values(), "invariants": INVARIANTS | values()}))
def test_whatever_a_file_says_it_is_told_what_is_wrong_or_is_a_contract(value: Any) -> None:
    if not list(find_flaws(CONTRACT, value)):
        assert contract_of(value).invariants


def test_the_schema_for_editors_takes_what_the_loader_takes() -> None:
    value = parse_document(GOOD, "c.yaml").value

    jsonschema.validate(value, CONTRACT.schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**value, "nam": "x"}, CONTRACT.schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {**value, "invariants": [{"id": "a", "type": "contains", "severity": "x"}]}, CONTRACT.schema()
        )
