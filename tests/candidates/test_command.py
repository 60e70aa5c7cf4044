"""A command as a candidate: the contract it is given, and every way it can end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.errors import UsageError

MakeCase = Callable[..., Path]
Runner = Callable[..., str]


@pytest.fixture
def runner(runner: Runner) -> Runner:
    """Programs that nothing of ReplayKit is started inside of, which takes longer than all that they do."""
    return lambda code: runner(code).replace(sys.executable, f"{sys.executable} -I", 1)


def is_running(pid: int) -> bool:
    """True when the process does anything; one that is dead and not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def ends(pid: int, within_s: float = 5.0) -> bool:
    """True when the process is gone within that time."""
    give_up = time.monotonic() + within_s
    while is_running(pid):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def evidence_of(result: rk.ReplayResult, name: str) -> str:
    assert result.directory is not None
    return (Path(result.directory) / name).read_text()


def test_a_program_that_keeps_the_contract_is_judged(make_case: MakeCase, runner: Runner) -> None:
    case = make_case()

    fixed = rk.replay(case, runner("tell(final_output='You paid for a year.')"))
    broken = rk.replay(case, runner("tell(status='error', errors=['out of luck'])"))

    assert (fixed.verdict, broken.verdict) == (rk.Verdict.FIXED, rk.Verdict.REPRODUCED)


def test_the_variables_of_the_contract_are_absolute_and_right(make_case: MakeCase, runner: Runner) -> None:
    case = make_case(source={"trace": "source-trace.json"})
    (case / "source-trace.json").write_text("{}")
    command = runner("tell(final_output={k: v for k, v in os.environ.items() if k.startswith('REPLAYKIT_')})")

    result = rk.replay(Path("cases") / "billing", command, evidence="evidence")

    assert result.run is not None
    of_the_stage = {"REPLAYKIT_SESSION", "REPLAYKIT_PROXY", "REPLAYKIT_NETWORK", "REPLAYKIT_ISOLATION"}
    variables = {name: value for name, value in result.run.output.items() if name not in of_the_stage}
    output = Path(variables.pop("REPLAYKIT_OUTPUT_PATH"))
    assert output.is_absolute()
    assert not output.parent.exists(), "it is gone, and the evidence holds the redacted one"
    assert variables == {
        "REPLAYKIT_CASE_PATH": str(case / "case.yaml"),
        "REPLAYKIT_FIXTURES_DIR": str(case / "fixtures"),
        "REPLAYKIT_SOURCE_TRACE_PATH": str(case / "source-trace.json"),
    }


def test_a_case_without_a_trace_has_an_empty_trace_path(make_case: MakeCase, runner: Runner) -> None:
    result = rk.replay(make_case(), runner("tell(final_output=os.environ['REPLAYKIT_SOURCE_TRACE_PATH'] or 'none')"))

    assert result.run is not None
    assert result.run.output == "none"


def test_the_program_has_the_callers_directory_and_environment_and_no_input(
    make_case: MakeCase, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_OWN", "kept")

    result = rk.replay(make_case(), runner("tell(final_output=[os.getcwd(), os.environ['MY_OWN'], sys.stdin.read()])"))

    assert result.run is not None
    assert result.run.output == [str(Path.cwd()), "kept", ""]


def test_the_program_finds_its_fixtures(make_case: MakeCase, runner: Runner, frozen: Any) -> None:
    case = make_case(calls=[frozen(0, "lookup", "Error: timeout", user="u1")])
    command = runner("""
        fixture = json.load(open(os.environ['REPLAYKIT_FIXTURES_DIR'] + '/lookup.json'))
        call = fixture['calls'][0]
        tell(final_output=call['result'], tool_calls=[{'tool_name': 'lookup', 'tool_args': call['arguments']}])
    """)

    result = rk.replay(case, command)

    assert result.run is not None
    assert result.run.output == "Error: timeout"
    assert result.run.tool_calls[0].arguments == {"user": "u1"}


@pytest.mark.parametrize("wrote", [True, False])
def test_an_exit_code_other_than_zero_is_no_answer(make_case: MakeCase, runner: Runner, wrote: bool) -> None:
    told = "tell(final_output='fine')" if wrote else "pass"

    result = rk.replay(make_case(), runner(f"{told}; print('no key for the model', file=sys.stderr); sys.exit(3)"))

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert result.run is None
    assert "exit code 3" in result.reason
    assert "no key for the model" in result.reason, "the end of stderr says why"
    assert ("cannot be trusted" in result.reason) == wrote


def test_an_output_written_before_a_crash_is_not_believed(make_case: MakeCase, runner: Runner) -> None:
    result = rk.replay(make_case(), runner("tell(final_output='fine')\nraise RuntimeError('after all')"))

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "RuntimeError: after all" in result.reason


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_death_by_a_signal_is_named(make_case: MakeCase, runner: Runner, number: int) -> None:
    result = rk.replay(make_case(), runner(f"os.kill(os.getpid(), {int(number)})"))

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert f"signal {int(number)}" in result.reason


def test_only_the_end_of_a_long_complaint_is_told(make_case: MakeCase, runner: Runner) -> None:
    result = rk.replay(make_case(), runner("for i in range(5000): print('line', i, file=sys.stderr)\nsys.exit(1)"))

    assert "line 4999" in result.reason
    assert "line 4990" not in result.reason


def test_a_program_that_writes_nothing_is_told_of_the_contract(make_case: MakeCase) -> None:
    result = rk.replay(make_case(), "true")

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "$REPLAYKIT_OUTPUT_PATH" in result.reason


@pytest.mark.parametrize("command", ["no-such-program --now", "/nowhere/at/all", "cases"])
def test_a_program_that_cannot_be_started_is_named(make_case: MakeCase, command: str) -> None:
    result = rk.replay(make_case(), command)

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert repr(command.split()[0]) in result.reason
    assert "cannot be started" in result.reason


@pytest.mark.parametrize("command", ["python 'runner.py", 'say "hello', "ends with \\"])
def test_quotes_that_do_not_close_are_wrong_usage(command: str) -> None:
    with pytest.raises(UsageError, match="cannot be read") as caught:
        CommandCandidate(command)

    assert repr(command) in str(caught.value)


@pytest.mark.parametrize("command", ["", "   ", "\n"])
def test_an_empty_command_is_wrong_usage(command: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        CommandCandidate(command)


def test_a_command_with_a_nul_in_it_is_a_verdict_or_wrong_usage(make_case: MakeCase) -> None:
    try:
        assert rk.replay(make_case(), "true \0").verdict is rk.Verdict.INCONCLUSIVE
    except UsageError:
        pass


def test_arguments_are_not_seen_by_a_shell(make_case: MakeCase, runner: Runner) -> None:
    command = runner("tell(final_output=sys.argv[1:])") + """ "two words" '$HOME' '; touch pwned' *"""

    result = rk.replay(make_case(), command)

    assert result.run is not None
    assert result.run.output == ["two words", "$HOME", "; touch pwned", "*"]
    assert not Path("pwned").exists()


def test_python_is_this_interpreter_where_the_machine_has_none(
    make_case: MakeCase, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner("tell(final_output=sys.executable)")
    Path("empty").mkdir()
    monkeypatch.setenv("PATH", str(Path("empty").absolute()))

    for name in ("python", "python3"):
        result = rk.replay(make_case(name), f"{name} runner.py")

        assert result.run is not None, result.reason
        assert result.run.output == sys.executable


def test_python_is_the_machines_own_where_it_has_one(make_case: MakeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Path("bin") / "python"
    theirs.parent.mkdir()
    told = '{"status": "success", "final_output": "theirs"}'
    theirs.write_text(f"""#!/bin/sh\nprintf '{told}' > "$REPLAYKIT_OUTPUT_PATH"\n""")
    theirs.chmod(0o755)
    monkeypatch.setenv("PATH", str(theirs.parent.absolute()), prepend=os.pathsep)

    result = rk.replay(make_case(), "python runner.py")

    assert result.run is not None
    assert result.run.output == "theirs"


def test_a_hang_is_a_run_with_the_status_timeout(make_case: MakeCase, runner: Runner) -> None:
    case = make_case(observed=[{"status_is": "timeout"}])

    result = rk.replay(case, runner("import time; time.sleep(600)"), timeout_s=0.3)

    assert result.run is not None
    assert result.run.status == "timeout"
    assert "no answer within 0.3 s" in str(result.run.error)
    assert result.verdict is rk.Verdict.REPRODUCED, "a hang can be the failure that is looked for"
    assert result.duration_s < 10


def test_an_output_written_before_a_hang_is_not_believed(make_case: MakeCase, runner: Runner) -> None:
    result = rk.replay(make_case(), runner("import time; tell(final_output='fine'); time.sleep(600)"), timeout_s=3)

    assert result.verdict is rk.Verdict.BROKEN
    assert result.run is not None
    assert result.run.output is None


def test_the_case_says_how_long_to_wait_unless_the_caller_does(make_case: MakeCase, runner: Runner) -> None:
    result = rk.replay(make_case(timeout_s=0.3), runner("import time; time.sleep(600)"))

    assert "no answer within 0.3 s" in result.reason


@pytest.mark.parametrize("ending", ["time.sleep(600)", "tell(final_output='fine')", "sys.exit(4)"])
def test_nothing_that_it_started_is_left(make_case: MakeCase, runner: Runner, ending: str) -> None:
    command = runner(f"""
        import subprocess, time
        child = subprocess.Popen(["sleep", "300"])
        open("child.pid", "w").write(str(child.pid))
        open("own.pid", "w").write(str(os.getpid()))
        {ending}
    """)

    rk.replay(make_case(), command, timeout_s=3 if "sleep(600)" in ending else 60)

    assert ends(int(Path("own.pid").read_text()))
    assert ends(int(Path("child.pid").read_text()))


def test_a_program_that_ignores_polite_signals_is_ended_all_the_same(make_case: MakeCase, runner: Runner) -> None:
    command = runner("""
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        open("own.pid", "w").write(str(os.getpid()))
        while True: time.sleep(1)
    """)

    result = rk.replay(make_case(), command, timeout_s=3)

    assert result.run is not None
    assert result.run.status == "timeout"
    assert ends(int(Path("own.pid").read_text()))


def test_what_it_prints_goes_into_the_logs_and_nowhere_else(
    make_case: MakeCase, runner: Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    command = runner("print('to stdout'); print('to stderr', file=sys.stderr); tell(final_output=1)")

    result = rk.replay(make_case(), command, evidence="evidence")

    assert evidence_of(result, "stdout.log") == "to stdout\n"
    assert evidence_of(result, "stderr.log") == "to stderr\n"
    assert capfd.readouterr() == ("", "")


def test_the_logs_of_a_hang_are_kept(make_case: MakeCase, runner: Runner) -> None:
    command = runner("import time; print('still here', flush=True); time.sleep(600)")

    result = rk.replay(make_case(), command, timeout_s=3, evidence="evidence")

    assert evidence_of(result, "stdout.log") == "still here\n"


def test_logs_may_hold_any_bytes(make_case: MakeCase, runner: Runner) -> None:
    command = runner("sys.stderr.buffer.write(bytes(range(256)) * 40); sys.stderr.flush(); sys.exit(1)")

    result = rk.replay(make_case(), command, evidence="evidence")

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert json.loads(evidence_of(result, "result.json"))["verdict"] == "inconclusive"


def test_a_candidate_can_be_used_again(make_case: MakeCase, runner: Runner) -> None:
    candidate = CommandCandidate(runner("tell(final_output=os.path.exists(OUTPUT))"))
    case = make_case()

    answers = [rk.replay(case, candidate, evidence="evidence").run for _ in range(2)]

    assert [run.output for run in answers if run] == [False, False], "each run starts without an output"


def test_its_label_is_the_command(make_case: MakeCase) -> None:
    command = shlex.join([sys.executable, "-c", "pass"])

    assert rk.replay(make_case(), command).candidate == command
