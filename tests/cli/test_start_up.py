"""What a replay imports, in its own process and in the agent's: starting is most of what one replay takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASE = """
replaykit: 1
id: small
scenario: {input: "Where is order 7?"}
observed:
  - status_is: error
desired:
  - status_is: success
"""
AGENT = "import gc, sys\ndef answer(question): return {}\n"
PROGRAM = """
import json, sys
from replaykit.cli import run
code = run(["replay", "small", "--agent", "agent:answer", "--json"])
print(json.dumps([code, sorted(sys.modules)]))
"""
INTERRUPTED = """
import signal, sys

class Interrupt:
    # A Ctrl-C in the middle of the first import that takes long.
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""
NOT_FOR_A_CASE = (
    "replaykit.project.project",
    "replaykit.contracts",
    "replaykit.judges",
    "replaykit.retention",
    "replaykit.formats",
    "replaykit.store",
    "replaykit.programs.command",
    "replaykit.cases.session",
    "replaykit.documents.yaml_writer",
    "replaykit.documents.struct_shape",
    "replaykit.checks.questions",
    "hashlib",
    "random",
    "secrets",
    "shutil",
    "tempfile",
)
NOT_FOR_AN_AGENT = (
    "click",
    "yaml",
    "replaykit.cli",
    "replaykit.cases",
    "replaykit.checks",
    "replaykit.project",
    "hashlib",
    "random",
    "shutil",
    "tempfile",
    "traceback",
)


def started(answer: str) -> tuple[list[str], object]:
    """The modules of a replay's process, and what the agent answered."""
    Path("small").mkdir()
    Path("small/case.yaml").write_text(CASE)
    Path("agent.py").write_text(AGENT.format(answer))
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stdout
    (log,) = Path(".replaykit/runs").glob("*/runner-output.json")
    return modules, json.loads(log.read_text())["run"]["output"]


def among(modules: list[str], unwanted: tuple[str, ...]) -> list[str]:
    return [name for name in modules if any(name == one or name.startswith(f"{one}.") for one in unwanted)]


def test_a_case_is_replayed_without_what_only_others_need() -> None:
    modules, _ = started("'yes'")

    assert among(modules, NOT_FOR_A_CASE) == []


def test_only_the_kinds_of_assertion_that_a_case_names_are_imported() -> None:
    from replaykit.checks.rule import KIND_MODULES

    modules, _ = started("'yes'")

    assert set(KIND_MODULES.values()) & set(modules) == {"replaykit.checks.outcome"}


def test_an_agent_starts_beside_nothing_that_it_does_not_need() -> None:
    _, modules = started("sorted(sys.modules)")

    assert isinstance(modules, list)
    assert "replaykit.candidates.worker" in modules
    assert among(modules, NOT_FOR_AN_AGENT) == []


def test_garbage_is_collected_when_the_agent_runs_and_what_was_loaded_before_is_left_out() -> None:
    _, seen = started("[gc.isenabled(), gc.get_freeze_count() > 1000]")

    assert seen == [True, True]


@pytest.mark.parametrize("code", [0, 3])
def test_the_command_looks_for_little_garbage_and_keeps_its_exit_code(code: int) -> None:
    program = f"""
import gc
from replaykit import cli
gc.disable()
cli.run = lambda arguments: print(gc.isenabled(), gc.get_threshold()[0] >= 100_000) or {code}
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (code, "True True\n"), done.stderr


@pytest.mark.parametrize("command", [["-m", "replaykit"], ["-c", "from replaykit.__main__ import main; main()"]])
def test_an_interrupt_while_it_starts_ends_it_without_a_traceback(command: list[str]) -> None:
    Path("sitecustomize.py").write_text(INTERRUPTED)

    done = subprocess.run(
        [sys.executable, *command, "runs"],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_an_interrupt_at_the_very_end_leaves_no_traceback() -> None:
    program = "from replaykit import __main__, cli\nimport gc\n"
    program += "def freeze(): raise KeyboardInterrupt\ngc.freeze = freeze\n__main__.main()"

    done = subprocess.run([sys.executable, "-c", program, "--version"], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (130, "")
