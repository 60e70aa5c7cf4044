"""Progress: one line on a terminal, out of the way of everything else, and gone at the end."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from itertools import count

import pytest
from tests.intake.traces import lines, native
from tests.terminals import on_terminal, screen_of, use_terminal

from replaykit.cli import progress as module
from replaykit.cli.progress import LOG_INTERVAL_S, LoggedProgress, progress
from replaykit.report.layout import width_of
from replaykit.report.rich_layout import ProgressLine
from replaykit.terminal import guarded_output, status_line, unstyle


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    monkeypatch.setattr(module, "REDRAW_INTERVAL_S", 0.001)


def test_a_bar_is_drawn_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)

    with guarded_output(), progress("replaying", 4) as job:
        job.advance()
        terminal.wait_for("1/4")

    assert "━" in terminal.getvalue()
    assert screen_of(terminal.getvalue()) == [""]


def test_lines_that_are_printed_meanwhile_stay_whole_and_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)

    with guarded_output(), progress("replaying", 4):
        terminal.wait_for("replaying")
        for number in range(3):
            stream = [sys.stdout, sys.stderr][number % 2]
            print(f"line {number}", file=stream)
        terminal.wait_for("line 2")
        drawn = terminal.getvalue()
        terminal.wait_for(drawn + "\r")

    assert screen_of(terminal.getvalue()) == ["line 0", "line 1", "line 2", ""]


def test_the_bar_is_not_drawn_into_an_unfinished_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)

    with guarded_output(), status_line() as line:
        assert line is not None
        line.draw("one")
        print("Go on? ", end="")
        line.draw("two")
        unfinished = screen_of(terminal.getvalue())
        print("yes")
        line.draw("three")
        finished = screen_of(terminal.getvalue())

    assert unfinished == ["Go on? "]
    assert finished == ["Go on? yes", "three"]


def test_a_quiet_job_and_one_without_a_terminal_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    with guarded_output(), progress("replaying", 4, quiet=True):
        assert not is_drawing()
    with guarded_output(), progress("replaying", 4):
        assert is_drawing()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with guarded_output(), progress("replaying", 4):
        assert not is_drawing()


def is_drawing() -> bool:
    return "replaykit-progress" in [thread.name for thread in threading.enumerate()]


def test_a_terminal_that_wants_no_colour_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")

    with guarded_output(), progress("replaying", 4):
        terminal.wait_for("0/4")

    assert "\x1b[3" not in terminal.getvalue()
    assert "━" not in terminal.getvalue(), "without colours, what is left looks like what is done"


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160])
@pytest.mark.parametrize("total", [None, 1, 20_000])
def test_the_line_fits_and_shows_how_much_is_done(width: int, total: int | None) -> None:
    text = unstyle(ProgressLine("importing").text(1_234, total, width))

    assert width_of(text) <= width
    assert "importing" in text
    assert "1,234" in text


def test_elsewhere_a_long_job_says_now_and_then_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    clock = count(step=int(LOG_INTERVAL_S // 2))
    job = LoggedProgress("importing", clock=lambda: float(next(clock)))

    for _ in range(4):
        job.advance()

    assert capsys.readouterr().err == "note: importing: 2 so far\nnote: importing: 4 so far\n"


@pytest.mark.parametrize(("options", "is_shown"), [([], True), (["--json"], False)])
def test_a_person_sees_how_far_an_import_is_and_a_program_does_not(options: list[str], is_shown: bool) -> None:
    command = [sys.executable, "-m", "replaykit", "import", "-", *options]
    with on_terminal(*command, stdin=subprocess.PIPE) as ran:
        assert ran.process.stdin is not None
        if is_shown:
            ran.read_until("importing")
        ran.process.stdin.write(lines([native("only")]))
        ran.process.stdin.close()
        written = ran.read_all()

    assert ran.process.returncode == 0
    assert ("importing" in written) is is_shown
    assert "importing" not in "".join(screen_of(written))
