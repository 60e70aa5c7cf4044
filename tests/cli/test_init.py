"""`replaykit init`: asks on a terminal, detects elsewhere, and writes a configuration that `ci` can run."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Ran

import replaykit as rk

Command = Callable[..., Ran]
RECORDED = "import replaykit as rk\n\n\n@rk.record('support')\ndef answer(question): ...\n"


def asked(*typed: str) -> tuple[int, str]:
    """Run `replaykit init` on a terminal where somebody types these lines, and then the end of input."""
    keyboard, line = pty.openpty()
    command = [sys.executable, "-m", "replaykit", "init"]
    process = subprocess.Popen(command, stdin=line, stdout=line, stderr=line, start_new_session=True)
    os.close(line)
    os.write(keyboard, "".join([*(f"{text}\n" for text in typed), "\x04"]).encode())
    shown = b""
    while True:
        try:
            part = os.read(keyboard, 4096)
        except OSError:  # the process has ended
            break
        if not part:
            break
        shown += part
    os.close(keyboard)
    return process.wait(timeout=30), shown.decode()


def agent() -> tuple[str, str]:
    found = rk.load_project("replaykit.yaml").agent
    assert found is not None
    return found.type, found.endpoint


def test_on_a_terminal_what_was_found_is_the_default() -> None:
    Path("bot.py").write_text(RECORDED)

    code, shown = asked("", "")

    assert code == 0
    assert "Found: bot:answer" in shown
    assert "[python]" in shown
    assert "[bot:answer]" in shown
    assert agent() == ("python", "bot:answer")


@pytest.mark.parametrize(
    ("kind", "wrong", "name"),
    [
        ("command", "http://127.0.0.1:8000", "node agent.mjs"),
        pytest.param("http", "bot:answer", "http://127.0.0.1:8000/ask", marks=pytest.mark.exhaustive),
        pytest.param("python", "no module", "shop.agent:answer", marks=pytest.mark.exhaustive),
    ],
)
def test_on_a_terminal_any_kind_of_agent_is_asked_for_until_it_fits(kind: str, wrong: str, name: str) -> None:
    code, shown = asked("pythn", kind, wrong, name)

    assert code == 0
    assert "did you mean 'python'?" in shown
    assert f"{wrong!r} does not name one" in shown
    assert agent() == (kind, name)


def test_on_a_terminal_the_answer_may_come_later(replaykit: Command) -> None:
    code, shown = asked("later")

    assert code == 0
    assert "No agent found. Name it in replaykit.yaml." in shown
    assert rk.load_project("replaykit.yaml").agent is None


def test_a_node_program_is_found(replaykit: Command) -> None:
    Path("package.json").write_text('{"main": "src/agent.mjs"}')
    Path("src").mkdir()
    Path("src/agent.mjs").write_text("")

    assert "The agent is node src/agent.mjs." in replaykit("init").out
    assert agent() == ("command", "node src/agent.mjs")


@pytest.mark.parametrize("package", ["[]", "{", '{"main": 1}', '{"main": "gone.js"}'])
def test_a_package_that_names_no_program_is_passed_over(replaykit: Command, package: str) -> None:
    Path("package.json").write_text(package)

    assert "No agent found" in replaykit("init").out


def test_ci_runs_right_after_init_found_the_agent(replaykit: Command) -> None:
    Path("bot.py").write_text(RECORDED.replace("...", "return 'yes'"))

    ready = replaykit("init").out
    passed = replaykit("ci", "--json")
    Path("bot.py").write_text(RECORDED)
    failed = replaykit("ci", "--json")

    assert ready.endswith("Next: replaykit ci\n")
    assert (passed.code, passed.json["items"][0]["input"]) == (0, "Hello")
    assert failed.code == 1


def test_ci_says_what_to_do_next_while_there_is_neither_agent_nor_case(replaykit: Command) -> None:
    next_steps = replaykit("init").out

    ran = replaykit("ci")

    assert ran.code == 5
    assert "replaykit scaffold TRACE --out cases/NAME" in next_steps
    assert "replaykit scaffold TRACE --out cases/NAME" in ran.err
    assert "It names no agent, either." in ran.err


@pytest.mark.parametrize(
    ("option", "wrong"),
    [("--agent", "not an agent"), ("--agent", ""), ("--endpoint", "my_agent:answer"), ("--runner-cmd", "http://x/y")],
)
def test_an_option_that_names_another_kind_of_agent_is_refused(replaykit: Command, option: str, wrong: str) -> None:
    ran = replaykit("init", option, wrong)

    assert ran.code == 2
    assert f"{option} {wrong!r}: expected" in ran.err
    assert not Path("replaykit.yaml").exists()


def test_a_project_that_has_cases_calls_no_agent_for_real(replaykit: Command) -> None:
    Path("bot.py").write_text(RECORDED)
    Path("cases", "loop").mkdir(parents=True)
    Path("cases", "loop", "case.yaml").write_text(
        "replaykit: 1\nid: loop\nscenario: {}\nobserved: [{status_is: error}]\n"
    )

    shown = replaykit("init").out

    assert shown.endswith("Next: replaykit ci\n")
    assert rk.load_project("replaykit.yaml").contracts == {}


def test_doctor_says_what_is_missing_and_what_to_type(replaykit: Command) -> None:
    Path("bot.py").write_text(RECORDED)
    replaykit("init")

    whole = items(replaykit)
    Path("bot.py").unlink()
    without = items(replaykit)

    assert (whole["agent"]["state"], without["agent"]["state"]) == ("ok", "problem")
    assert whole["cases"]["advice"] == ["Make one: replaykit scaffold TRACE --out cases/NAME"]
    assert "there is no 'bot'" in without["agent"]["detail"]


@pytest.mark.parametrize(("program", "state"), [("sh run.sh", "ok"), ("no-such-program-here run", "problem")])
def test_doctor_looks_for_the_program_of_a_command(replaykit: Command, program: str, state: str) -> None:
    replaykit("init", "--runner-cmd", program)

    assert items(replaykit)["agent"]["state"] == state


def items(replaykit: Command) -> dict[str, dict[str, object]]:
    return {item["name"]: item for item in replaykit("doctor", "--json").json["items"]}
