"""`replaykit debug` as a person uses it: the real process on a real (pseudo) terminal, keys in, screens out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import runpy
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.cases.takes import read_takes
from replaykit.model.run import RunHeader, encode_run

AGENT = """
import os
import replaykit as rk

@rk.tool(effects="none")
def search(query):
    return {"docs": [query] * 40}

@rk.tool
def send(text):
    with open("sent", "a") as file:
        file.write(text)
    return "sent"

@rk.tool
def refund(order):
    with open("refunded", "a") as file:
        file.write(str(order))
    raise TimeoutError("\\x1b]0;owned\\x07 the bank \\x1b[2J sleeps \\u202e")

def answer(question, state=None):
    with rk.record("desk") as run:
        state = state or {"tries": 0, "max_tries": 3, "log": []}
        while state["tries"] < state["max_tries"]:
            with run.step(f"try_{state['tries'] + 1}", state=state) as step:
                step.decide(f"search number {state['tries'] + 1}")
                search(f"{question} {state['tries'] + 1}")
                state = step.done({**state, "tries": state["tries"] + 1, "log": [*state["log"], "looked"]})
        return f"gave up after {state['tries']}"

def careless(question):
    found = search(question)
    if len(found["docs"]) < 40:
        print("the agent speaks")
        sent = send(found["docs"][0])
        if found["docs"][0] == "both":
            refund(8)
        return sent
    try:
        refund(7)
    except TimeoutError:
        return "no refund"

def waiting(question):
    search(question)
    if question != "why?" or os.environ.get("WAIT"):
        print("the agent waits", flush=True)
        import select
        select.select([], [], [], 60)
    return "done"
"""
ACQUIRE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
FRAME = "\x1b[?25l\x1b[H"
PATIENCE_S = 30


class Terminal:
    """A process on a terminal of its own; what it wrote last is `screen`."""

    def __init__(self, *arguments: str, size: tuple[int, int] = (80, 24), **env: str) -> None:
        self.keyboard, self.line = pty.openpty()
        self.resize(*size)
        self.found = termios.tcgetattr(self.line)
        self.written = ""
        command = [sys.executable, "-I", "-S", "-c", ACQUIRE, sys.executable, "-m", "replaykit", *arguments]
        streams = {"stdin": self.line, "stdout": self.line, "stderr": self.line}
        settings = {**os.environ, "TERM": "xterm", **env}
        self.process = subprocess.Popen(command, env=settings, start_new_session=True, **streams)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.line, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str, until: str = "") -> str:
        """Press keys and wait until a screen that is written after them shows the text."""
        seen = len(self.written)
        os.write(self.keyboard, keys.encode())
        return self.wait(until, seen) if until else self.screen

    def wait(self, text: str, seen: int = 0) -> str:
        """Read until what was written from `seen` on shows the text on the last screen, or below it."""
        deadline = time.monotonic() + PATIENCE_S
        while not (len(self.written) > seen and self.whole and text in self.screen):
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not come; the screen:\n{self.screen}")
        return self.screen

    @property
    def whole(self) -> bool:
        """True when the last screen is complete."""
        last = self.written.rpartition(FRAME)[2]
        return "\x1b[J" in last or FRAME not in self.written

    @property
    def screen(self) -> str:
        last = self.written.rpartition(FRAME)[2]
        return re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", last).replace("\r", "")

    @property
    def rows(self) -> list[str]:
        return self.screen.split("\n")

    def ended(self) -> int:
        """Wait for the end; gives the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        code = self.process.wait(timeout=1)
        self._read(0)
        return code

    @property
    def is_as_it_was(self) -> bool:
        """True when the terminal is as it was before, and shows its main screen and a cursor."""
        last = {code: self.written.rfind(f"\x1b[?{code}") for code in ("1049h", "1049l", "25h", "25l", "7h", "7l")}
        shown = last["1049l"] >= last["1049h"] and last["25h"] >= last["25l"] and last["7h"] >= last["7l"]
        return shown and termios.tcgetattr(self.line) == self.found

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.keyboard], [], [], max(timeout_s, 0))[0]:
            return False
        self.written += os.read(self.keyboard, 65536).decode("utf-8", "replace")
        return True

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keyboard)
        os.close(self.line)


Start = Callable[..., Terminal]


@pytest.fixture
def debug() -> Iterator[Start]:
    """Start `replaykit debug` on a terminal."""
    open_ones: list[Terminal] = []

    def start(*arguments: str, until: str = "? help", **options: Any) -> Terminal:
        open_ones.append(Terminal("debug", *arguments, **options))
        open_ones[-1].wait(until)
        return open_ones[-1]

    yield start
    for terminal in open_ones:
        terminal.close()


@pytest.fixture
def desk(own_directory: Path) -> dict[str, Any]:
    """The module `desk`, and its runs in the project's store."""
    (own_directory / "desk.py").write_text(AGENT)
    module = runpy.run_path("desk.py")
    for name in ("answer", "careless", "waiting"):
        with rk.record(name, input="why?") as run:
            run.output = module[name]("why?")
    for path in ("refunded", "sent"):
        Path(path).unlink(missing_ok=True)
    return module


@pytest.fixture
def editor(own_directory: Path) -> Callable[[str], str]:
    """The command of an editor that does this to the `text` of the file; `times` counts how often it was opened."""

    def write(code: str) -> str:
        script = own_directory / "editor.py"
        script.write_text(
            "import pathlib, sys\n"
            "file, log = pathlib.Path(sys.argv[1]), pathlib.Path('opened')\n"
            "text, times = file.read_text(), len(log.read_text().split('§')) - 1 if log.exists() else 0\n"
            "log.write_text((log.read_text() if times else '') + text + '§')\n"
            f"{code}\n"
            "file.write_text(text)\n"
        )
        return f"{sys.executable} {script}"

    return write


def saved(name: str) -> bytes:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return encode_run(store.load(name))


def headers() -> list[RunHeader]:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.headers()


def test_one_sees_at_once_where_one_is_and_which_keys_there_are(desk: object, debug: Start) -> None:
    rows = debug("answer").rows

    assert re.fullmatch(r"answer  \S+  success", rows[0])
    assert rows[1].startswith("step 1 of 3  try_1  ")
    assert rows[1].endswith("state stored")
    assert "  decided    search number 1" in rows
    assert "  tool       search(query='why? 1')" in rows
    assert any(row.startswith("             → {'docs': ['why? 1'") for row in rows)
    assert rows[-1] == "n/b step  g go  s state  d diff  t full  / find  l list  e fork  ? help  q quit"
    assert len(rows) == 24


def test_keys_lead_from_step_to_step_and_the_terminal_is_left_as_it_was(desk: object, debug: Start) -> None:
    terminal = debug("answer")

    for keys, place in [
        ("n", 2), (" ", 3), ("b", 2), ("p", 1), ("\x1b[C", 2), ("\x1b[B", 3), ("\x1b[D", 2), ("\x1b[A", 1),
        ("$", 3), ("0", 1), ("\x1b[F", 3), ("\x1b[H", 1), ("nn", 3), ("gtry_2\r", 2), ("g3\r", 3),
    ]:  # fmt: skip
        assert f"step {place} of 3" in terminal.press(keys, f"step {place} of 3")
    assert "this is the last step" in terminal.press("n", "last step")
    terminal.press("q")

    assert terminal.ended() == 0
    assert terminal.is_as_it_was


@pytest.mark.exhaustive
def test_a_step_that_is_not_there_is_said_with_the_nearest_and_one_stays(desk: object, debug: Start) -> None:
    terminal = debug("answer", "--step", "try_2")

    screen = terminal.press("gtyr_3\r", "has no step")
    assert "did you mean 'try_3'?" in screen.replace("\n", " ")
    assert "step 2 of 3" in screen
    assert "try_1, try_2, try_3" in terminal.press("g99\r", "has no step '99'")
    terminal.press("g", "To which step?")
    assert "has no step" not in terminal.press("\x1b", "step 2 of 3")


@pytest.mark.exhaustive
def test_pages_show_the_state_its_change_and_the_step_in_full(desk: object, debug: Start) -> None:
    terminal = debug("answer", "--step", "2")

    assert '"tries": 2' in terminal.press("s", "state after try_2 (2 of 3)")
    assert '"tries": 3' in terminal.press("n", "state after try_3 (3 of 3)")
    assert "changed   $.tries: 2 → 3" in terminal.press("d", "what try_3 (3 of 3) changed")
    assert "added     $.log[2]: 'looked'" in terminal.screen
    assert '"query": "why? 3"' in terminal.press("t", "try_3 (3 of 3) in full")
    listed = terminal.press("l", "steps of answer")
    assert "> 3  try_3  state  search" in listed
    assert "edit the state, an answer or arguments" in terminal.press("?", "the previous step")
    assert "step 3 of 3" in terminal.press("q", "step 3 of 3")


@pytest.mark.exhaustive
def test_long_output_is_shown_a_screen_at_a_time(desk: object, debug: Start) -> None:
    terminal = debug("answer")

    first = terminal.press("t", "try_1 (1 of 3) in full")
    total = int(re.search(r"1–20 of (\d+)", first)[1])  # type: ignore[index]
    assert f"21–40 of {total}" in terminal.press(" ", "21–40")
    assert f"22–41 of {total}" in terminal.press("\x1b[B", "22–41")
    assert f"1–20 of {total}" in terminal.press("bb", "1–20")
    assert f"{total - 19}–{total} of {total}" in terminal.press("$", f"–{total} of")
    assert "is not on this page" in terminal.press("/nowhere\r", "is not on")
    assert '"query": "why? 1"' in terminal.press('/"QUERY\r', '"query"').split("\n")[2]


@pytest.mark.exhaustive
def test_a_text_is_found_forward_and_again(desk: object, debug: Start) -> None:
    terminal = debug("answer")

    assert "'NUMBER 2': in a decision; N finds the next" in terminal.press("/NUMBER 2\r", "step 2 of 3")
    assert "(from the start)" in terminal.press("N", "from the start")
    assert "'nowhere' is in no step" in terminal.press("/nowhere\r", "is in no step")
    assert "step 3 of 3" in terminal.press("/query='why? 3'\r", "in the call of search")


@sampled("key", ["q", "\x03", "\x04"], count=1, start=1)
def test_there_are_three_ways_to_quit(desk: object, debug: Start, key: str) -> None:
    terminal = debug("answer")
    terminal.press(key)

    assert terminal.ended() == 0
    assert terminal.is_as_it_was


def test_a_process_that_is_told_to_end_leaves_the_terminal_as_it_was(desk: object, debug: Start) -> None:
    terminal = debug("answer")
    terminal.process.send_signal(signal.SIGTERM)

    assert terminal.ended() == 143
    assert terminal.is_as_it_was
    assert "Traceback" not in terminal.written


def test_the_window_can_change_between_keys(desk: object, debug: Start) -> None:
    terminal = debug("careless", "--step", "2", size=(200, 60))
    assert len(terminal.rows) == 60
    assert "─" * 200 in terminal.rows

    terminal.resize(40, 10)
    terminal.wait("\n" + "─" * 40 + "\n")
    assert len(terminal.rows) == 10
    assert terminal.rows[-1].endswith("? help  q quit")
    assert max(map(len, terminal.rows)) == 40

    seen = len(terminal.written)
    terminal.resize(8, 3)
    terminal.wait("", seen)
    terminal.press("ssn?q", "")
    terminal.press("q")
    assert terminal.ended() == 0


def test_without_a_terminal_it_is_a_usage_error_that_names_the_other_verbs(
    desk: object, spawned: Callable[..., Any]
) -> None:
    ran = spawned("debug", "answer")

    assert ran.code == 2
    assert ran.out == ""
    for verb in ("replaykit show RUN --steps", "replaykit show RUN --step", "replaykit fork RUN --step"):
        assert verb in ran.err


@sampled(
    ("arguments", "code", "words"),
    [
        (["nope"], 3, "no run 'nope'"),
        (["answer", "--step", "try_9"], 2, "did you mean 'try_3'?"),
        (["answer", "--step", "9"], 2, "try_1, try_2, try_3"),
        (["answer", "--agent", "no_such:thing"], 2, "cannot be loaded"),
        (["answer", "--agent", "nothing"], 2, "does not name an agent"),
        (["answer", "--store", "nowhere.db"], 3, "nowhere.db"),
    ],
    count=3,
)
def test_wrong_input_is_said_before_the_screen_is_taken(
    desk: object, debug: Start, arguments: list[str], code: int, words: str
) -> None:
    terminal = debug(*arguments, until=words)

    assert terminal.ended() == code
    assert "\x1b[?1049h" not in terminal.written


OWN_SEQUENCES = {
    *("\x1b[?1049h", "\x1b[?1049l", "\x1b[?7h", "\x1b[?7l", "\x1b[?25h", "\x1b[?25l"),
    *("\x1b[H", "\x1b[K", "\x1b[J"),
}


def sequences_in(written: str) -> set[str]:
    """The escape sequences that were written, but for colours."""
    found = set(re.findall(r"\x1b(?:\[[?0-9;]*[a-zA-Z]|.)", written))
    return {sequence for sequence in found if not re.fullmatch(r"\x1b\[[0-9;]*m", sequence)}


def test_what_a_recorded_value_holds_never_reaches_the_terminal_as_it_is(desk: object, debug: Start) -> None:
    terminal = debug("careless", "--step", "2")
    for keys, until in [("t", "in full"), ("l", "steps of"), ("q", "2 of 2"), ("/sleeps\r", "in the error of refund")]:
        terminal.press(keys, until)
    assert r"TimeoutError: \x1b]0;owned\x07 the bank \x1b[2J sleeps \u202e" in terminal.screen
    terminal.press("q")
    terminal.ended()

    assert sequences_in(terminal.written) == OWN_SEQUENCES
    assert "\x1b[31m" in terminal.written, "errors are red"
    assert "\u202e" not in terminal.written
    assert "\x07" not in terminal.written


def test_the_names_of_a_run_and_its_steps_are_not_trusted_either(
    desk: dict[str, Any], debug: Start, editor: Callable[[str], str]
) -> None:
    with rk.record("\x1b]0;run\x07", input="why?") as run, run.step("\x1b]0;step\x07") as step:
        desk["search"]("why?")
        step.done({"\x1b]0;key\x07": "\x9b2J"})
    edit = editor("""text = '{"result": {"docs": ["x"]}}'""")
    terminal = debug(run.id, "--agent", "desk:careless", EDITOR=edit)

    for key, until in [("s", "state after"), ("d", "changed"), ("t", "in full"), ("l", "steps of"), ("q", "1 of 1")]:
        assert r"\x1b]0;" in terminal.press(key, until)
    terminal.press("e2", "May send be called for real?")
    terminal.press("N", "step into the fork")
    terminal.press("\rcqq", "")
    assert terminal.ended() == 0

    assert r"at \x1b]0;step\x07 …" in terminal.written
    assert sequences_in(terminal.written) == OWN_SEQUENCES
    assert not {"\x07", "\x9b"} & set(terminal.written)


def test_no_color_is_honoured(desk: object, debug: Start) -> None:
    terminal = debug("careless", "--step", "2", NO_COLOR="1")
    terminal.press("t", "in full")
    terminal.press("qq")
    terminal.ended()

    assert not re.search(r"\x1b\[[0-9;]*m", terminal.written)


def test_a_terminal_that_can_do_nothing_is_written_to_line_by_line(desk: object, debug: Start) -> None:
    terminal = debug("answer", TERM="dumb")
    terminal.press("nq")

    assert terminal.ended() == 0
    assert "step 2 of 3" in terminal.written
    assert "\x1b[H" not in terminal.written
    assert "\x1b[?" not in terminal.written


def test_a_store_that_is_damaged_midway_is_an_error_line(desk: object, debug: Start) -> None:
    terminal = debug("answer")
    with closing(sqlite3.connect(".replaykit/store.db", isolation_level=None)) as db:
        db.execute("UPDATE events SET data = zeroblob(length(data))")
        db.execute("UPDATE packs SET data = zeroblob(length(data))")

    assert "step 1 of 3" in terminal.press("s", "checksum does not match")
    assert "checksum does not match" in terminal.press("r", "checksum")
    assert '"query": "why? 2"' in terminal.press("nt", "try_2 (2 of 3) in full"), "what was read is still there"
    terminal.press("qq")
    assert terminal.ended() == 0
    assert "Traceback" not in terminal.written


def test_a_run_that_goes_on_can_be_read_again(own_directory: Path, debug: Start) -> None:
    with rk.record("slow", input="why?") as run:
        run.message("user", "\u65e5\u672c\u8a9e " * 30)
        terminal = debug("slow")
        assert "running" in terminal.rows[0]
        assert "no steps: the run made no calls" in terminal.rows[1]
        assert "this run has no steps" in terminal.press("n", "has no steps")
        assert "nothing to fork from" in terminal.press("e", "nothing to fork")
        assert "this run has no state" in terminal.press("s", "state after the run")
        terminal.press("q", "made no calls")
        with run.step("plan") as step:
            step.done({"here": True})
        assert "step 1 of 1  plan" in terminal.press("r", "read again: 1 step")
        assert "state      stored as a whole" in terminal.screen


def test_a_state_that_was_not_kept_is_reached_again_by_the_agent_that_was_named(
    desk: dict[str, Any], debug: Start, editor: Callable[[str], str]
) -> None:
    with rk.record("sampled", input="why?", checkpoint_every=10) as run:
        run.output = desk["answer"]("why?")
    edit = editor("""text = text.replace('"max_tries": 3', '"max_tries": 4')""")

    alone = debug("sampled", "--step", "try_2")
    assert alone.rows[1].endswith("state not stored")
    assert "with --agent, the agent reconstructs it" in alone.press("s", "was not stored")
    assert "the state after try_2" not in alone.press("e", "what do you want to change?")

    terminal = debug("sampled", "--step", "try_2", "--agent", "desk:answer", EDITOR=edit)
    assert '"tries": 2' in terminal.press("s", "the agent ran again to get there")
    assert "changed   $.tries: 1 → 2" in terminal.press("d", "changed   $.tries")
    assert "gave up after 4" in terminal.press("e1", "step into the fork")


def test_help_costs_nothing_more(own_directory: Path) -> None:
    code = (
        "import sys; from replaykit.cli import run; run(['--help']);"
        "print([name for name in sys.modules if 'debug_' in name or 'stepper' in name or name == 'termios'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert "debug    Step through a run" in done.stdout


def test_an_edited_state_becomes_a_fork_that_one_can_step_into_and_out_of(
    desk: object, debug: Start, editor: Callable[[str], str]
) -> None:
    before = saved("answer")
    change = editor("""text = text.replace(f'"max_tries": {3 + times}', f'"max_tries": {4 + times}')""")
    terminal = debug("answer", "--step", "try_2", "--agent", "desk:answer", EDITOR=change)

    chosen = terminal.press("e", "what do you want to change?")
    assert "1  the state after try_2" in chosen
    assert "2  what search(query='why? 2') answers" in chosen
    screen = terminal.press("1", "step into the fork")
    fork = headers()[0]
    assert f"{fork.id}  success  by state" in screen
    assert "'gave up after 4'" in screen
    assert "differs at try_" in screen
    assert "step 2 of 4  try_2" in terminal.press("\r", "this is the fork")
    assert "c compare" in terminal.screen
    assert "beside its parent" in terminal.press("c", "beside its parent")
    assert "gave up after 5" in terminal.press("qe1", "step into the fork")
    assert "step 2 of 5  try_2" in terminal.press("\r", "step 2 of 5")
    assert "step 2 of 4" in terminal.press("u", "step 2 of 4")
    assert "step 2 of 3" in terminal.press("u", "step 2 of 3")
    assert "no run to return to" in terminal.press("u", "no run to return to")
    terminal.press("q")

    assert terminal.ended() == 0
    assert f"replaykit compare {fork.origin.run} {fork.id}" in terminal.written.replace("\r", "")
    assert saved("answer") == before
    opened = Path("opened").read_text()
    assert "// try_2: the state after try_2." in opened
    assert '"max_tries": 3' in opened
    assert terminal.is_as_it_was


def test_a_run_can_be_kept_as_another_take_of_a_case(desk: object, debug: Start) -> None:
    Path("cases/desk").mkdir(parents=True)
    Path("cases/desk/case.yaml").write_text(
        "replaykit: 2\nid: desk\nscenario: {input: 'why?'}\nobserved: [{output.contains: gave up}]\n"
    )
    terminal = debug("answer")

    terminal.press("k", "Save it as a take of which case?")
    asked = terminal.press("cases/desk\r", "w write it anyway")
    written = terminal.press("w", "take take-2 of cases/desk")
    terminal.press("q")

    assert "no take was written" in asked
    assert "take-2" in written
    assert terminal.ended() == 0
    assert [take.verdict for take in read_takes(rk.load_case("cases/desk"))] == ["reproduced"]


def test_nothing_is_done_for_real_without_a_yes(desk: object, debug: Start, editor: Callable[[str], str]) -> None:
    edit = editor("""text = '{"result": {"docs": ["both"]}}'""")
    terminal = debug("careless", "--agent", "desk:careless", VISUAL=edit)

    assert "send(text='both')" in terminal.press("e1", "May send be called for real?")
    assert "Undecided" in terminal.press("\r", "step into the fork")
    terminal.press("q", "step 1 of 2")
    assert not Path("sent").exists()

    terminal.press("e1", "May send be called for real?")
    asked = terminal.press("y", "May refund be called for real?")
    assert Path("sent").read_text() == "both"
    assert "not repeated" in asked
    assert "  send(text='both')" in asked
    assert "refund(order=8)" in asked
    assert "Undecided" in terminal.press("N", "step into the fork")
    assert not Path("refunded").exists()
    terminal.press("qq")
    assert terminal.ended() == 0
    before, said, _ = terminal.written.partition("the agent speaks")
    assert said
    assert before.rfind("\x1b[?1049l") > before.rfind("\x1b[?1049h"), "on the main screen, where it stays"
    assert len(headers()) == 3 + 3, "every attempt is a run, and is told of at the end"
    assert terminal.written.count("replaykit compare") == 3


def test_what_the_answer_to_one_question_let_happen_does_not_happen_again_after_the_next(
    desk: object, debug: Start, editor: Callable[[str], str]
) -> None:
    edit = editor("""text = '{"result": {"docs": ["both"]}}'""")
    terminal = debug("careless", "--agent", "desk:careless", VISUAL=edit)

    terminal.press("e1", "May send be called for real?")
    terminal.press("y", "May refund be called for real?")
    ended = terminal.press("y", "step into the fork")

    assert "done     done for real in the attempt before: send(text='both')" in ended
    assert "live     done for real: refund(order=8)" in ended
    assert Path("sent").read_text() == "both", "once"
    assert Path("refunded").read_text() == "8"
    with rk.Store.open(".replaykit/store.db") as store:
        calls = store.load(headers()[0].id).tool_calls
    assert [(call.name, call.result) for call in calls[1:]] == [("send", "sent"), ("refund", None)]


def test_the_live_option_answers_the_question_beforehand(
    desk: object, debug: Start, editor: Callable[[str], str]
) -> None:
    edit = editor("""text = '{"error": {"type": "LookupError", "message": "gone"}}' if times else text + ' '""")
    terminal = debug("careless", "--agent", "desk:careless", "--live", "refund", EDITOR=edit)

    assert "nothing was changed: no fork" in terminal.press("e1", "nothing was changed")
    assert "LookupError: gone" in terminal.press("e1", "step into the fork")
    terminal.press("q", "step 1 of 2")
    Path("editor.py").write_text(Path("editor.py").read_text().replace("text = '{", "text = '{\"order\": 9}' or '{"))
    terminal.press("n", "step 2 of 2")
    assert "refund(order=9)" in terminal.press("e2", "step into the fork")
    assert Path("refunded").read_text() == "9"


def test_a_text_that_cannot_be_used_brings_the_editor_back_with_the_error(
    desk: object, debug: Start, editor: Callable[[str], str]
) -> None:
    edit = editor("""text = [text.replace('"docs"', 'docs'), '{"reslt": 1}', '{"result": {"docs": []}}'][times]""")
    terminal = debug("answer", "--step", "try_3", "--agent", "desk:answer", EDITOR=edit)

    assert "gave up after 3" in terminal.press("e2", "step into the fork")

    first, second, third, _ = Path("opened").read_text().split("§")
    assert first.startswith("// try_3: what search(query='why? 3') answers.")
    assert second.startswith("// Not yet: this is not JSON: ")
    line = int(re.search(r"line (\d+)", second)[1])  # type: ignore[index]
    assert second.split("\n")[line - 1] == "    docs: [", "it names a line of the text that is opened"
    assert third.split("\n")[0].startswith('// Not yet: an answer is {"result": …}')
    assert third.split("\n")[1:] == ['{"reslt": 1}', ""]


def test_leaving_the_editor_with_a_broken_text_forks_nothing(
    desk: object, debug: Start, editor: Callable[[str], str]
) -> None:
    terminal = debug("answer", "--agent", "desk:answer", EDITOR=editor("text = text if times else '{'"))

    assert "not forked: this is not JSON" in terminal.press("e1", "not forked")
    terminal.press("q")
    assert terminal.ended() == 0
    assert len(headers()) == 3


@sampled("command", ["false", "no-such-editor-anywhere", "'"], count=1)
def test_an_editor_that_fails_is_an_error_line(desk: object, debug: Start, command: str) -> None:
    terminal = debug("answer", "--agent", "desk:answer", EDITOR=command, VISUAL="")

    assert "$EDITOR" in terminal.press("e1", "the editor failed")
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.is_as_it_was


def test_the_agent_is_asked_for_once_and_remembered(desk: object, debug: Start, editor: Callable[[str], str]) -> None:
    terminal = debug("answer", "--step", "try_2", EDITOR=editor("""text = text.replace('3,', f'{4 + times},')"""))

    terminal.press("e1", "Which agent?")
    assert "no agent: no fork" in terminal.press("\x1b", "no agent")
    terminal.press("e1", "Which agent?")
    assert "cannot be loaded" in terminal.press("no_such:agent\r", "cannot be loaded")
    terminal.press("e1", "Which agent?")
    assert "gave up after 4" in terminal.press("desk:wrongx\x7f\x15desk:answer\r", "step into the fork")
    terminal.press("q", "step 2 of 3")
    assert "gave up after 5" in terminal.press("e1", "step into the fork")


def test_an_interrupt_ends_the_agent_and_not_the_stepper(
    desk: object, debug: Start, editor: Callable[[str], str]
) -> None:
    edit = editor("""text = '{"result": 1}'""")
    terminal = debug("waiting", "--agent", "desk:waiting", EDITOR=edit, WAIT="1")
    seen = len(terminal.written)
    terminal.press("e1", "")
    while "the agent waits" not in terminal.written[seen:]:
        assert terminal._read(PATIENCE_S)

    assert "stopped" in terminal.press("\x03", "stopped\n")
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.is_as_it_was


def test_told_to_end_while_the_agent_runs_it_ends(desk: object, debug: Start, editor: Callable[[str], str]) -> None:
    terminal = debug("waiting", "--agent", "desk:waiting", EDITOR=editor("""text = '{"result": 1}'"""), WAIT="1")
    terminal.press("e1", "")
    while "the agent waits" not in terminal.written:
        assert terminal._read(PATIENCE_S)
    terminal.process.send_signal(signal.SIGTERM)

    assert terminal.ended() == 143
    assert terminal.is_as_it_was
