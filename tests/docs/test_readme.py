"""The README's code and commands, run in their order as from a fresh clone."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.guide_pages import load_tool

from replaykit.cli import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GENERATED = {"docs/assertions.md"}  # from docstrings
DOCS = {str(page.relative_to(ROOT)) for place in ("docs", "docs/guides") for page in (ROOT / place).glob("*.md")}
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(DOCS - GENERATED)]

screens = load_tool("screens")
NOT_RUN_HERE = {
    "make demo": "run by .ci/run",
    "make test": "run by .ci/run",
    "source .venv/bin/activate": "run by .ci/run; here the environment of the tests is active",
    "pip install .": "needs a package index; run by .ci/run",
    "make test-quick": "run by .ci/run with other versions of Python",
    "make test-integrations": "run by .ci/run",
    "make test-viewer": "run by .ci/run",
    "make fidelity": "takes half an hour",
    "make bench": "takes ten minutes and installs the tools to compare with",
    "replaykit import langfuse --all --since 24h": "needs the keys of an account, as its comment says",
    'replaykit record --input "Why was I charged?" -- node agent.mjs': "needs the reader's own program",
    "replaykit scaffold agent --out cases/billing": "needs the run of the reader's own program",
    "replaykit replay cases/billing -- node agent.mjs": "needs the reader's own program",
    "replaykit serve": "runs until it is stopped; tests/intake/receiver runs it",
}
EXIT_CODES = {  # of commands that report a failure
    "replaykit replay cases/made-up-charge --agent agent:answer": 1,
    "replaykit replay cases/made-up-charge --agent agent:answer_fixed": 1,
    "python my_agent.py": 1,
    "replaykit replay cases/billing-loop --agent my_agent:agent": 1,
    'replaykit replay cases/search-loop/case.yaml --runner-cmd "python examples/runners/reproduce_failure.py"': 1,
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The commands of the README: lines that are indented by four, and those in bash blocks, without comments."""
    indented_or_bash = re.findall(r"^```(\w*)\n(.*?)^```$|^    (\S[^\n]*)$", README, re.MULTILINE | re.DOTALL)
    found = []
    for language, block, line in indented_or_bash:
        text = block if language == "bash" else line
        joined = re.sub(r"\\\n\s*", "", text)
        found += [re.sub(r"(^|\s+)# .*", "", command) for command in joined.splitlines()]
    return [command for command in found if command]


def clone(directory: Path) -> None:
    """Copy what the commands use, and save the first example as the README tells the reader to."""
    shutil.copytree(
        ROOT / "examples", directory / "examples", ignore=shutil.ignore_patterns("__pycache__", ".replaykit")
    )
    (directory / "my_agent.py").write_text(blocks("python")[0])


def run(command: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": ""}
    return subprocess.run(["bash", "-c", command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_every_command_of_replaykit_has_a_verb_and_options_that_are_there() -> None:
    lines = [shlex.split(command) for command in commands()]
    ours = [words for program, *words in lines if program == "replaykit"]

    for words in ours:
        found: click.Command = cli
        context = click.Context(cli, **cli.context_settings)  # commands keep the help option of their first context
        while isinstance(found, click.Group) and (inner := found.get_command(context, words[0])):
            found, context, words = inner, click.Context(inner, parent=context), words[1:]
        assert found is not cli, words
        found.make_parser(context).parse_args(words)  # raises for an option that it does not know
    assert len(ours) >= 15


@pytest.mark.exhaustive
def test_every_command_works_in_a_clone(own_directory: Path) -> None:
    clone(own_directory)
    directory = own_directory
    runnable = [command for command in commands() if command not in NOT_RUN_HERE]

    for command in runnable:
        if command.startswith("cd "):
            directory = (directory / command.removeprefix("cd ")).resolve(strict=True)
            continue
        done = run(command, cwd=directory)
        assert done.returncode == EXIT_CODES.get(command, 0), f"{command}\n{done.stdout}\n{done.stderr}"
    assert directory == own_directory
    assert set(EXIT_CODES) <= set(runnable)
    assert len(runnable) >= 20


def test_every_command_that_is_not_run_here_is_in_the_readme() -> None:
    assert set(NOT_RUN_HERE) <= set(commands())


@pytest.mark.parametrize("command", [command for command, reason in NOT_RUN_HERE.items() if ".ci/run" in reason])
def test_continuous_integration_runs_the_command(command: str) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    wrappers = r"(\w+=\S+ )?(twice |run_tests \S+ )?"
    assert re.search(rf"^\s*{wrappers}{re.escape(command)}($|\s)", script, re.MULTILINE)


def test_the_first_example_records_a_failure_and_passes_once_it_is_changed_as_shown(own_directory: Path) -> None:
    clone(own_directory)
    agent = own_directory / "my_agent.py"
    record, scaffold, replay = [command for command in commands() if "my_agent" in command or "billing-loop" in command]

    recorded = run(record, cwd=own_directory)
    run(scaffold, cwd=own_directory)
    red = run(replay, cwd=own_directory)
    agent.write_text(screens.with_changes(agent.read_text(), *blocks("diff")))
    green = run(replay, cwd=own_directory)

    assert "Max tool call limit exceeded" in recorded.stderr
    assert (red.returncode, green.returncode) == (1, 0)
    assert "Result: FAILURE REPRODUCED" in red.stdout
    assert "Result: FIXED" in green.stdout


@pytest.mark.exhaustive
def test_the_picture_shows_what_the_first_example_prints() -> None:
    assert screens.PICTURE.read_text(encoding="utf-8") == screens.caught_regression(), "run tools/screens"
    assert f"]({screens.PICTURE.relative_to(ROOT)})" in README


def test_the_picture_loads_nothing_from_elsewhere() -> None:
    picture = screens.PICTURE.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert not re.search(r"https?:|url\(|href|@import|<script|<style", picture)


@pytest.mark.parametrize("verb", ["scaffold", "golden"])
def test_the_help_has_the_table_of_the_readme(verb: str) -> None:
    _, _, *rows = re.findall(r"^\|(.*)\|$", README.partition("## Case, session or golden trace?")[2], re.MULTILINE)[:5]
    shown = run(f"replaykit {verb} --help", cwd=ROOT).stdout
    in_help = [line.split("  ") for line in shown.splitlines() if "  replaykit " in line.strip()]
    table = [[cell.strip() for cell in cells if cell.strip()] for cells in in_help]

    assert [cells[0] for cells in table] == [row.split("|")[0].partition(":")[0].strip() for row in rows]
    assert [cells[1] for cells in table] == [re.sub(r"\*\*|:.*", "", row.split("|")[1]).strip() for row in rows]
    assert [cells[2] for cells in table] == [row.split("|")[2].strip(" `") for row in rows]


def test_the_session_tells_the_first_version_of_the_agent_from_the_fixed_one(own_directory: Path) -> None:
    clone(own_directory)
    (command,) = [command for command in commands() if "incident_001" in command]

    first = run(f"{command} --agent finance_agent:first_version", cwd=own_directory / "examples" / "sessions")

    assert first.returncode == 1
    assert "no-invented-figure (critical): expected output that does not match" in first.stdout


@pytest.mark.parametrize("page", PAGES)
def test_no_page_installs_the_package_from_an_index(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert not re.search(r"(pip|pipx|uv)\b.* agent-replaykit|'agent-replaykit", text)


@pytest.mark.parametrize(
    "target",
    ["demo", "test", "test-quick", "test-integrations", "test-viewer", "bench", "fidelity", "lint", "clean", "crash"],
)
def test_the_makefile_has_the_target(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
