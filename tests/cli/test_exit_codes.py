"""How a command ends: its exit code, what goes to which stream, and how that looks on a terminal."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.errors import ExitCode

Command = Callable[..., Any]
ESCAPE = "\x1b["


def wait_for(file: Path, within_s: float = 20.0) -> str:
    """What the file holds, as soon as it holds something."""
    give_up = time.monotonic() + within_s
    while not file.exists() or not file.read_text():
        assert time.monotonic() < give_up, f"{file} never came"
        time.sleep(0.01)
    return file.read_text()


def interruptible(*arguments: str) -> subprocess.Popen[str]:
    """A command in a process that can be interrupted, even where this one ignores interruptions."""
    allow = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{allow}; from replaykit.cli import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def on_a_terminal(*arguments: str, **env: str) -> str:
    """What a person sees of a command."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **env}
    process = subprocess.Popen(
        [sys.executable, "-m", "replaykit", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not part:
            break
        seen += part
    process.wait(timeout=30)
    os.close(ours)
    return seen.decode()


def test_0_when_the_failure_is_fixed(replaykit: Command, case: Path, good: str) -> None:
    assert replaykit("replay", case, "--runner-cmd", good).code == ExitCode.PASSED == 0


def test_0_when_the_verdict_is_the_expected_one(replaykit: Command, case: Path, bad: str) -> None:
    assert replaykit("replay", case, "--runner-cmd", bad, "--expect", "reproduced").code == 0


def test_1_when_the_failure_is_reproduced(replaykit: Command, case: Path, bad: str) -> None:
    assert replaykit("replay", case, "--runner-cmd", bad).code == ExitCode.FAILED == 1


def test_1_when_a_desired_assertion_fails(replaykit: Command, case: Path, runner: Command) -> None:
    assert replaykit("replay", case, "--runner-cmd", runner("mute", {"status": "success"})).code == 1


def test_1_when_the_candidate_leaves_the_tape(replaykit: Command, case: Path) -> None:
    Path("agent.py").write_text("import replaykit as rk\n@rk.tool\ndef t(): ...\ndef run(q): return t()")

    assert replaykit("replay", case, "--agent", "agent:run").code == 1


def test_1_when_the_verdict_is_not_the_expected_one(replaykit: Command, case: Path, good: str) -> None:
    assert replaykit("replay", case, "--runner-cmd", good, "--expect", "reproduced").code == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "a file could not be read or written: No space left on device",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "cases"), "cases: Permission denied"),
    ],
)
def test_3_for_what_the_machine_refuses_and_no_word_of_a_bug(
    replaykit: Command, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr("replaykit.cli.lint.find_case_files", refuse)

    ran = replaykit("lint", "cases")

    assert (ran.code, ran.err) == (3, f"error: {said}\n")


def test_1_when_lint_finds_an_error(replaykit: Command, make_case: Command) -> None:
    assert replaykit("lint", make_case(observed=[], desired=[])).code == 1


USAGE = {
    "an unknown verb": (["rplay"], "no such command"),
    "an unknown option": (["replay", "cases", "--runer-cmd", "true"], "no such option"),
    "no case": (["replay", "--runner-cmd", "true"], "nothing to replay"),
    "no candidate": (["replay", "cases"], "no candidate to run"),
    "two candidates": (["replay", "cases", "--runner-cmd", "true", "--agent", "a:b"], "exactly one candidate"),
    "a case that is not there": (["replay", "none", "--runner-cmd", "true"], "'none' does not exist"),
    "a wrong agent": (["replay", "cases", "--agent", "my_agent"], "does not name an agent"),
    "a wrong endpoint": (["replay", "cases", "--endpoint", "localhost"], "not an address"),
    "a command that cannot be read": (["replay", "cases", "--runner-cmd", "a 'b"], "cannot be read"),
    "an empty command": (["replay", "cases", "--runner-cmd", ""], "the command is empty"),
    "an unknown verdict": (["replay", "cases", "--runner-cmd", "true", "--expect", "fine"], "unknown value 'fine'"),
    "no time": (["replay", "cases", "--runner-cmd", "true", "--timeout", "0"], "--timeout"),
    "no jobs": (["replay", "cases", "--runner-cmd", "true", "-j", "0"], "--jobs"),
    "an unknown shell": (["help", "completion", "tcsh"], "error: unknown value 'tcsh'; valid: bash, fish, zsh Usage:"),
    "a missing argument": (["show"], "error: missing argument 'RUN' Usage:"),
    "an unknown status": (["runs", "--status", "eror"], "unknown value 'eror'"),
    "a trace that is not there": (["scaffold", "none.json"], "no such file"),
    "a trace of no known format": (["scaffold", "odd.json"], "not a trace of a known format"),
    "a format that is not known": (["scaffold", "odd.json", "--format", "replykit"], "did you mean 'replaykit'?"),
    "a broken case": (["replay", "broken", "--runner-cmd", "true"], "broken/case.yaml:2"),
    "lint of nothing": (["lint", "none"], "does not exist"),
    "prove without the good": (["prove", "cases", "--bad", "true"], "--good"),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE.keys())
def test_2_for_wrong_usage(replaykit: Command, case: Path, arguments: list[str], words: str) -> None:
    Path("odd.json").write_text('{"traces": []}')
    Path("broken").mkdir()
    Path("broken/case.yaml").write_text("replaykit: 1\nid: [\n")

    ran = replaykit(*arguments)

    assert ran.code == ExitCode.USAGE == 2
    assert ran.out == ""
    assert words in " ".join(ran.err.split())


def test_an_unknown_status_is_answered_with_the_nearest(replaykit: Command) -> None:
    assert "did you mean 'error'?" in replaykit("runs", "--status", "eror").err


def test_3_when_the_runner_crashes_before_an_answer(replaykit: Command, case: Path) -> None:
    assert replaykit("replay", case, "--runner-cmd", "false").code == ExitCode.CANNOT == 3


def test_1_when_one_of_many_failed_though_another_gives_no_answer(
    replaykit: Command, make_case: Command, runner: Command
) -> None:
    for name in ("a", "b"):
        make_case(name)
    crash = "if '/b/' in os.environ['REPLAYKIT_CASE_PATH']: sys.exit(9)"

    assert replaykit("replay", "cases", "--runner-cmd", runner("half", {"status": "error"}, crash)).code == 1


def test_1_when_one_of_many_failed_though_another_is_of_a_newer_version(
    replaykit: Command, make_case: Command, bad: str
) -> None:
    make_case("a")
    make_case("b", replaykit=99)

    ran = replaykit("replay", "cases", "--runner-cmd", bad)

    assert ran.code == 1
    assert "case format 99" in ran.out + ran.err
    assert replaykit("replay", "cases", "--runner-cmd", bad, "--expect", "reproduced").code == 3


def test_3_when_a_case_asserts_nothing(replaykit: Command, make_case: Command, good: str) -> None:
    ran = replaykit("replay", make_case(observed=[], desired=[]), "--runner-cmd", good)

    assert ran.code == 3
    assert "no assertions" in ran.out


def test_3_when_a_case_is_of_a_newer_version(replaykit: Command, make_case: Command, good: str) -> None:
    ran = replaykit("replay", make_case(replaykit=99), "--runner-cmd", good)

    assert (ran.code, ran.out) == (3, "")
    assert "case format 99" in ran.err
    assert "pip install" in ran.err


def test_3_when_prove_cannot_tell(replaykit: Command, case: Path, good: str) -> None:
    assert replaykit("prove", case, "--bad", "false", "--good", good).code == 3


def test_1_when_prove_can_tell_though_one_candidate_gives_no_answer(replaykit: Command, case: Path, good: str) -> None:
    assert replaykit("prove", case, "--bad", good, "--good", "false").code == 1


@pytest.mark.parametrize("verb", ["runs", "show checkout", "verify", "export checkout", "scaffold checkout"])
@pytest.mark.parametrize("state", ["missing", "empty file", "damaged", "newer", "somebody else's"])
def test_3_when_the_store_cannot_be_read(replaykit: Command, recorded: Path, verb: str, state: str) -> None:
    if state == "missing":
        recorded.unlink()
    elif state == "empty file":
        recorded.write_bytes(b"")
    elif state == "damaged":
        recorded.write_bytes(recorded.read_bytes()[:100] + bytes(range(256)) * 20)
    else:
        with sqlite3.connect(recorded) as db:
            db.execute("PRAGMA user_version = 99" if state == "newer" else "PRAGMA application_id = 7")
        db.close()

    ran = replaykit(*verb.split())

    assert ran.code == 3
    assert "internal error" not in ran.err
    assert "store.db" in ran.out + ran.err, "which file it is about"
    if state == "newer":
        assert "newer ReplayKit" in ran.err


def test_3_when_the_run_is_damaged(replaykit: Command, recorded: Path) -> None:
    with sqlite3.connect(recorded) as db:
        db.execute("UPDATE packs SET data = x'00'")
    db.close()

    ran = replaykit("show", "checkout")

    assert (ran.code, ran.out) == (3, "")
    assert "pack at event 0" in ran.err


@pytest.mark.parametrize("verb", [["lint"], ["replay", "--runner-cmd", "true"]])
def test_5_when_nothing_is_selected(replaykit: Command, verb: list[str]) -> None:
    Path("empty").mkdir()

    ran = replaykit(*verb, "empty")

    assert ran.code == ExitCode.NOTHING == 5
    assert "'empty' contains no case" in ran.err
    assert "replaykit scaffold TRACE --out empty/NAME" in ran.err


def test_130_when_interrupted_and_the_candidate_goes_too(case: Path, runner: Command) -> None:
    slow = runner("slow", code="open('own.pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")
    process = interruptible("replay", str(case), "--runner-cmd", slow)
    pid = int(wait_for(Path("own.pid")))

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=15)

    assert process.returncode == ExitCode.INTERRUPTED == 130
    assert (out, err.strip()) == ("", "interrupted")
    assert not Path(f"/proc/{pid}/cmdline").exists() or Path(f"/proc/{pid}/cmdline").read_text() == ""


def test_130_at_once_with_several_jobs_too(case: Path, runner: Command) -> None:
    slow = runner("slow", code="open('own.pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")
    process = interruptible("replay", str(case), "--runner-cmd", slow, "-j", "2", "--repeat", "2")
    wait_for(Path("own.pid"))

    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=30)

    assert process.returncode == 130
    assert time.monotonic() - began < 15


def test_an_error_is_one_block_without_a_traceback(spawned: Command, recorded: Path) -> None:
    ran = spawned("show", "nothing-of-that-name")

    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: no run 'nothing-of-that-name' in ")
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("before", "variable"), [(["--debug"], ""), ([], "1")])
def test_debug_shows_the_traceback(
    replaykit: Command, monkeypatch: pytest.MonkeyPatch, recorded: Path, before: list[str], variable: str
) -> None:
    monkeypatch.setenv("REPLAYKIT_DEBUG", variable)

    ran = replaykit(*before, "show", "nothing-of-that-name")

    assert "Traceback (most recent call last)" in ran.err
    assert "RunNotFound: no run 'nothing-of-that-name'" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code"), [("show none", 3), ("replay none --runner-cmd true", 2), ("lint empty", 5)]
)
def test_debug_does_not_change_the_exit_code(replaykit: Command, recorded: Path, arguments: str, code: int) -> None:
    Path("empty").mkdir()

    assert replaykit("--debug", *arguments.split()).code == code


def test_a_mistake_of_our_own_is_said_to_be_one(
    replaykit: Command, case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_paths: Any, _on_done: Any) -> Any:
        raise LookupError("a bug")

    monkeypatch.setattr("replaykit.cli.lint.lint_cases", broken)

    ran = replaykit("lint", case)

    assert (ran.code, ran.out) == (3, "")
    assert "internal error: LookupError: a bug" in ran.err
    assert "--debug" in ran.err


def test_a_command_that_is_not_unicode_is_no_mistake_of_ours(replaykit: Command, case: Path) -> None:
    ran = replaykit("replay", case, "--runner-cmd", "true \udcff")

    assert "internal error" not in ran.err


@pytest.mark.parametrize("timeout", ["inf", "nan"])
@pytest.mark.parametrize("candidate", ["--runner-cmd", "--agent", "--endpoint"])
def test_a_time_limit_that_is_none_is_refused_or_kept(
    replaykit: Command, case: Path, good: str, timeout: str, candidate: str
) -> None:
    Path("agent.py").write_text("def run(q): return 'fine'")
    value = {"--runner-cmd": good, "--agent": "agent:run", "--endpoint": "http://127.0.0.1:1/"}[candidate]

    ran = replaykit("replay", case, candidate, value, "--timeout", timeout)

    assert "internal error" not in ran.err
    assert ran.code in ((0, 2) if candidate != "--endpoint" else (2, 3))


@pytest.mark.parametrize("jobs", [(), ("-j", "2", "--repeat", "2")])
def test_results_go_to_stdout_and_all_else_to_stderr(
    replaykit: Command, case: Path, bad: str, jobs: tuple[str, ...]
) -> None:
    ran = replaykit("replay", case, "--runner-cmd", bad, *jobs)

    assert ran.code == 1
    assert "reproduced" in ran.out.lower()
    assert "Evidence" not in ran.out
    assert "Evidence" in ran.err


def test_json_is_all_there_is_on_stdout(spawned: Command, case: Path, bad: str) -> None:
    ran = spawned("replay", case, "--runner-cmd", bad, "--json", "-j", "2", "--repeat", "2")

    assert len(json.loads(ran.out)["results"]) == 2
    assert ran.err == ""


def unread(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command whose output goes into a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "replaykit", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=30)
    os.close(writing)
    return done


def test_a_reader_that_has_gone_is_no_failure_of_an_agent() -> None:
    done = unread("help", "schema")

    assert done.stderr == ""
    assert done.returncode not in (ExitCode.FAILED, ExitCode.USAGE, ExitCode.CANNOT, ExitCode.NOTHING)


def test_a_failure_does_not_pass_because_nobody_reads_it(case: Path, bad: str) -> None:
    assert unread("replay", str(case), "--runner-cmd", bad).returncode != 0


@pytest.mark.exhaustive
def test_no_colour_in_a_pipe(spawned: Command, case: Path, bad: str, recorded: Path) -> None:
    replay = ["replay", case, "--runner-cmd", bad]
    for arguments in (replay, ["lint", case], ["show", "billing"], ["show", "none"]):
        ran = spawned(*arguments)

        assert ESCAPE not in ran.out + ran.err


def test_colour_on_a_terminal(case: Path) -> None:
    assert ESCAPE in on_a_terminal("lint", str(case))


def test_no_colour_on_a_terminal_that_wants_none(case: Path, recorded: Path) -> None:
    for arguments in (["lint", str(case)], ["show", "billing"]):
        seen = on_a_terminal(*arguments, NO_COLOR="1")

        assert seen
        assert ESCAPE not in seen


def test_no_colour_in_an_error_on_a_terminal_that_wants_none() -> None:
    assert ESCAPE not in on_a_terminal("show", "none", NO_COLOR="1")


def test_the_command_is_also_a_module_and_a_program(spawned: Command) -> None:
    program = Path(sys.executable).with_name("replaykit")

    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)

    assert done.stdout == spawned("--version").out == f"replaykit {rk.__version__}\n"
