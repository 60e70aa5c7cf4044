"""A program as a candidate: what it does is its run, also when it knows nothing of the runner contract."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.errors import UsageError
from replaykit.model.events import CallSpan

MakeCase = Callable[..., Path]
Runner = Callable[..., str]

TOOL = """
import replaykit as rk
@rk.tool
def lookup(user):
    open("live.txt", "a").write("done for real")
    return "live"
"""


def words(command: str) -> CommandCandidate:
    return CommandCandidate(shlex.split(command))


def test_tools_of_a_program_are_served_and_are_its_run(make_case: MakeCase, runner: Runner, frozen: Any) -> None:
    case = make_case(calls=[frozen(0, "lookup", "recorded", user="u1")])
    command = runner(f"{TOOL}\nprint(lookup('u1'))")

    for candidate in (words(command), CommandCandidate(command)):
        result = rk.replay(case, candidate)

        assert result.run is not None, result.reason
        assert (result.run.status, result.run.output) == ("success", "recorded")
        assert [call.result for call in result.run.tool_calls] == ["recorded"]
        assert result.run.origin.kind == "replayed"
        assert result.deviations == ()
    assert not Path("live.txt").exists()


def test_a_program_that_fails_after_its_calls_is_a_run_that_failed(
    make_case: MakeCase, runner: Runner, frozen: Any
) -> None:
    case = make_case(calls=[frozen(0, "lookup", "recorded", user="u1")])
    command = runner(f"{TOOL}\nlookup('u1'); sys.exit(3)")

    for candidate in (words(command), CommandCandidate(command)):
        result = rk.replay(case, candidate)

        assert result.verdict is rk.Verdict.REPRODUCED
        assert result.run is not None
        assert "exit code 3" in str(result.run.error)


def test_a_thread_whose_call_the_end_interrupted_ends_without_a_word(
    make_case: MakeCase, runner: Runner, frozen: Any, tmp_path: Path
) -> None:
    """What a daemon thread prints while the interpreter shuts down can abort the process."""
    call = msgspec.structs.replace(
        frozen(0, "lookup", None, user="u1"), path="/~export#0", complete=False, span=CallSpan(begin=0, begin_s=0.0)
    )
    case = make_case(calls=[call])
    command = runner(f"""{TOOL}
import atexit, signal, threading
atexit.register(signal.sigtimedwait, [], 1.5)  # the end takes its time, as on a busy machine
def export():
    lookup("u1")
threading.Thread(target=export, daemon=True).start()
threading.Event().wait(0.1)
raise ValueError("not ready")
""")

    result = rk.replay(case, words(command), evidence=tmp_path / "evidence")

    printed = Path(result.directory, "stderr.log").read_text()
    assert "ValueError: not ready" in printed
    assert "Exception in thread" not in printed


def test_a_runner_that_crashes_before_any_call_has_given_no_answer(make_case: MakeCase, runner: Runner) -> None:
    command = runner("import no_such_module")

    runner_result, program_result = rk.replay(make_case("a"), command), rk.replay(make_case("b"), words(command))

    assert runner_result.verdict is rk.Verdict.INCONCLUSIVE
    assert "no_such_module" in runner_result.reason
    assert program_result.run is not None
    assert program_result.run.error is not None
    assert program_result.run.error.type == "ModuleNotFoundError", "of a program that is all it did"


def test_a_program_that_leaves_the_tape_is_told_even_when_it_writes_an_output(
    make_case: MakeCase, runner: Runner, frozen: Any
) -> None:
    case = make_case(calls=[frozen(0, "lookup", "recorded", user="u1")])
    command = runner(f"{TOOL}\ntry:\n    lookup('u2')\nexcept Exception: pass\ntell(final_output='fine')")

    result = rk.replay(case, command)

    assert result.verdict is rk.Verdict.DIVERGED
    assert "'u1' → 'u2'" in result.reason
    assert not Path("live.txt").exists()


def test_calls_that_a_program_did_not_make_are_told(make_case: MakeCase, runner: Runner, frozen: Any) -> None:
    case = make_case(calls=[frozen(0, "lookup", "recorded", user="u1")])

    program = rk.replay(case, words(runner("print('no need to look')")))
    contract = rk.replay(case, runner("tell(final_output='no need to look')"))

    assert [deviation.kind for deviation in program.deviations] == ["unused"]
    assert contract.deviations == (), "a runner may read the fixtures itself"


def test_the_scenario_rules_the_calls_of_a_program(make_case: MakeCase, runner: Runner, frozen: Any) -> None:
    calls = [frozen(0, "lookup", "recorded", user="u1")]
    command = runner(f"{TOOL}\nprint(lookup('u1'))")

    live = rk.replay(make_case("live", calls=calls, tools={"lookup": "live"}), words(command), live=["lookup"])
    blocked = rk.replay(make_case("blocked", calls=calls, tools={"lookup": "blocked"}), words(command))

    assert live.run is not None
    assert live.run.output == "live"
    assert blocked.verdict is rk.Verdict.DIVERGED
    assert "blocks the tool `lookup`" in blocked.reason


def test_nothing_of_the_stage_is_left_in_the_evidence(make_case: MakeCase, runner: Runner, frozen: Any) -> None:
    case = make_case(calls=[frozen(0, "lookup", "recorded", user="u1")])

    result = rk.replay(case, words(runner(f"{TOOL}\nlookup('u1')")), evidence="evidence")

    left = {file.name for file in Path(str(result.directory)).iterdir()}
    assert left == {"result.json", "summary.md", "runner-output.json", "stdout.log", "stderr.log"}
    log = json.loads((Path(str(result.directory)) / "runner-output.json").read_text())
    assert log["run"]["id"] == "replay-billing"


@pytest.mark.exhaustive
def test_many_programs_run_side_by_side_each_in_its_own_world(make_case: MakeCase, runner: Runner, frozen: Any) -> None:
    from replaykit.candidates.pool import replay_many
    from replaykit.cases.case import load_case

    cases = [load_case(make_case(f"case-{n}", calls=[frozen(0, "lookup", f"answer {n}", user="u1")])) for n in range(4)]
    candidate = words(runner(f"{TOOL}\nprint(lookup('u1'))"))

    results = replay_many(cases, candidate, jobs=4)

    assert [result.run.output for result in results if result.run] == [f"answer {n}" for n in range(4)]


def test_a_program_that_writes_nothing_and_does_nothing_gives_no_answer(make_case: MakeCase) -> None:
    result = rk.replay(make_case(), CommandCandidate(["true"]))

    assert result.verdict is rk.Verdict.INCONCLUSIVE


def test_a_damaged_fixture_stops_a_program_before_it_starts(make_case: MakeCase, runner: Runner) -> None:
    case = make_case()
    (case / "fixtures").mkdir(exist_ok=True)
    (case / "fixtures" / "lookup.json").write_text("{")

    with pytest.raises(UsageError, match=r"lookup\.json"):
        rk.replay(case, words(runner("open('started', 'w')")))

    assert not Path("started").exists()


def test_a_program_is_labelled_by_its_words() -> None:
    assert CommandCandidate([sys.executable, "my agent.py"]).label == f"{sys.executable} 'my agent.py'"
    with pytest.raises(UsageError, match="empty"):
        CommandCandidate([])
