"""Everything that is wrong with a case, in one go, each with where it is and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaykit.cases import lint
from replaykit.cases.fixtures import write_fixtures
from replaykit.cases.lint import FlawSeverity, Problem
from replaykit.model.events import LlmCall, ToolCall
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.model.values import raw

SEARCH = ToolCall(seq=1, name="search", arguments_json=raw({"q": "x"}), result_json=raw("found"))
ASKED = LlmCall(seq=2, name="gpt", arguments_json=raw({"prompt": "Hi"}), result_json=raw("hello"))
RUN = TraceRun(id="run-1", status=RunStatus.ERROR, events=(SEARCH, ASKED), event_count=2)
GOOD = """\
replaykit: 1
id: {id}
source: {{trace: source-trace.json, run: run-1}}
scenario: {{tools: recorded}}
observed:
  - status_is: error
desired:
  - status_is: success
"""


def case_in(
    parent: Path, text: str = GOOD, *, name: str = "good", calls=(SEARCH, ASKED), run: TraceRun | None = RUN
) -> Path:
    case = parent / name
    case.mkdir()
    (case / "case.yaml").write_text(text.format(id=name) if text is GOOD else text)
    if run is not None:
        (case / "source-trace.json").write_bytes(encode_run(run))
    write_fixtures(case, calls)
    return case


def lint_case(path: Path) -> list[Problem]:
    return besides_the_proof(lint.lint_case(path))


def lint_cases(paths: list[Path]) -> list[Problem]:
    return besides_the_proof(lint.lint_cases(paths))


def besides_the_proof(problems: list[Problem]) -> list[Problem]:
    """None of these cases was ever proven; that has tests of its own, in test_proof.py."""
    return [problem for problem in problems if problem.code not in ("never-red", "no-observed")]


def told(problems: list[Problem]) -> list[tuple[str, int | None]]:
    return [(problem.code, problem.line) for problem in problems]


def lint_text(tmp_path: Path, text: str, **more) -> list[Problem]:
    return lint_case(case_in(tmp_path, f"replaykit: 1\nid: good\n{text}\n", **more))


def assertions(observed: list[str], desired: list[str]) -> str:
    lines = ["observed:", *[f"  - {line}" for line in observed]] if observed else []
    lines += ["desired:", *[f"  - {line}" for line in desired]] if desired else []
    return "\n".join(lines)


def test_a_good_case_has_no_problem(tmp_path):
    assert lint_case(case_in(tmp_path)) == []


def test_everything_the_loader_refuses_is_told_at_once(tmp_path):
    text = """\
replaykit: 1
titel: x
source: {trace: ../x.json}
scenario:
  tools: recordet
  clock: noon
  match: {ignore: [id], on_miss: live}
observed:
  - status_iz: error
  - max_tool_calls: {count: many}
"""
    problems = lint_case(case_in(tmp_path, text))

    assert told(problems) == [
        ("missing-key", 1),
        ("unknown-key", 2),
        ("path-leaves-case", 3),
        ("bad-value", 5),
        ("bad-value", 6),
        ("bad-value", 7),
        ("bad-assertion", 9),
        ("bad-assertion", 10),
    ]
    assert all(problem.severity is FlawSeverity.ERROR and problem.hint for problem in problems)
    assert all(problem.file.endswith("good/case.yaml") for problem in problems)


@pytest.mark.parametrize(
    ("match", "hint"),
    [("{on_miss: live}", "Add live: [names]."), ("{on_miss: fault}", "Add fault: {type: TimeoutError, message: ...}.")],
)
def test_a_way_out_that_leads_nowhere_is_told(match, hint, tmp_path):
    (problem,) = lint_text(tmp_path, f"scenario: {{match: {match}}}\n{assertions(['status_is: error'], [])}")

    assert (problem.code, problem.line, problem.hint) == ("missing-key", 3, hint)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [("a: [", "invalid-file", 1), ("replaykit: 3\n", "format-too-new", None), ("- a", "wrong-type", 1)],
)
def test_a_file_that_is_no_case_is_one_problem(text, code, line, tmp_path):
    assert told(lint_case(case_in(tmp_path, text))) == [(code, line)]


def test_a_case_that_is_not_there_is_a_problem(tmp_path):
    assert told(lint_case(tmp_path / "absent")) == [("invalid-file", None)]


def test_a_case_without_assertions_is_an_error(tmp_path):
    (problem,) = lint_text(tmp_path, "semantic: [It is polite]")

    assert (problem.code, problem.severity) == ("no-assertions", FlawSeverity.ERROR)


def test_a_case_that_desires_nothing_is_a_warning(tmp_path):
    (problem,) = lint_text(tmp_path, assertions(["status_is: error"], []))

    assert (problem.code, problem.severity) == ("no-desired", FlawSeverity.WARNING)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("status_is: success", "status_is: error"),
        ("status_is: [success, timeout]", "status_is: [error, cancelled]"),
        ("final_output_exists: true", "final_output_exists: false"),
        ("tool.calls: {min: 4}", "max_tool_calls: 3"),
        ("tool.calls: {tool: search, min: 4}", "max_tool_calls: 3"),
        ("tool.calls: {tool: search, min: 2}", "max_tool_calls: {tool: search, count: 1}"),
        ("tool.called: search", "max_tool_calls: {tool: search, count: 0}"),
        ("tool.called: {tool: search, min: 3}", "tool.calls: {max: 2}"),
        ("tool.called: search", "tool.not_called: sear*"),
        ("tool.called: search", "tool.not_called: search"),
        ("tool.called: {tool: search, arguments: {q: x, n: 1}}", "tool.not_called: {tool: search, arguments: {q: x}}"),
        ("output.contains: hello world", "output.not_contains: hello"),
        ("output.contains: hello", "final_output_exists: false"),
        ("output.equals: 1", "output.equals: 2"),
        ("tool.called: search", "not: {tool.called: search}"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_assertions_that_cannot_hold_together_are_an_error(one, other, turned, tmp_path):
    desired = [other, one] if turned else [one, other]

    problems = lint_text(tmp_path, assertions(["run.error: x"], desired))

    assert told(problems) == [("contradiction", 7)]
    assert "desired[0] and desired[1] cannot both hold" in problems[0].message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("status_is: [success, error]", "status_is: [error, timeout]"),
        ("tool.calls: {min: 3}", "max_tool_calls: 3"),
        ("tool.called: sear*", "tool.not_called: search"),
        ("tool.calls: {min: 1}", "tool.calls: {max: 1}"),
        ("tool.calls: {min: 4}", "max_tool_calls: {tool: search, count: 3}"),
        ("tool.calls: {min: 4}", "max_tool_calls: {count: 3, same_arguments: true}"),
        ("tool.called: {tool: search, arguments: {q: x}}", "tool.not_called: {tool: search, arguments: {q: y}}"),
        ("output.contains: hello", "output.not_contains: hello world"),
        ("final_output_exists: true", "steps.exhausted: false"),
    ],
)
def test_assertions_that_can_hold_together_are_not(one, other, tmp_path):
    assert lint_text(tmp_path, assertions(["run.error: x"], [one, other])) == []


def test_an_observed_loop_is_not_a_limit(tmp_path):
    observed = ["tool.calls: {min: 4}", "max_tool_calls: 3"]

    assert lint_text(tmp_path, assertions(observed, ["status_is: success"])) == []


def test_a_fix_that_would_be_the_failure_is_an_error(tmp_path):
    (problem,) = lint_text(tmp_path, assertions(["status_is: error"], ["status_is: error", "tool.called: search"]))

    assert (problem.code, problem.line, problem.severity) == ("same-on-both-sides", 6, FlawSeverity.ERROR)


def test_an_assertion_on_both_sides_is_a_warning_while_another_tells_them_apart(tmp_path):
    observed = ["status_is: error", "final_output_exists: false"]
    (problem,) = lint_text(tmp_path, assertions(observed, ["status_is: error"]))

    assert (problem.code, problem.severity) == ("same-on-both-sides", FlawSeverity.WARNING)


def test_a_loop_and_its_limit_may_read_the_same(tmp_path):
    assert lint_text(tmp_path, assertions(["max_tool_calls: 3"], ["max_tool_calls: 3"])) == []


def test_an_assertion_that_is_there_twice_is_a_warning(tmp_path):
    (problem,) = lint_text(tmp_path, assertions(["status_is: error"], ["tool.called: search"] * 2))

    assert (problem.code, problem.line, problem.severity) == ("repeated-assertion", 7, FlawSeverity.WARNING)


def test_a_tool_that_nobody_knows_is_a_warning(tmp_path):
    text = "scenario:\n  tools: {serch: blocked}\n  match: {ignore: ['seach:$.id']}\n"
    text += assertions(["status_is: error"], ["tool.called: saerch", "not: {tool.called: search}"])

    problems = lint_text(tmp_path, text)

    assert told(problems) == [("unknown-tool", 4), ("unknown-tool", 5), ("unknown-tool", 9)]
    assert all("did you mean 'search'?" in problem.message for problem in problems)


@pytest.mark.parametrize(
    "written",
    [
        "trajectory.match: [search, saerch, 'x*']",
        "trajectory.match: {calls: [{tool: saerch}]}",
        "trajectory.before: {first: saerch, then: search}",
        "any: [{tool.called: search}, {not: {tool.args: {tool: saerch, arguments: {}}}}]",
    ],
)
def test_a_tool_is_looked_for_wherever_an_assertion_names_it(written, tmp_path):
    (problem,) = lint_text(tmp_path, assertions(["status_is: error"], [written]))

    assert (problem.code, problem.line) == ("unknown-tool", 6)
    assert "did you mean 'search'?" in problem.message


@pytest.mark.parametrize("written", ["tool.called: 'x*'", "effect.none: [POST *, delete]", "span.exists: plan"])
def test_a_pattern_or_a_request_is_no_unknown_tool(written, tmp_path):
    assert lint_text(tmp_path, assertions(["status_is: error"], [written])) == []


def test_an_id_other_than_the_directory_is_a_warning(tmp_path):
    (problem,) = lint_case(case_in(tmp_path, GOOD.format(id="other")))

    assert (problem.code, problem.line, problem.severity) == ("id-not-directory", 2, FlawSeverity.WARNING)


def test_a_missing_trace_is_an_error(tmp_path):
    (problem,) = lint_case(case_in(tmp_path, run=None))

    assert (problem.code, problem.line, problem.severity) == ("missing-trace", 3, FlawSeverity.ERROR)


def test_a_trace_without_the_run_is_an_error(tmp_path):
    case = case_in(tmp_path, GOOD.format(id="good").replace("run-1", "run-2"))

    (problem,) = lint_case(case)

    assert (problem.code, problem.line) == ("missing-run", 3)
    assert "did you mean 'run-1'?" in problem.message


def test_a_trace_that_cannot_be_read_is_told_where(tmp_path):
    case = case_in(tmp_path)
    (case / "source-trace.json").write_text('{\n  "replaykit": x}')

    (problem,) = lint_case(case)

    assert (problem.code, problem.line) == ("invalid-file", 2)
    assert problem.file.endswith("source-trace.json")


def test_a_trace_format_that_nobody_knows_is_an_error(tmp_path):
    case = case_in(tmp_path, GOOD.format(id="good").replace("run: run-1", "format: nope"))

    assert told(lint_case(case)) == [("bad-value", 3)]


def test_a_match_key_without_effect_is_a_warning(tmp_path):
    text = "scenario: {match: {live: [search]}}\n" + assertions(["status_is: error"], ["status_is: success"])

    assert told(lint_text(tmp_path, text)) == [("unused-key", 3)]


def test_an_ignored_path_that_leads_to_nothing_is_a_warning(tmp_path):
    paths = "['$.q', '$.Q', 'search:$.q', 'search:$.query', '$..q', '$']"
    text = f"scenario: {{match: {{ignore: {paths}}}}}\n" + assertions(["status_is: error"], ["status_is: success"])

    problems = lint_text(tmp_path, text)

    assert [problem.message.split()[1] for problem in problems] == ["$.Q", "search:$.query"]
    assert {(problem.code, problem.severity, problem.line) for problem in problems} == {
        ("unused-key", FlawSeverity.WARNING, 3)
    }


def test_a_call_of_the_trace_without_a_fixture_is_a_warning(tmp_path):
    (problem,) = lint_case(case_in(tmp_path, calls=[SEARCH]))

    assert (problem.code, problem.line, problem.severity) == ("missing-fixture", 4, FlawSeverity.WARNING)
    assert "'gpt'" in problem.message


@pytest.mark.parametrize(
    ("scenario", "file"),
    [("tools: live", "search"), ("tools: {search: blocked}", "search"), ("models: live", "model.gpt")],
)
def test_a_fixture_that_the_scenario_never_serves_is_a_warning(scenario, file, tmp_path):
    case = case_in(tmp_path, GOOD.format(id="good").replace("tools: recorded", scenario))

    (problem,) = [one for one in lint_case(case) if one.code != "asks-for-live"]

    assert (problem.code, problem.severity) == ("unreachable-fixture", FlawSeverity.WARNING)
    assert problem.file.endswith(f"fixtures/{file}.json")


def test_a_fixture_without_an_outcome_is_a_warning(tmp_path):
    case = case_in(tmp_path, calls=[SEARCH, ASKED, ToolCall(seq=3, name="search")])

    (problem,) = lint_case(case)

    assert (problem.code, problem.line, problem.severity) == ("unanswered-fixture", 7, FlawSeverity.WARNING)


def test_a_call_number_that_is_there_twice_is_an_error(tmp_path):
    case = case_in(tmp_path, calls=[SEARCH, ASKED, ToolCall(seq=2, name="search", result_json=raw(1))])

    problems = lint_case(case)

    assert [problem.code for problem in problems] == ["duplicate-call"] * 2
    assert {Path(problem.file).name for problem in problems} == {"search.json", "model.gpt.json"}
    assert all(problem.severity is FlawSeverity.ERROR and problem.line for problem in problems)


def test_every_unreadable_fixture_is_told(tmp_path):
    case = case_in(tmp_path)
    (case / "fixtures" / "a.json").write_text("{")
    (case / "fixtures" / "b.json").write_text('{\n  "replaykit": 9}')

    problems = lint_case(case)

    assert told(problems) == [("invalid-file", 1), ("format-too-new", None)]


def test_a_fixture_that_leads_out_of_the_case_is_told(tmp_path):
    case = case_in(tmp_path)
    (case / "fixtures" / "a.json").symlink_to("/etc/passwd")

    assert "invalid-file" in [problem.code for problem in lint_case(case)]


def test_an_id_that_two_cases_have_is_an_error(tmp_path):
    (tmp_path / "more").mkdir()
    first, second = case_in(tmp_path), case_in(tmp_path / "more")

    (problem,) = lint_cases([first, second])

    assert (problem.code, problem.line, problem.severity) == ("duplicate-id", 2, FlawSeverity.ERROR)
    assert problem.file == str(second / "case.yaml")
    assert str(first) in problem.message


def test_the_same_case_named_twice_is_not_a_duplicate(tmp_path):
    case = case_in(tmp_path)

    assert lint_cases([case, case / "case.yaml", case / ".." / "good"]) == []


def test_a_file_full_of_mistakes_is_told_in_good_time(tmp_path):
    text = "replaykit: 1\nid: good\n" + "".join(f"key{n}: 1\n" for n in range(20_000))

    problems = lint_case(case_in(tmp_path, text))

    assert len(problems) == 100
    assert problems[-1].line == 102


def test_a_value_file_that_nothing_refers_to_is_a_warning(tmp_path):
    large = ToolCall(seq=2, name="search", result_json=raw("0123456789abcdef" * 5000))
    case = case_in(tmp_path, calls=[SEARCH, ASKED, large])
    assert not [problem for problem in lint_case(case) if problem.code == "unused-value"]

    write_fixtures(case, [SEARCH, ASKED])

    (problem,) = (problem for problem in lint_case(case) if problem.code == "unused-value")
    assert (Path(problem.file).parent.name, problem.severity) == ("values", FlawSeverity.WARNING)


def test_a_value_file_that_is_missing_is_an_error_with_its_name(tmp_path):
    large = ToolCall(seq=2, name="search", result_json=raw("0123456789abcdef" * 5000))
    case = case_in(tmp_path, calls=[SEARCH, ASKED, large])
    (file,) = (case / "fixtures" / "values").iterdir()
    file.unlink()

    errors = [problem for problem in lint_case(case) if problem.severity is FlawSeverity.ERROR]

    assert [(problem.file, problem.code) for problem in errors] == [(str(file), "invalid-file")]


@pytest.mark.parametrize(
    ("arguments", "result", "why"),
    [
        ({"parameters": {"temperature": 0}}, {"role": "assistant", "content": "Hi"}, "everything the model was asked"),
        (
            {"messages": [{"role": "user", "content": ""}]},
            {"role": "assistant", "content": "Hi"},
            "everything the model was asked",
        ),
        ({"messages": [{"role": "user", "content": "Hi"}]}, 7, "no message of a model"),
    ],
)
def test_a_models_call_that_a_replay_cannot_serve_is_a_warning(arguments, result, why, tmp_path):
    call = LlmCall(seq=2, name="gpt", arguments_json=raw(arguments), result_json=raw(result))

    (problem,) = lint_case(case_in(tmp_path, calls=[SEARCH, call]))

    assert (problem.code, problem.severity) == ("unservable-model", FlawSeverity.WARNING)
    assert why in problem.message
