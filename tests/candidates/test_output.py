"""Runner output: whatever a candidate writes becomes a run, or a reason why there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.candidates import output
from replaykit.candidates.attempt import Attempt
from replaykit.candidates.output import parse_output, read_output, write_log_output
from replaykit.checks.failures import call_failed
from replaykit.model.events import ErrorEvent
from replaykit.model.result import Deviation
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.testing import sample_run


def said(**fields: Any) -> Attempt:
    """What a runner output with these fields gives."""
    return parse_output(json.dumps({"status": "success", **fields}).encode())


def run_of(attempt: Attempt) -> TraceRun:
    assert attempt.reason == ""
    assert attempt.run is not None
    return attempt.run


def reason_of(attempt: Attempt) -> str:
    assert attempt.run is None
    assert attempt.reason
    return attempt.reason


def read_everything(attempt: Attempt) -> None:
    """Look at all that the checks and the evidence look at later."""
    if attempt.run is None:
        return
    _ = attempt.run.output
    for call in attempt.run.tool_calls:
        _ = call.arguments, call_failed(call)
    msgspec.json.format(msgspec.json.encode(attempt.run))


def test_a_byte_order_mark_is_skipped() -> None:
    assert run_of(parse_output(b'\xef\xbb\xbf{"status": "success", "final_output": 1}')).output == 1


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({"toolCalls": [{"tool_name": "a"}]}, "tool_calls"),
        ({"tool_call": [{"tool_name": "a"}]}, "tool_calls"),
        ({"finalOutput": "x"}, "final_output"),
        ({"error": "boom"}, "errors"),
        ({"tool_calls": [{"tool_name": "a", "toolArgs": {"b": 1}}]}, "tool_args"),
    ],
)
def test_a_misspelt_field_is_told_and_not_passed_over(fields: dict[str, Any], meant: str) -> None:
    assert f"did you mean {meant!r}?" in reason_of(said(**fields))


@pytest.mark.parametrize(
    "fields", [{"error": None}, {"errors": [], "error": "x"}, {"toolCalls": []}, {"model": "m"}, {"steps": 3}]
)
def test_other_fields_are_ignored(fields: dict[str, Any]) -> None:
    assert run_of(said(**fields)).status is RunStatus.SUCCESS


def test_the_contract_of_the_readme_becomes_a_run() -> None:
    attempt = said(
        run_id="run-001",
        final_output="Here is the answer.",
        tool_calls=[{"tool_name": "lookup", "tool_args": {"b": 1, "a": 2}, "tool_output": "found"}],
        errors=[],
    )

    run = run_of(attempt)
    (call,) = run.tool_calls
    assert (run.id, run.status, run.output, run.error) == ("run-001", "success", "Here is the answer.", None)
    assert (call.name, call.arguments, call.result) == ("lookup", {"a": 2, "b": 1}, "found")
    assert bytes(call.arguments_json) == b'{"a":2,"b":1}', "canonical, as recorded arguments are"
    assert run.origin.kind == "replayed"


def test_a_status_is_all_that_is_needed() -> None:
    run = run_of(parse_output(b'{"status": "error"}'))

    assert (run.id, run.status, run.output, run.events) == ("runner", "error", None, ())


def test_fields_nobody_knows_are_left_alone() -> None:
    run = run_of(said(final_output=1, cost_usd=0.1, tool_calls=[{"tool_name": "a", "latency_ms": 3}]))

    assert run.output == 1


@pytest.mark.parametrize("answer", [0, False, "", [], {}, 1.5, "x", {"$set": [1]}])
def test_any_answer_but_null_is_an_answer(answer: Any) -> None:
    assert run_of(said(final_output=answer)).output == answer


def test_null_and_nothing_are_no_answer() -> None:
    assert not run_of(said(final_output=None)).output_json
    assert not run_of(said()).output_json


@pytest.mark.parametrize("status", ["success", "error", "timeout", "cancelled"])
def test_every_way_to_end_is_a_status(status: str) -> None:
    assert run_of(said(status=status)).status == status


@pytest.mark.parametrize("status", ["running", "failed", "SUCCESS", "", " success"])
def test_an_unknown_status_names_the_known_ones(status: str) -> None:
    reason = reason_of(said(status=status))

    assert f"`status` is {status!r}" in reason
    assert "success, error, timeout, cancelled" in reason


def test_errors_are_told_as_texts_and_as_objects() -> None:
    late = {"type": "TimeoutError", "message": "too late"}
    attempt = said(status="error", errors=["it broke", late, {"error": "hm"}])

    run = run_of(attempt)
    assert [str(event.error) for event in run.events if isinstance(event, ErrorEvent)] == [
        "Error: it broke",
        "TimeoutError: too late",
        "Error: hm",
    ]
    assert str(run.error) == "Error: hm", "the last one is how the run ended"


def test_a_run_that_succeeded_after_errors_did_not_end_with_one() -> None:
    run = run_of(said(errors=["tried again"]))

    assert run.error is None
    assert len(run.events) == 1


def test_an_odd_error_object_is_still_an_error() -> None:
    run = run_of(said(status="error", errors=[{"type": ["x"], "message": {"code": 1}}, {}]))

    told = [str(event.error) for event in run.events if isinstance(event, ErrorEvent)]
    assert told == ["['x']: {'code': 1}", "Error"]


@pytest.mark.parametrize("error", ["no route", {"type": "ConnectionError", "message": "no route"}])
def test_a_tool_call_may_have_failed(error: Any) -> None:
    (call,) = run_of(said(tool_calls=[{"tool_name": "a", "tool_output": "ignored", "error": error}])).tool_calls

    assert call.error is not None
    assert call.error.message == "no route"
    assert not call.result_json, "an outcome is a result or an error"


def test_a_tool_call_without_an_outcome_is_not_answered() -> None:
    (call,) = run_of(said(tool_calls=[{"tool_name": "a"}])).tool_calls

    assert not call.answered
    assert call.arguments == {}


def test_calls_and_errors_are_numbered_in_order() -> None:
    run = run_of(said(status="error", tool_calls=[{"tool_name": "a"}, {"tool_name": "b"}], errors=["x", "y"]))

    assert [event.seq for event in run.events] == [0, 1, 2, 3]
    assert run.event_count == 4


def test_no_output_says_where_it_should_have_been(tmp_path: Path) -> None:
    reason = reason_of(read_output(tmp_path / "runner-output.json"))

    assert "wrote no output" in reason
    assert "$REPLAYKIT_OUTPUT_PATH" in reason


def test_an_output_that_is_a_directory_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read" in reason_of(read_output(tmp_path))


def test_a_huge_output_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_OUTPUT_BYTES", 1000)
    file = tmp_path / "runner-output.json"
    file.write_bytes(b'{"status": "success", "final_output": "' + b"x" * 2000 + b'"}')

    reason = reason_of(read_output(file))

    assert "2,041 bytes" in reason
    assert "1,000" in reason


def test_an_output_just_within_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runner-output.json"
    file.write_bytes(b'{"status": "success"}')
    monkeypatch.setattr(output, "MAX_OUTPUT_BYTES", file.stat().st_size)

    assert run_of(read_output(file)).status == "success"


def test_an_output_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    program = (
        "import sys, pathlib; from replaykit.candidates.output import read_output as r; r(pathlib.Path(sys.argv[1]))"
    )

    subprocess.run([sys.executable, "-c", program, str(tmp_path / "pipe")], check=True, timeout=60)


@pytest.mark.parametrize(
    "text",
    [b"", b" \n", b"not json", b"{", b'{"status": "success"', b'{"status": "success"} {}', b"\xff\xfe", b"\0" * 10,
     b"{'status': 'success'}", b"\xef\xbb\xbfx", b'{"status": "succ\xffess"}', b"NaN"],
)  # fmt: skip
def test_what_is_not_json_says_so(text: bytes) -> None:
    assert "is not JSON" in reason_of(parse_output(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("null", "null"),
        ("[]", "object"),
        ('"success"', "object"),
        ("7", "object"),
        ("{}", "status"),
        ('{"status": null}', "$.status"),
        ('{"status": 1}', "$.status"),
        ('{"status": ["success"]}', "$.status"),
        ('{"status": "success", "run_id": 7}', "$.run_id"),
        ('{"status": "success", "tool_calls": null}', "$.tool_calls"),
        ('{"status": "success", "tool_calls": {}}', "$.tool_calls"),
        ('{"status": "success", "tool_calls": ["lookup"]}', "$.tool_calls[0]"),
        ('{"status": "success", "tool_calls": [{}]}', "tool_name"),
        ('{"status": "success", "tool_calls": [{"tool_name": null}]}', "$.tool_calls[0].tool_name"),
        ('{"status": "success", "tool_calls": [{"tool_name": "a", "error": 5}]}', "$.tool_calls[0].error"),
        ('{"status": "success", "errors": "it broke"}', "$.errors"),
        ('{"status": "success", "errors": [1]}', "$.errors[0]"),
        ('{"status": "success", "final_output": 1e999}', "$.final_output"),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(text: str, words: str) -> None:
    reason = reason_of(parse_output(text.encode()))

    assert "wrong shape" in reason
    assert words in reason
    assert "docs/formats.md" in reason


@pytest.mark.parametrize("field", ["final_output", "errors", "tool_calls", "unknown"])
def test_deep_nesting_is_a_reason_not_a_crash(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000

    attempt = parse_output(b'{"status": "success", "' + field.encode() + b'": ' + deep + b"}")

    assert reason_of(attempt)


@pytest.mark.parametrize("field", ["tool_args", "tool_output", "error"])
def test_deep_nesting_in_a_call_is_a_reason_not_a_crash(field: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    call = b'{"tool_name": "a", "' + field.encode() + b'": ' + deep + b"}"

    assert reason_of(parse_output(b'{"status": "success", "tool_calls": [' + call + b"]}"))


def test_values_nested_as_deep_as_json_is_read_are_read() -> None:
    deep = json.loads("[" * 200 + "]" * 200)

    read_everything(said(final_output=deep, tool_calls=[{"tool_name": "a", "tool_args": deep, "tool_output": deep}]))


NESTED = b'{"$tuple":[' * 450 + b"]}" * 450
UNREADABLE_LATER = {
    "a tool_output that is not UTF-8": b'{"status":"success","tool_calls":[{"tool_name":"a","tool_output":"\xff"}]}',
    "a tool_output beyond numbers": b'{"status":"success","tool_calls":[{"tool_name":"a","tool_output":1e999}]}',
    "a tool_output nested in tags": b'{"status":"success","tool_calls":[{"tool_name":"a","tool_output":%b}]}' % NESTED,
    "a final_output nested in tags": b'{"status":"success","final_output":%b}' % NESTED,
    "a run log whose output is not UTF-8": b'{"replaykit":1,"run":{"id":"x","status":"success","output":"\xff"}}',
}


@pytest.mark.parametrize("text", UNREADABLE_LATER.values(), ids=UNREADABLE_LATER.keys())
def test_what_cannot_be_read_is_found_at_once_and_not_by_a_check(text: bytes) -> None:
    read_everything(parse_output(text))


def test_a_run_log_is_an_output_with_everything_in_it(tmp_path: Path) -> None:
    run, deviations = sample_run("r", 3), [Deviation(kind="moved", text="elsewhere")]
    write_log_output(tmp_path / "runner-output.json", run, deviations)

    attempt = read_output(tmp_path / "runner-output.json")

    assert run_of(attempt) == run
    assert list(attempt.deviations) == deviations
    assert [file.name for file in tmp_path.iterdir()] == ["runner-output.json"], "no draft is left"


def test_an_exported_run_log_is_an_output_too() -> None:
    run = sample_run("r", 2)

    assert run_of(parse_output(b"\n " + encode_run(run))) == run


@pytest.mark.parametrize(
    "text", ['{"replaykit": 1}', '{"replaykit": "1", "run": {"id": "a"}}', '{"replaykit": 1, "run": {}}',
             '{"replaykit": 1, "run": {"id": "a", "status": "odd"}}',
             '{"replaykit": 1, "run": {"id": "a", "events": [{"type": "dance", "seq": 1}]}}']
)  # fmt: skip
def test_a_run_log_of_the_wrong_shape_says_so(text: str) -> None:
    assert "wrong shape" in reason_of(parse_output(text.encode()))


def test_a_run_log_that_has_not_ended_is_a_run_that_has_not_ended() -> None:
    assert run_of(parse_output(b'{"replaykit": 1, "run": {"id": "a"}}')).status is RunStatus.RUNNING


@pytest.mark.parametrize("version", [99, 0, -1])
def test_a_run_log_of_another_version_is_refused(version: int) -> None:
    text = json.dumps({"replaykit": version, "run": {"id": "a", "status": "success", "output": 1}})

    reason_of(parse_output(text.encode()))


@pytest.mark.parametrize("text", ['{\n  "replaykit": 1,\n  "run": %s}', '{"run": %s, "replaykit": 1}'])
def test_a_run_log_is_known_by_its_keys_however_it_is_written(text: str) -> None:
    run_of(parse_output((text % '{"id": "a", "status": "success"}').encode()))


TAGS = ["a", "$set", "$obj", "$dict", "$int", "$timedelta"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TAGS) | st.text(max_size=3), inner),
    max_leaves=8,
)
nearly_right = st.fixed_dictionaries(
    {"status": st.sampled_from(["success", "error", "timeout", "odd"]) | json_values},
    optional={
        "run_id": json_values,
        "final_output": json_values,
        "errors": st.lists(json_values, max_size=2) | json_values,
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {"tool_name": st.text(max_size=3)},
                optional={"tool_args": json_values, "tool_output": json_values, "error": json_values},
            ),
            max_size=2,
        )
        | json_values,
    },
)


@given(st.binary(max_size=200))
@example(b'{"replaykit"')
@example(b'{"replaykit": 1, "run": 3}')
def test_any_bytes_give_an_attempt(text: bytes) -> None:
    attempt = parse_output(text)

    assert (attempt.run is None) == bool(attempt.reason)


@given(nearly_right)
def test_nearly_right_outputs_give_an_attempt_that_can_be_looked_at(value: Any) -> None:
    attempt = parse_output(json.dumps(value).encode())

    assert (attempt.run is None) == bool(attempt.reason)
    read_everything(attempt)


@given(st.data())
def test_a_damaged_output_gives_an_attempt(data: st.DataObject) -> None:
    text = encode_run(sample_run("r", 2)) if data.draw(st.booleans()) else b'{"status":"success","errors":["a"]}'
    start = data.draw(st.integers(0, len(text)))
    damaged = text[:start] + data.draw(st.binary(max_size=4)) + text[start + data.draw(st.integers(0, 9)) :]

    attempt = parse_output(damaged)

    assert (attempt.run is None) == bool(attempt.reason)


def test_rubbish_from_a_runner_is_a_verdict(make_case: Any, runner: Any) -> None:
    result = rk.replay(make_case(), runner("open(OUTPUT, 'wb').write(bytes(range(256)))"))

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "is not JSON" in result.reason
