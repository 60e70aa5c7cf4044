"""How a program's run ended, told from outside."""

from __future__ import annotations

import signal

import pytest

from replaykit.model.events import ErrorEvent, ErrorInfo, LlmCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.programs.command import MAX_OUTPUT, finished_run, shell_code, text_of, with_program_facts


def model(seq: int, content: str | None) -> LlmCall:
    return LlmCall(seq=seq, name="m", result_json=raw({"role": "assistant", "content": content, "tool_calls": []}))


RUN = TraceRun(id="r1", events=(model(0, "first"), model(1, "last words"), model(2, None)))


@pytest.mark.parametrize(
    ("code", "interrupted", "status"),
    [
        (0, False, RunStatus.SUCCESS),
        (0, True, RunStatus.SUCCESS),  # it took the signal for something else
        (3, False, RunStatus.ERROR),
        (3, True, RunStatus.CANCELLED),
        (130, False, RunStatus.CANCELLED),
        (-signal.SIGINT, False, RunStatus.CANCELLED),
        (-signal.SIGTERM, True, RunStatus.CANCELLED),
        (-signal.SIGSEGV, False, RunStatus.ERROR),
    ],
)
def test_the_status_is_told_from_the_exit_code(code: int, interrupted: bool, status: RunStatus) -> None:
    run = finished_run(RUN, code, b"", at=5.0, interrupted=interrupted)

    assert (run.status, run.ended_at) == (status, 5.0)
    assert (run.error is not None) == (status is RunStatus.ERROR)


def test_an_exit_code_or_a_signal_is_the_error_where_nothing_else_is_known() -> None:
    assert str(finished_run(RUN, 3, b"", at=1.0).error) == "ExitCode: the program ended with exit code 3"
    assert str(finished_run(RUN, -9, b"", at=1.0).error) == "ExitCode: the program ended with signal 9"


def test_an_exception_that_ended_the_program_is_the_error() -> None:
    failed = ErrorEvent(seq=3, error=ErrorInfo(type="RuntimeError", message="out of luck"))
    in_child = ErrorEvent(seq=4, path="/!child#0", error=ErrorInfo(type="ValueError", message="its own affair"))
    run = TraceRun(id="r1", events=(failed, in_child))

    assert str(finished_run(run, 1, b"", at=1.0).error) == "RuntimeError: out of luck"
    assert "exit code 3" in str(finished_run(run, 3, b"", at=1.0).error), (
        "it went on after that, and ended in another way"
    )
    assert finished_run(run, 0, b"", at=1.0).error is None


def test_what_it_printed_is_its_output() -> None:
    assert finished_run(RUN, 0, b"  You paid for a year.\n\n", at=1.0).output == "You paid for a year."


def test_where_it_printed_nothing_the_last_words_of_a_model_are() -> None:
    assert finished_run(RUN, 0, b" \n", at=1.0).output == "last words"
    assert finished_run(TraceRun(id="r1"), 0, b"", at=1.0).output is None


def test_of_much_output_the_end_is_kept() -> None:
    output = finished_run(RUN, 0, b"x" * MAX_OUTPUT + b" the end", at=1.0).output

    assert output.endswith("the end")
    assert len(output) <= MAX_OUTPUT


def test_colours_and_the_line_ends_of_terminals_are_no_part_of_it() -> None:
    assert text_of(b"\x1b[1;32mdone\x1b[0m\r\n\x1b]0;title\x07next \xff") == "done\nnext \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(("code", "told"), [(0, 0), (7, 7), (-2, 130), (-9, 137)])
def test_exit_codes_are_told_as_shells_do(code: int, told: int) -> None:
    assert shell_code(code) == told


def test_facts_about_a_program_stand_beside_other_metadata() -> None:
    header = RunHeader(id="r1", metadata_json=raw({"mine": 1}))

    header = with_program_facts(
        with_program_facts(header, command=["a"], recorder={"host": "h"}), exit_code=3, recorder=None
    )

    assert header.metadata == {"mine": 1, "program": {"command": ["a"], "exit_code": 3}}
