"""rich lays out what a terminal shows, and is imported nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cli.test_hostile_text import LINES
from tests.terminals import on_terminal

PROGRAM = """
import json, sys
from replaykit.cli import run
imported = []
for line in json.loads(sys.argv[1]):
    run(line)
    imported += [line] if "rich" in sys.modules else []
print(json.dumps(imported))
"""


def lines() -> list[list[str]]:
    plain = [["runs"], ["lint", "."], ["replay", "cases"], ["store", "stats"], ["examples"], ["demo", "--help"]]
    tried = [[*verb.split(), *line.split(" ")] for verb, lines in LINES.items() for line in lines]
    return plain + [[word for word in line if word] for line in tried]


@pytest.mark.usefixtures("recorded")
def test_no_command_imports_rich_when_its_output_is_a_pipe() -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(lines())]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.usefixtures("recorded")
def test_a_table_on_a_terminal_is_laid_out_by_rich() -> None:
    with on_terminal(sys.executable, "-c", PROGRAM, json.dumps([["runs"]])) as ran:
        written = ran.read_all()

    assert json.loads(written.splitlines()[-1]) == [["runs"]]


@pytest.mark.usefixtures("recorded")
def test_help_does_without_rich_on_a_terminal_as_well() -> None:
    with on_terminal(sys.executable, "-c", PROGRAM, json.dumps([["--help"], ["runs", "--help"]])) as ran:
        written = ran.read_all()

    assert json.loads(written.splitlines()[-1]) == []
