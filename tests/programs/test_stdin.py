"""Standard input: what a recorded program was given there, and a replayed one is given again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.matrix import sampled
from tests.programs.agents import write

import replaykit as rk
from replaykit.candidates.command import CommandCandidate
from replaykit.cases.case import load_case
from replaykit.cases.scaffold import scaffold
from replaykit.config import default_store_path
from replaykit.errors import InvalidFile
from replaykit.programs import foreground_process
from replaykit.store.sqlite import SQLiteStore

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"


def record(given: bytes | None, *options: str, code: str = ECHO) -> subprocess.CompletedProcess[bytes]:
    """Record a program, with this on the standard input of `replaykit`; None: there is none."""
    command = [sys.executable, "-m", "replaykit", "record", *options, "--", sys.executable, write(code)]
    if given is None:
        return subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, timeout=60)
    return subprocess.run(command, input=given, capture_output=True, timeout=60)


def case_of_the_run() -> Path:
    with SQLiteStore.open(default_store_path(), read_only=True) as store:
        (header,) = store.headers()
        scaffold(store.load(header.id), "case")
    return Path("case")


def replayed(case: Path) -> bytes:
    result = rk.replay(case, CommandCandidate([sys.executable, write(ECHO)]), evidence="evidence")
    return (Path(str(result.directory)) / "stdout.log").read_bytes()


@sampled("given", ["é\r\n日 \n".encode(), b"\xff\x00\xfe", b""], count=1, start=1)
def test_a_replay_gives_what_the_recording_was_given(given: bytes) -> None:
    ended = record(given, "--input", "-")

    assert ended.stdout == given
    assert replayed(case_of_the_run()) == given


def test_what_was_given_is_the_input_of_the_run_and_of_its_case() -> None:
    record(b"Why?", "--input", "-")

    case = load_case(case_of_the_run())

    assert (case.scenario.input, case.scenario.stdin) == ("Why?", True)


def test_an_input_that_is_said_is_not_on_standard_input() -> None:
    record(b"", "--input", "Why?")

    assert replayed(case_of_the_run()) == b""


def test_what_is_lost_is_told() -> None:
    told = record(b"Why?").stderr.decode()

    assert "was not recorded, so replays cannot provide it: record it with --input -" in told


@sampled("code", ["print(1)", "import os; os.close(0)"], count=1)
def test_nothing_is_told_where_nobody_read(code: str) -> None:
    assert "was not recorded" not in record(b"Why?", code=code).stderr.decode()


@pytest.mark.exhaustive
def test_more_than_is_kept_reaches_the_program_all_the_same() -> None:
    given = b"x" * (foreground_process.MAX_INPUT + 1)

    ended = record(given, "--input", "-", code="import sys; print(len(sys.stdin.read()))")

    assert ended.stdout.split() == [str(len(given)).encode()]
    assert "replays cannot provide it: it is longer than 1 MiB" in ended.stderr.decode()
    assert not load_case(case_of_the_run()).scenario.stdin


def test_a_program_that_leaves_its_input_unread_ends_as_ever() -> None:
    assert record(b"x" * 500_000, "--input", "-", code="print(1)").stdout == b"1\n"


@pytest.mark.exhaustive
def test_without_a_standard_input_there_is_nothing_to_give() -> None:
    ended = record(None, "--input", "-")

    assert (ended.returncode, ended.stdout) == (0, b"")


@pytest.mark.exhaustive
def test_data_is_given_as_json() -> None:
    record(b"", "--input", "-")
    file = case_of_the_run() / "case.yaml"
    file.write_text(file.read_text().replace('input: ""', "input: {question: Why?}"))

    assert replayed(file.parent) == b'{"question":"Why?"}'


@pytest.mark.exhaustive
def test_a_case_says_yes_or_no() -> None:
    record(b"Why?", "--input", "-")
    file = case_of_the_run() / "case.yaml"
    file.write_text(file.read_text().replace("stdin: true", "stdin: Why?"))

    with pytest.raises(InvalidFile, match=r"stdin: expected true or false, got 'Why\?'"):
        load_case(file)
