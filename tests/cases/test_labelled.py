"""Runs that only a label calls a failure: the case tells the bad agent from a good one, for each failed run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.samples import corpus
from tests.matrix import sampled

import replaykit as rk
from replaykit.candidates.worlds import with_consent
from replaykit.cases.label_shortfall import Shortfall, shortfall
from replaykit.cases.lint import lint_case
from replaykit.cases.signatures import detect, propose_desired, propose_semantic
from replaykit.checks.verdict import judge_run
from replaykit.formats.core.labels import ExpectedCall, Label, as_it_ended, labelled, labels_of
from replaykit.formats.files import import_trace
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.isolation import Consent
from replaykit.model.result import ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import ABSENT, canonical, raw
from replaykit.seam.failures import RecordedError

FAILED_RUNS = 57


@pytest.fixture(scope="module")
def runs() -> tuple[TraceRun, ...]:
    return import_trace(corpus("tau-bench/gpt-4o-airline-trials-0-1.json"), "tau_bench").runs


@pytest.fixture(scope="module")
def failed(runs) -> list[TraceRun]:
    return [run for run in runs if run.status is RunStatus.ERROR]


def as_recorded(run: TraceRun) -> Callable[[str], Any]:
    """An agent that does what the run did, call by call."""

    def agent(question: str) -> Any:
        assert question == run.input
        for call in run.tool_calls:
            with suppress(RecordedError):
                rk.call_tool(call.name, call.arguments, never)
        return run.output

    return agent


def as_expected(run: TraceRun) -> Callable[[str], str]:
    """An agent that does what the label expects; what was never recorded is done by a stand-in for the tool."""

    def agent(_question: str) -> str:
        (label,) = labels_of(run)
        for call in label.expected_calls or ():
            rk.call_tool(call.name, call.arguments, lambda _arguments: "done")
        return f"All done. {', '.join(label.expected_output)}"

    return agent


def never(arguments: dict[str, Any]) -> Any:
    raise AssertionError(f"done for real: {arguments}")


def with_leave(case: rk.ReplayCase, run: TraceRun) -> rk.ReplayCase:
    """The case, with leave to call the tools of expected calls for real: `replaykit replay --live NAME`."""
    names = sorted({call.name for label in labels_of(run) for call in label.expected_calls or ()})
    return with_consent(case, Consent(live=tuple(names)))


def test_the_file_has_as_many_failures(failed):
    assert len(failed) == FAILED_RUNS


@sampled("index", range(FAILED_RUNS), count=1)
def test_a_failed_run_of_tau_bench_is_a_case_that_reproduces_and_that_a_good_agent_fixes(index, failed, tmp_path):
    run = failed[index]
    case = rk.scaffold(run, tmp_path / "case")
    assert {problem.code for problem in lint_case(case.directory)} <= {"assumed-tool-errors"}
    # Some runs only talked: the agents here call tools, and ask no model.
    case = msgspec.structs.replace(case, rests_on_output=True)

    again = rk.replay(case, as_recorded(run))
    assert again.verdict is Verdict.REPRODUCED, again.reason
    better = rk.replay(with_leave(case, run), as_expected(run))
    assert better.reproduced is False
    assert better.verdict is Verdict.FIXED, better.reason


def test_a_good_agent_that_may_do_nothing_for_real_leaves_the_tape_and_reproduces_nothing(failed, tmp_path):
    run = next(run for run in failed if labels_of(run)[0].expected_calls)
    case = rk.scaffold(run, tmp_path / "case")

    result = rk.replay(case, as_expected(run))

    assert result.reproduced is False
    assert result.verdict is Verdict.DIVERGED
    assert "left the tape" in result.reason


def test_what_is_expected_tells_the_runs_with_a_reward_from_those_without(runs):
    told = {run.name: shortfall(run, labels_of(run)[0]) == Shortfall() for run in runs}
    rewarded = {run.name: labels_of(run)[0].value == 1 for run in runs}

    differing = {name for name in told if told[name] != rewarded[name]}
    assert differing == {"task 2, trial 1"}, "it did all that was expected, and was cut off before it could say so"


def test_runs_that_got_the_reward_are_no_failures_in_the_eyes_of_the_cases_of_the_same_task(runs, failed):
    good = {run.metadata["task_id"]: run for run in runs if run.status is RunStatus.SUCCESS}
    pairs = [(run, good[run.metadata["task_id"]]) for run in failed if run.metadata["task_id"] in good]

    verdicts = {bad.name: judged(bad, better).verdict for bad, better in pairs}

    assert len(verdicts) == 19
    unfixed = {name for name, verdict in verdicts.items() if verdict is not Verdict.FIXED}
    assert unfixed == {"task 13, trial 0"}, "the good one tried a change that failed, where none was expected"
    assert verdicts["task 13, trial 0"] is Verdict.BROKEN


def judged(bad: TraceRun, candidate: TraceRun) -> ReplayResult:
    """What the failure of one run says of another."""
    signatures = detect(bad)
    return judge_run(
        case_id="c",
        observed=[signature.assertion for signature in signatures],
        desired=propose_desired(bad, signatures),
        semantic=(),
        run=as_it_ended(candidate),
    )


REFUND = ExpectedCall(name="refund", arguments={"order": 7})


def run_of(*calls: ToolCall, output: Any = "Done.", said: str = "") -> TraceRun:
    events: list[Any] = list(calls)
    if said:
        events.append(LlmCall(seq=len(events), name="m", result_json=raw({"role": "assistant", "content": said})))
    output_json = ABSENT if output is None else raw(output)
    return TraceRun(id="r", status=RunStatus.SUCCESS, output_json=output_json, events=tuple(events))


def call(seq: int, name: str, arguments: Any, *, error: str = "") -> ToolCall:
    failure = ErrorInfo(type="ToolError", message=error) if error else None
    result = ABSENT if error else raw("ok")
    return ToolCall(seq=seq, name=name, arguments_json=canonical_raw(arguments), result_json=result, error=failure)


def canonical_raw(value: Any) -> Any:
    return raw(value) if not isinstance(value, dict) else type(raw(0))(canonical(value))


def bad(**about: Any) -> Label:
    return Label(name="reward", value=0, failed=True, **about)


def found(run: TraceRun, *labels: Label) -> list[dict[str, Any]]:
    return [{one.assertion.kind: one.assertion.value} for one in detect(labelled(run, labels))]


def wished(run: TraceRun, *labels: Label) -> list[dict[str, Any]]:
    marked = labelled(run, labels)
    wishes = propose_desired(marked, detect(marked))
    assert [wishes[0].kind, wishes[-1].kind] == ["status_is", "final_output_exists"]
    return [{wish.kind: wish.value} for wish in wishes[1:-1]]


def test_an_expected_call_that_was_not_made():
    run, label = run_of(call(0, "refund", {"order": 8})), bad(expected_calls=(REFUND,))

    value = {"tool": "refund", "arguments": {"order": 7}}
    assert found(run, label) == [{"tool.not_called": value}]
    assert wished(run, label) == [{"tool.called": value}]


def test_an_expected_change_that_was_tried_and_failed():
    run = run_of(call(0, "refund", {"order": 7}, error="no such order"), output="I could not refund it: error.")
    label = bad(expected_calls=(REFUND,), changing_tools=("refund",))

    value = {"tool": "refund", "arguments": {"order": 7}}
    assert {"not": {"effect.exactly_once": value}} in found(run, label)
    assert {"effect.exactly_once": value} in wished(run, label)
    assert {"effect.exactly_once": "refund"} in wished(run, label)


def test_a_change_that_nobody_expected():
    run = run_of(call(0, "get_order", {"order": 7}), call(1, "refund", {"order": 7}))
    label = bad(expected_calls=(), changing_tools=("cancel", "refund"))

    assert found(run, label) == [{"tool.called": {"tool": "refund", "arguments": {"order": 7}}}]
    assert wished(run, label) == [{"effect.none": ["cancel", "refund"]}]


def test_a_change_that_was_made_once_too_often():
    run = run_of(call(0, "refund", {"order": 7}), call(1, "refund", {"order": 7}))
    label = bad(expected_calls=(REFUND,), changing_tools=("refund",))

    assert found(run, label) == [{"tool.called": {"tool": "refund", "arguments": {"order": 7}, "min": 2}}]


def test_a_change_that_was_expected_twice_and_made_once():
    run = run_of(call(0, "refund", {"order": 7}))
    label = bad(expected_calls=(REFUND, REFUND), changing_tools=("refund",))

    value = {"tool": "refund", "arguments": {"order": 7}}
    assert found(run, label) == [{"not": {"tool.called": {**value, "min": 2}}}]
    assert wished(run, label) == [
        {"tool.called": {**value, "min": 2, "max": 2}},
        {"max_tool_calls": {"tool": "refund", "count": 2}},
    ]


def test_arguments_that_are_no_object_name_no_arguments():
    run = run_of(call(0, "refund", "order 7"))

    assert found(run, bad(changing_tools=("refund",))) == [{"tool.called": {"tool": "refund"}}]


@pytest.mark.parametrize(
    ("output", "said", "anywhere", "is_missing"),
    [
        ("It costs $1,786.", "", False, False),
        ("It costs 1786.", "", False, False),
        ("It costs a lot.", "", False, True),
        ("It costs a lot.", "That is $1,786.", False, True),
        ("It costs a lot.", "That is $1,786.", True, False),
        ("It costs a lot.", "That is $1,787.", True, True),
        (None, "", True, True),
    ],
)
def test_expected_output_is_missing_where_nobody_said_it(output, said, anywhere, is_missing):
    label = bad(expected_output=("1786",), said_anywhere=anywhere)
    run = run_of(output=output, said=said)

    saying = {"output.contains_any": {"texts": ["1786", "1,786"], "ignore_case": True}}
    assert ({"not": saying} in found(run, label)) is is_missing
    assert (saying in wished(run, label)) is (is_missing or not anywhere)


def test_a_label_that_says_no_more_than_bad_is_about_the_answer():
    run = run_of(output="Paris")

    assert found(run, bad()) == [{"output.equals": "Paris"}]
    assert wished(run, bad()) == [{"not": {"output.equals": "Paris"}}]
    assert found(run_of(output=None), bad()) == [{"final_output_exists": False}]


def test_a_signature_of_the_answer_says_who_judged_it_and_why():
    (signature,) = detect(labelled(run_of(output="Paris"), [bad(why="it is Rome")]))

    assert signature.text == "reward is 0: it is Rome"


def test_a_run_that_failed_by_itself_says_so_beside_its_label():
    run = TraceRun(id="r", status=RunStatus.ERROR, error=ErrorInfo(type="ValueError", message="no such order at all"))

    kinds = [next(iter(one)) for one in found(run, bad(expected_calls=(REFUND,)))]

    assert kinds == ["status_is", "run.error", "final_output_exists", "tool.not_called"]


def test_a_judge_who_speaks_of_limits_exhausts_none():
    run = run_of(output="Paris")

    assert found(run, bad(why="the agent exceeded the maximum number of turns")) == [{"output.equals": "Paris"}]


def test_good_labels_find_nothing():
    run = run_of(call(0, "refund", {"order": 8}))
    label = Label(name="reward", value=1, expected_calls=(REFUND,), changing_tools=("refund",))

    assert found(run, label) == []
    assert labelled(run, [label]).status is RunStatus.SUCCESS


def test_what_only_judgement_can_check_is_among_the_sentences():
    run = labelled(run_of(), [bad(criteria=("The agent says why.", " ")), bad(criteria=("The agent says why.",))])

    assert propose_semantic(run, detect(run)) == ["The agent says why."]


def test_the_reason_of_a_judge_becomes_a_sentence_and_the_usual_one_is_for_runs_nobody_explained():
    explained = labelled(run_of(), [bad(why="It promised a refund\nthat the policy forbids")])
    unexplained = labelled(run_of(), [bad()])

    assert propose_semantic(explained, detect(explained)) == [
        "The run no longer has the fault that reward names: It promised a refund that the policy forbids"
    ]
    assert propose_semantic(unexplained, detect(unexplained)) == [
        "The response addresses the user's question correctly"
    ]


def test_tools_that_only_a_label_names_are_known_to_lint(tmp_path):
    run = labelled(run_of(call(0, "get_order", {"order": 7})), [bad(expected_calls=(REFUND,))])

    case = rk.scaffold(run, tmp_path / "case")

    assert [one.kind for one in case.observed] == ["tool.not_called"]
    assert lint_case(case.directory) == []


NAMES = st.sampled_from(["refund", "cancel", "get_order"])
ARGUMENTS = st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4)


@given(CALLS, CALLS, st.lists(st.sampled_from(["7", "1786", "Paris"]), max_size=2), st.booleans())
def test_whatever_is_expected_the_run_reproduces_and_one_as_expected_does_not(made, expected, outputs, anywhere):
    label = bad(
        expected_calls=tuple(ExpectedCall(name=name, arguments=given) for name, given in expected),
        changing_tools=("cancel", "refund"),
        expected_output=tuple(outputs),
        said_anywhere=anywhere,
    )
    run = labelled(run_of(*(call(i, *one) for i, one in enumerate(made)), output="No."), [label])
    better = run_of(*(call(i, *one) for i, one in enumerate(expected)), output=f"Yes: {outputs}")

    assert judged(run, run).verdict is Verdict.REPRODUCED
    assert judged(run, better).verdict is Verdict.FIXED


def test_a_known_target_is_asked_for_instead_of_anything_but_the_answer():
    run = labelled(run_of(output="ANSWER: C"), [bad(expected_answer="A", why="ANSWER: C")])

    assert [{one.assertion.kind: one.assertion.value} for one in detect(run)] == [{"not": {"output.answer": "A"}}]
    assert {"output.answer": "A"} in [{one.kind: one.value} for one in propose_desired(run, detect(run))]
    assert propose_semantic(run, detect(run)) == [], "the answer says it all, and the reason only repeats it"
    assert judged(run, run_of(output="ANSWER: D")).verdict is Verdict.REPRODUCED
    assert judged(run, run_of(output="ANSWER: A")).verdict is Verdict.FIXED
