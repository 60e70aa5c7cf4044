"""Assertions that need more than the run: how the replay went, and functions that were registered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.candidates.output import parse_output
from replaykit.checks.assertions import parse_assertion
from replaykit.checks.custom import CHECKS
from replaykit.checks.rule import CannotTell, Seen
from replaykit.checks.verdict import judge_run
from replaykit.errors import ExitCode, UsageError
from replaykit.model.events import ToolCall
from replaykit.model.result import Deviation, ReplayResult, Side, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

RUN = TraceRun(
    id="r",
    status=RunStatus.SUCCESS,
    output_json=raw("ok"),
    events=(ToolCall(seq=0, name="find"), ToolCall(seq=3, name="send")),
)
MOVED = Deviation(kind="moved", text="`find` moved", index=0, name="find")
OTHER = Deviation(kind="arguments", text="`send` has other arguments", index=1, name="send")
UNUSED = Deviation(kind="unused", text="`pay` was not called", name="pay")


@pytest.fixture(autouse=True)
def _own_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHECKS, "_entries", {})


FAILED = parse_assertion("status_is", "error")
FOLLOWS_THE_TAPE = """\
replaykit: 1
id: x
scenario: {input: hi}
observed: [{status_is: error}]
desired: [{replay.no_divergence: true}]
"""


def judged(written: dict, *, run: TraceRun = RUN, deviations=(), watched: bool = True) -> ReplayResult:
    desired = [parse_assertion(kind, value) for kind, value in written.items()]
    return judge_run(
        case_id="c", observed=[FAILED], desired=desired, semantic=[], run=run, deviations=deviations, watched=watched
    )


@pytest.mark.parametrize(
    ("value", "deviations", "holds", "seq"),
    [
        (True, (), True, 3),
        (True, (MOVED,), False, 0),
        (True, (UNUSED,), False, 3),
        (False, (OTHER,), True, 3),
        (False, (), False, 3),
        ({"allow": ["moved"]}, (MOVED,), True, 3),
        ({"allow": ["moved"]}, (MOVED, OTHER), False, 3),
        ({}, (), True, 3),
    ],
)
def test_no_divergence_counts_every_deviation_that_is_not_allowed(value, deviations, holds, seq):
    finding = parse_assertion("replay.no_divergence", value).check(RUN, Side.DESIRED, deviations)

    assert (finding.holds, finding.seq) == (holds, seq)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (0, True),
        (1, False),
        ({"name": "f*"}, True),
        ({"kind": "moved"}, True),
        ({"kind": "arguments"}, False),
        ({"call": 1, "allow": ["moved"]}, True),
        ({"call": 1, "kind": "arguments", "name": "send", "allow": ["moved"]}, True),
    ],
)
def test_it_diverges_at_the_first_deviation(value, holds):
    assertion = parse_assertion("replay.diverges_at", value)

    assert assertion.check(RUN, Side.DESIRED, (MOVED, OTHER)).holds is holds
    assert not assertion.check(RUN, Side.DESIRED, ()).holds


@pytest.mark.parametrize(("kind", "value"), [("replay.no_divergence", True), ("replay.diverges_at", 0)])
def test_outside_of_a_replay_nobody_can_tell(kind, value):
    with pytest.raises(CannotTell, match="need a replay: this run is not from one") as caught:
        parse_assertion(kind, value).check(RUN, Side.DESIRED)
    assert caught.value.exit_code is ExitCode.CANNOT


def test_the_verdict_hands_the_deviations_on():
    assert judged({"replay.no_divergence": True}).verdict is Verdict.FIXED
    assert judged({"replay.no_divergence": True}, deviations=[MOVED]).verdict is Verdict.BROKEN
    assert judged({"replay.diverges_at": 0}, deviations=[MOVED]).verdict is Verdict.FIXED


def test_a_candidate_that_nobody_watched_is_not_said_to_have_followed_the_tape():
    result = judged({"replay.no_divergence": True}, watched=False)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "need a replay" in result.reason
    assert judged({"replay.no_divergence": True}, watched=False, deviations=[OTHER]).verdict is Verdict.BROKEN
    assert judged({"status_is": "success"}, watched=False).verdict is Verdict.FIXED


def test_what_a_runner_writes_down_itself_was_not_watched():
    attempt = parse_output(b'{"run_id": "r", "status": "success", "final_output": "ok", "tool_calls": []}')

    assert attempt.run is not None
    assert not attempt.watched


def test_a_python_candidate_is_watched(tmp_path: Path):
    (tmp_path / "case.yaml").write_text(FOLLOWS_THE_TAPE)

    assert rk.replay(tmp_path, lambda text: text).verdict is Verdict.FIXED


def test_a_command_that_writes_its_own_output_gets_no_verdict(tmp_path: Path):
    (tmp_path / "case.yaml").write_text(FOLLOWS_THE_TAPE)
    (tmp_path / "runner.py").write_text(
        "import json, os\n"
        "answer = {'run_id': 'r', 'status': 'success', 'final_output': 'ok', 'tool_calls': [], 'errors': []}\n"
        "open(os.environ['REPLAYKIT_OUTPUT_PATH'], 'w').write(json.dumps(answer))\n"
    )

    result = rk.replay(tmp_path, f"{sys.executable} {tmp_path / 'runner.py'}")

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "need a replay" in result.reason


def test_a_registered_check_gets_the_run_and_its_parameters():
    rk.register_check("output_is", lambda run, text, strip=False: (run.output.strip() if strip else run.output) == text)

    assert judged({"custom.python": {"check": "output_is", "text": "ok"}}).verdict is Verdict.FIXED
    assert judged({"custom.python": {"check": "output_is", "text": "no", "strip": True}}).verdict is Verdict.BROKEN


def test_a_check_may_say_why_it_does_not_hold():
    rk.register_check("explains", lambda run: "the total is missing")

    finding = parse_assertion("custom.python", "explains").check(RUN, Side.DESIRED)

    assert not finding.holds
    assert finding.actual == "the total is missing"
    assert finding.expected == "the check explains to hold"


def test_a_check_may_give_what_it_saw_in_full():
    rk.register_check("full", lambda run: Seen(True, "Seen", "this", "that", 3))

    finding = parse_assertion("custom.python", "full").check(RUN, Side.DESIRED)

    assert (finding.holds, finding.expected, finding.seq) == (True, "this", 3)


def test_a_check_that_is_not_registered_says_how_to():
    rk.register_check("charged_once", lambda run: True)

    result = judged({"custom.python": "charged_onse"})

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "did you mean 'charged_once'?" in result.reason
    assert "rk.register_check('charged_onse', function)" in result.reason


@pytest.mark.parametrize("name", ["evil_module", "evil_module.run", "evil_module:run"])
def test_a_name_in_a_file_never_imports_anything(name, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("def run(run): return True\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert judged({"custom.python": {"check": name}}).verdict is Verdict.INCONCLUSIVE
    assert "evil_module" not in sys.modules


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda run: 1 / 0, "raised ZeroDivisionError"),
        (lambda run: None, "returned 'None'"),
        (lambda run: [True], "returned '[True]'"),
        (lambda run, text: True, "raised TypeError"),
    ],
)
def test_a_check_that_gives_no_answer_makes_an_error(fn, reason):
    rk.register_check("broken", fn)

    result = judged({"custom.python": "broken"})

    assert result.verdict is Verdict.INCONCLUSIVE
    assert reason in result.reason


@pytest.mark.parametrize(("name", "fn"), [("", len), (3, len), ("x", "len")])
def test_only_a_named_function_can_be_registered(name, fn):
    with pytest.raises(UsageError, match=r"a name and a function|rk\.register_check cannot take"):
        rk.register_check(name, fn)
