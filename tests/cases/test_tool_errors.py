"""Failed tools of foreign traces: the case says whether they return the text or raise, and a replay does as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.cases.lint import lint_case
from replaykit.cases.proof import ProofWriter
from replaykit.cases.run_session import seen
from replaykit.export.forms import export_run
from replaykit.formats.files import import_trace
from replaykit.model.result import Verdict

TEXT, ANSWER = "Error: no such user", "All refunded."


@rk.tool
def get_user(user_id: str) -> Any:
    raise AssertionError("done for real")


@rk.tool
def refund(order_id: str) -> Any:
    raise AssertionError("done for real")


class Agent:
    """Asks for the user, hides what went wrong, and remembers how it was told."""

    def __init__(self) -> None:
        self.returned: list[Any] = []
        self.raised: list[str] = []

    def __call__(self, _question: str) -> str:
        try:
            self.returned.append(get_user("u1"))
        except rk.ToolError as error:
            self.raised.append(str(error))
        return ANSWER


def openai_chat(*results: tuple[str, dict[str, Any], str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Refund it"}]
    for number, (name, arguments, text) in enumerate(results):
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return [*messages, {"role": "assistant", "content": ANSWER}]


def anthropic(*, is_error: bool) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": "t1", "name": "get_user", "input": {"user_id": "u1"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": TEXT, "is_error": is_error}
    return [
        {"role": "user", "content": "Refund it"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
    ]


def case_of(tmp_path: Path, trace: Any) -> rk.ReplayCase:
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    (run,) = import_trace(tmp_path / "trace.json").runs
    return rk.scaffold(run, tmp_path / "case")


def with_key(case: rk.ReplayCase, old: str, new: str) -> rk.ReplayCase:
    text = case.file.read_text()
    assert text.count(old) == 1
    case.file.write_text(text.replace(old, new))
    return rk.load_case(case.directory)


def test_a_text_is_returned_and_a_changed_key_raises_it(tmp_path):
    case = case_of(tmp_path, openai_chat(("get_user", {"user_id": "u1"}, TEXT)))
    assert "  tool_errors: returned\n" in case.file.read_text()
    assert [one.kind for one in case.observed] == ["tool.ignored_error"], "a failure, however it ends"
    first, second = Agent(), Agent()

    returned = rk.replay(case, first)
    raised = rk.replay(with_key(case, "tool_errors: returned", "tool_errors: raised"), second)

    assert (first.returned, first.raised) == ([TEXT], [])
    assert (second.returned, second.raised) == ([], ["no such user"])
    assert [returned.verdict, raised.verdict] == [Verdict.REPRODUCED] * 2


def test_a_flagged_failure_is_raised_and_a_changed_key_returns_its_text(tmp_path):
    case = case_of(tmp_path, anthropic(is_error=True))
    assert "  tool_errors: raised\n" in case.file.read_text()
    first, second = Agent(), Agent()

    raised = rk.replay(case, first)
    returned = rk.replay(with_key(case, "tool_errors: raised", "tool_errors: returned"), second)

    assert (first.returned, first.raised) == ([], ["no such user"])
    assert (second.returned, second.raised) == ([TEXT], [])
    assert [raised.verdict, returned.verdict] == [Verdict.REPRODUCED] * 2


def test_each_tool_may_end_in_its_own_way(tmp_path):
    case = case_of(
        tmp_path, openai_chat(("get_user", {"user_id": "u1"}, TEXT), ("refund", {"order_id": "7"}, "Error: too late"))
    )
    case = with_key(case, "tool_errors: returned", 'tool_errors: {refund: raised, "*": returned}')

    def agent(_question: str) -> str:
        found = get_user("u1")
        with pytest.raises(rk.ToolError, match="too late"):
            refund("7")
        assert found == TEXT
        return ANSWER

    assert rk.replay(case, agent).verdict is Verdict.REPRODUCED


def test_a_trace_without_failures_needs_no_key(tmp_path):
    case = case_of(tmp_path, openai_chat(("get_user", {"user_id": "u1"}, "Ann")))

    assert "tool_errors" not in case.file.read_text()


def test_lint_explains_the_assumption_until_an_agent_has_failed_as_the_run_did(tmp_path):
    case = case_of(tmp_path, openai_chat(("get_user", {"user_id": "u1"}, TEXT)))

    (problem,) = [one for one in lint_case(case.directory) if one.code == "assumed-tool-errors"]
    assert problem.message.endswith("a failed call of 'get_user'; a replay assumes that it was returned")
    assert problem.hint == "If the tool raises an exception, set scenario.tool_errors: {get_user: raised}."
    ProofWriter(case).write(red="python agent.py")
    assert [one.code for one in lint_case(case.directory)] == []
    with_key(case, "tool_errors: returned", "tool_errors: raised")
    assert sorted(one.code for one in lint_case(case.directory)) == ["assumed-tool-errors", "stale-proof"]


def test_lint_names_a_key_that_has_no_effect(tmp_path):
    case = case_of(tmp_path, openai_chat(("get_user", {"user_id": "u1"}, "Ann")))
    with_key(case, "  models: recorded\n", "  models: recorded\n  tool_errors: {get_user: raised, get_usr: raised}\n")

    problems = {one.code: one.message for one in lint_case(case.directory) if "tool_errors" in one.message}

    assert list(problems) == ["unused-key"]
    assert [one.message for one in lint_case(case.directory) if one.code == "unknown-tool"]


def test_a_session_holds_a_returned_error_as_a_response_and_a_raised_one_as_a_failure(tmp_path):
    def seen_call(trace: Any) -> Any:
        (tmp_path / "trace.json").write_text(json.dumps(trace))
        (run,) = import_trace(tmp_path / "trace.json").runs
        return seen(run.tool_calls[0])

    returned = seen_call(openai_chat(("get_user", {"user_id": "u1"}, TEXT)))
    raised = seen_call(anthropic(is_error=True))

    assert (returned.status, bytes(returned.response_json)) == (None, json.dumps(TEXT).encode())
    assert raised.status == 500


def test_a_native_trace_that_is_written_from_a_run_says_what_came_back(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(openai_chat(("get_user", {"user_id": "u1"}, TEXT))))
    (run,) = import_trace(tmp_path / "trace.json").runs

    (tmp_path / "native.json").write_bytes(export_run(run, "replaykit"))
    (again,) = import_trace(tmp_path / "native.json").runs

    assert again.tool_calls[0].result == TEXT
