"""The published JSON Schema: current, valid, and of one mind with the loader."""

from __future__ import annotations

from importlib.resources import files

import jsonschema
import pytest

from replaykit.cases.case import load_case
from replaykit.cases.schema import SCHEMA_FILE, case_schema, schema_text
from replaykit.checks.assertions import ASSERTIONS
from replaykit.checks.reference import all_kinds
from replaykit.documents.document import parse_document
from replaykit.errors import InvalidFile

START = "replaykit: 1\nid: x\n"
GOOD = [
    "",
    "title: A title\ntags: [a, b]\nnotes: x\nsemantic: [It is polite]",
    "source: {trace: source-trace.json, run: r, format: replaykit}",
    "scenario: {input: {any: [1, null]}, tools: live, models: live, clock: '2024-03-12T14:32:00Z', timeout_s: 0.5}",
    "scenario: {input: null, tools: {a: blocked, '*': recorded}, clock: null}",
    "scenario: {match: {mode: strict, ignore: ['$.a'], on_miss: live, live: [a]}}",
    "scenario: {match: {on_miss: fault, fault: {type: TimeoutError, message: late}}}",
    "observed: [{status_is: error}, {max_tool_calls: {tool: a, count: 5}}]\ndesired: [{max_tool_calls: 3}]",
    "desired: [{not: {tool.called: a}}, {output.equals: {a: 1}}, {trajectory.match: [a, b]}]",
]
BAD = [
    "titel: x",
    "title: 1",
    "id2: x",
    "tags: a",
    "tags: [1]",
    "source: {traces: x}",
    "scenario: {tools: recordet}",
    "scenario: {tools: {a: recordet}}",
    "scenario: {timeout_s: 0}",
    "scenario: {timeout_s: '1'}",
    "scenario: {match: {mode: x}}",
    "scenario: {match: {fault: {message: x}}}",
    "observed: [status_is]",
    "observed: [{status_iz: error}]",
    "observed: [{status_is: error, max_tool_calls: 3}]",
    "observed: [{}]",
    "observed: [{max_tool_calls: three}]",
    "observed: [{max_tool_calls: {tol: a, count: 3}}]",
    "observed: [{not: {max_tool_calls: three}}]",
    "semantic: ['']",
]


@pytest.fixture(scope="module")
def validator():
    schema = case_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_shipped_schema_is_current():
    shipped = files("replaykit.cases").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")

    assert shipped == schema_text(), "python -m replaykit.cases.schema > src/replaykit/cases/case.schema.json"


@pytest.mark.parametrize("text", GOOD)
def test_what_the_loader_accepts_the_schema_accepts(text, validator, tmp_path):
    (tmp_path / "case.yaml").write_text(START + text)

    assert load_case(tmp_path).id == "x"
    assert validator.is_valid(parse_document(START + text, "case.yaml").value)


@pytest.mark.parametrize("text", BAD)
def test_what_the_schema_refuses_the_loader_refuses(text, validator, tmp_path):
    (tmp_path / "case.yaml").write_text(START + text)

    assert not validator.is_valid(parse_document(START + text, "case.yaml").value)
    with pytest.raises(InvalidFile):
        load_case(tmp_path)


@pytest.mark.parametrize("text", ["id: x", "replaykit: 1", "replaykit: 3\nid: x", "replaykit: 1\nid: a/b", "[]"])
def test_what_is_no_case_is_refused(text, validator):
    assert not validator.is_valid(parse_document(text, "case.yaml").value)


def test_every_example_of_an_assertion_is_accepted(validator):
    for info in all_kinds():
        for example in info.examples:
            value = parse_document(f"{START}desired:\n- {example}\n", "case.yaml").value
            assert validator.is_valid(value), example


@pytest.mark.parametrize(
    "text",
    [
        "output.json: objct",
        "output.length: {max: -1}",
        "tool.args: {tool: a, arguments: {}, match: exat}",
        "trajectory.match: {calls: [{tol: a}]}",
        "trajectory.match: {calls: [], overrides: {a: exat}}",
        "threshold: {of: [{status_is: success}], min: 2}",
        "all: [{status_iz: success}]",
        "safety.no_pii: [outputs]",
        "state.diff: {form: step_1}",
        "custom.python: {limit: 3}",
    ],
)
def test_what_no_assertion_says_is_refused_by_both(text, validator, tmp_path):
    (tmp_path / "case.yaml").write_text(f"{START}desired:\n- {text}\n")

    assert not validator.is_valid(parse_document(f"{START}desired:\n- {text}\n", "case.yaml").value)
    with pytest.raises(InvalidFile):
        load_case(tmp_path)


def test_every_assertion_is_described():
    known = case_schema()["$defs"]["assertion"]["properties"]

    assert list(known) == list(ASSERTIONS)
    assert all(entry["description"] for entry in known.values())
