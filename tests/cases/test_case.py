"""The case file: read, refused with its line, and written so that it is read back the same."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.cases.case import CaseSource, ReplayCase, Scenario, dump_case, load_case
from replaykit.cases.case_shape import ModelMode
from replaykit.checks.assertions import parse_assertion
from replaykit.errors import FormatTooNew, InvalidFile, UsageError
from replaykit.model.matching import ErrorSpec, MatchMode, MatchRules, OnMiss, ToolMode
from replaykit.model.values import Raw, encode

SEARCH_LOOP = """\
replaykit: 2
id: search-loop
title: Agent loops on a billing timeout
source: {trace: source-trace.json, run: run-billing-2024-0312, format: replaykit}
scenario:
  input: "Why was I charged $49.99?"
  tools: recorded
  models: recorded
  match: {mode: causal, ignore: ["$.request_id"], on_miss: error}
  clock: "2024-03-12T14:32:00Z"
  timeout_s: 60
observed:                    # failure signatures: does it still go wrong this way?
  - status_is: error
  - max_tool_calls: {tool: lookup_billing, count: 5}
  - final_output_exists: false
desired:                     # what a fix must show
  - status_is: success
  - max_tool_calls: 3
  - final_output_exists: true
semantic:                    # needs_human until a judge is configured
  - The response addresses the user's question correctly
"""


def case_in(directory: Path, text: str) -> Path:
    file = directory / "case.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def loaded(directory: Path, text: str) -> ReplayCase:
    return load_case(case_in(directory, text))


def refused(directory: Path, text: str) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        loaded(directory, text)
    return caught.value


def test_the_example_of_the_design_is_a_case(tmp_path):
    case = loaded(tmp_path, SEARCH_LOOP)

    assert case.id == "search-loop"
    assert case.source == CaseSource(trace="source-trace.json", run="run-billing-2024-0312", format="replaykit")
    assert case.scenario.input == "Why was I charged $49.99?"
    assert case.scenario.tool_mode("lookup_billing") is ToolMode.RECORDED
    assert case.scenario.models is ModelMode.RECORDED
    assert case.scenario.match == MatchRules(ignore=("$.request_id",))
    assert case.scenario.clock == "2024-03-12T14:32:00Z"
    assert case.scenario.timeout_s == 60
    assert [assertion.kind for assertion in case.observed] == ["status_is", "max_tool_calls", "final_output_exists"]
    assert case.desired[1] == parse_assertion("max_tool_calls", 3)
    assert case.semantic == ("The response addresses the user's question correctly",)
    assert case.directory == tmp_path
    assert case.file == tmp_path / "case.yaml"
    assert case.trace_path == tmp_path / "source-trace.json"


def test_a_case_is_written_as_the_design_shows_it(tmp_path):
    assert dump_case(loaded(tmp_path, SEARCH_LOOP)) == SEARCH_LOOP


def test_a_case_can_be_named_by_its_directory(tmp_path):
    assert loaded(tmp_path, SEARCH_LOOP) == load_case(tmp_path) == load_case(str(tmp_path))


def test_what_is_left_out_has_a_default(tmp_path):
    case = loaded(tmp_path, "replaykit: 1\nid: least\n")

    assert case == ReplayCase(id="least", directory=tmp_path)
    assert case.scenario == Scenario()
    assert case.scenario.input is None
    assert case.trace_path is None


def test_tools_can_be_set_one_by_one(tmp_path):
    scenario = loaded(
        tmp_path, "replaykit: 1\nid: x\nscenario:\n  tools: {search: live, '*': blocked}\n  models: live\n"
    ).scenario

    assert scenario.tool_mode("search") is ToolMode.LIVE
    assert scenario.tool_mode("refund") is ToolMode.BLOCKED
    assert scenario.models is ModelMode.LIVE


def test_tools_that_are_not_named_are_recorded(tmp_path):
    scenario = loaded(tmp_path, "replaykit: 1\nid: x\nscenario: {tools: {search: live}}\n").scenario

    assert scenario.tool_mode("refund") is ToolMode.RECORDED


def test_tagged_values_in_the_input_come_back_as_what_they_stand_for(tmp_path):
    scenario = loaded(tmp_path, "replaykit: 1\nid: x\nscenario: {input: {$tuple: [1, .inf]}}\n").scenario

    assert scenario.input == (1, float("inf"))


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (3, "titel: x", "unknown key 'titel'; did you mean 'title'?"),
        (4, "scenario:\n  tool: live", "unknown key 'tool' in scenario; did you mean 'tools'?"),
        (5, "scenario:\n  match:\n    on_mis: error", "unknown key 'on_mis' in scenario.match; did you mean 'on_miss'"),
        (3, "source: {path: x}", "unknown key 'path' in source"),
        (4, "title: x\nsource: x", "source: expected a mapping, got 'x'"),
        (3, "title: 12", 'expected text, got 12\nQuote it: "12"'),
        (3, "title: [x]", "title: expected text, got a list"),
        (3, "observed: {status_is: error}", "observed: expected a list, got a mapping"),
        (3, "observed:", "observed: expected a list, got nothing"),
        (4, "observed:\n  - status_is error", "observed[0]: expected one assertion"),
        (5, "observed:\n  - status_is: error\n  - {}", "got 0 keys"),
        (4, "observed:\n  - status_is: error\n    max_tool_calls: 3", "got 2 keys"),
        (5, "desired:\n  - status_is: error\n  - status_iz: error", "unknown assertion 'status_iz'; did you mean"),
        (4, "desired:\n  - status_is: sucess", "did you mean 'success'?"),
        (6, "desired:\n  - max_tool_calls:\n     count: 3\n     tol: x", "unknown parameter 'tol'; did you mean"),
        (3, "scenario: {tools: recordet}", "recorded | live | blocked, got 'recordet'\nDid you mean 'recorded'?"),
        (3, "scenario: {tools: {a: recordet}}", "scenario.tools.a: expected recorded"),
        (3, "scenario: {models: blocked}", "scenario.models: expected recorded | live"),
        (3, "scenario: {clock: yesterday}", "scenario.clock: expected a time with a zone"),
        (3, "scenario: {clock: 2024-03-12T14:32:00}", "scenario.clock: expected a time with a zone"),
        (3, "scenario: {timeout_s: 0}", "scenario.timeout_s: expected a number above 0"),
        (3, "scenario: {timeout_s: true}", "scenario.timeout_s: expected a number"),
        (3, "scenario: {timeout_s: .nan}", "scenario.timeout_s: expected a number"),
        (3, "scenario: {match: {ignore: [request_id]}}", "ignore[0]: bad JSON path 'request_id' at character 1"),
        (3, "scenario: {match: {on_miss: live}}", "Add live: [names]"),
        (3, "scenario: {match: {on_miss: fault}}", "the fault is missing"),
        (3, "scenario: {match: {fault: {message: x}}}", "the key 'type' is missing in scenario.match.fault"),
        (3, "semantic: ['  ']", "semantic[0]: expected some text"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_the_way_out(line, text, words, tmp_path):
    error = refused(tmp_path, f"replaykit: 1\nid: x\n{text}\n")

    assert words in str(error)
    assert (error.file, error.line) == (str(tmp_path / "case.yaml"), line)


@pytest.mark.parametrize(
    "case_id", ["", "../x", "a/b", "a\\b", ".hidden", "-flag", "a b", "a:b", "nul\\0", "x" * 81, "a\\n"]
)
def test_an_id_must_be_a_file_name(case_id, tmp_path):
    assert "id: expected an id" in str(refused(tmp_path, f'replaykit: 1\nid: "{case_id}"\n'))


@pytest.mark.parametrize(
    "text", ["", "- a\n", "just text\n", "id: x\n", "replaykit: 0\nid: x\n", "replaykit: true\nid: x\n"]
)
def test_what_is_no_case_of_a_known_version_is_refused(text, tmp_path):
    refused(tmp_path, text)


def test_a_case_of_a_newer_version_says_so_whatever_else_is_in_it(tmp_path):
    with pytest.raises(FormatTooNew, match="case format 3, this version reads up to 2"):
        loaded(tmp_path, "replaykit: 3\nanything: new\n")


@pytest.mark.parametrize(
    "trace", ["../trace.json", "/etc/passwd", "a/../../x", "C:\\\\x", "..\\\\x", "//host/x", "C:x", "x\\0", " "]
)
def test_the_source_trace_cannot_leave_the_case(trace, tmp_path):
    error = refused(tmp_path, f'replaykit: 1\nid: x\nsource:\n  trace: "{trace}"\n')

    assert error.line == 4
    assert "source.trace: " in str(error)


def test_a_link_out_of_the_case_is_refused(tmp_path):
    case = tmp_path / "case"
    case.mkdir()
    (tmp_path / "secret.json").write_text("{}")
    (case / "trace.json").symlink_to("../secret.json")
    (case / "folder").symlink_to(tmp_path)

    for trace in ("trace.json", "folder/secret.json"):
        error = refused(case, f"replaykit: 1\nid: x\nsource: {{trace: {trace}}}\n")
        assert "is a link that leaves the case's directory" in str(error)


def test_a_link_that_is_made_later_is_refused_as_well(tmp_path):
    case = loaded(tmp_path, "replaykit: 1\nid: x\nsource: {trace: trace.json}\n")
    (tmp_path / "trace.json").symlink_to("/etc/passwd")

    with pytest.raises(InvalidFile, match="link that leaves"):
        _ = case.trace_path


def test_a_case_file_that_is_itself_a_link_out_is_refused(tmp_path):
    (tmp_path / "case").mkdir()
    case_in(tmp_path, SEARCH_LOOP)
    (tmp_path / "case" / "case.yaml").symlink_to("../case.yaml")

    with pytest.raises(InvalidFile, match="leaves the case's directory"):
        load_case(tmp_path / "case")


def test_a_link_to_a_whole_case_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    loaded(tmp_path / "real", SEARCH_LOOP)
    (tmp_path / "link").symlink_to("real")

    assert load_case(tmp_path / "link").id == "search-loop"


def test_loading_runs_nothing(tmp_path):
    witness = tmp_path / "witness"
    text = f"replaykit: 1\nid: x\nscenario:\n  input: !!python/object/apply:os.system ['touch {witness}']\n"

    error = refused(tmp_path, text)

    assert error.line == 4
    assert not witness.exists()


def test_a_case_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InvalidFile, match="no such file"):
        load_case(tmp_path / "absent")


def test_an_input_too_deep_for_a_file_is_not_written():
    deep = Raw(b"[" * 120 + b"]" * 120)

    with pytest.raises(UsageError, match="nested deeper"):
        dump_case(ReplayCase(id="x", scenario=Scenario(input_json=deep)))


texts = st.text(st.characters(codec="utf-8"), max_size=20)
words = texts.filter(str.strip)
names = st.sampled_from(["search", "refund", "*", "lookup billing", "yes", "0x1"])
inputs = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.dates() | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=10,
)
assertions = st.one_of(
    st.sampled_from(["success", "error", ["error", "timeout"]]).map(lambda v: parse_assertion("status_is", v)),
    st.integers(0, 9).map(lambda v: parse_assertion("max_tool_calls", v)),
    st.builds(lambda t, n: parse_assertion("max_tool_calls", {"tool": t, "count": n}), names, st.integers(0, 9)),
    words.map(lambda v: parse_assertion("output.contains", v)),
    words.map(lambda v: parse_assertion("not", {"output.contains": v})),
    st.builds(lambda t, a: parse_assertion("tool.called", {"tool": t, "arguments": {t: a}}), names, texts),
)
rules = st.builds(
    MatchRules,
    mode=st.sampled_from(MatchMode),
    ignore=st.lists(st.sampled_from(["$.id", "$..request_id", "search:$['a b'][0].*"]), max_size=2).map(tuple),
    on_miss=st.sampled_from(OnMiss),
    live=st.lists(names, min_size=1, max_size=2).map(tuple),
    fault=st.builds(ErrorSpec, type=words, message=texts),
)
scenarios = st.builds(
    Scenario,
    input_json=inputs.map(lambda value: Raw(encode(value))),
    tools=st.dictionaries(names, st.sampled_from(ToolMode), max_size=3).map(lambda modes: tuple(modes.items())),
    models=st.sampled_from(ModelMode),
    match=rules,
    clock=st.sampled_from([None, "2024-03-12T14:32:00Z", "2024-03-12T14:32:00.5+02:00"]),
    timeout_s=st.integers(1, 1000) | st.floats(0.001, 1000),
)
cases = st.builds(
    ReplayCase,
    id=st.from_regex(r"[A-Za-z0-9é][A-Za-z0-9._é-]{0,20}", fullmatch=True),
    title=texts,
    source=st.builds(
        CaseSource, trace=st.none() | st.just("a/trace.json"), run=st.none() | words, format=st.none() | words
    ),
    scenario=scenarios,
    observed=st.lists(assertions, max_size=3).map(tuple),
    desired=st.lists(assertions, max_size=3).map(tuple),
    semantic=st.lists(words, max_size=3).map(tuple),
    tags=st.lists(words, max_size=3).map(tuple),
    notes=texts | st.just("one\n\ntwo\n"),
)


@given(cases)
def test_what_is_written_is_read_back_the_same(case):
    with tempfile.TemporaryDirectory() as directory:
        case = msgspec.structs.replace(case, directory=Path(directory))

        assert loaded(Path(directory), dump_case(case)) == case


@given(st.data())
def test_a_damaged_case_is_a_case_or_an_invalid_file(data):
    text = SEARCH_LOOP.encode()
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 20))
    damaged = text[:start] + data.draw(st.binary(max_size=10)) + text[start + length :]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "case.yaml")
        file.write_bytes(damaged)

        try:
            found = load_case(file)
        except (InvalidFile, FormatTooNew) as error:
            found = error

    assert isinstance(found, ReplayCase | FormatTooNew) or found.file == os.fspath(file)
