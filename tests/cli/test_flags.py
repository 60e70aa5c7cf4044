"""Flags: one name, one type of value, one meaning; and an example in the help of every command."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from tests.commands import Ran

from replaykit.cli import cli
from replaykit.cli.candidate_options import BeforeProgram
from replaykit.cli.options import CommandWithParts

LISTED = tomllib.loads(Path(__file__).with_name("flags.toml").read_text(encoding="utf-8"))
SHORT = {
    "-c": "--config",
    "-j": "--jobs",
    "-n": "--limit",
    "-o": "--out",
    "-q": "--quiet",
    "-v": "--verbose",
    "-V": "--version",
    "-y": "--yes",
}


def commands(context: click.Context) -> Iterator[click.Context]:
    """The contexts of all commands that a command line can run."""
    command = context.command
    if not isinstance(command, click.Group) or isinstance(command, CommandWithParts):
        yield context
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(click.Context(inner, info_name=name, parent=context))


COMMANDS = {
    found.command_path: found for found in commands(click.Context(cli, info_name="replaykit", **cli.context_settings))
}
OPTIONS = [
    (path, parameter)
    for path, context in COMMANDS.items()
    for parameter in context.command.params
    if isinstance(parameter, click.Option)
]


def type_of(option: click.Option) -> str:
    if option.is_flag:
        return "flag"
    if isinstance(option.type, click.Path):
        return "path"
    return option.type.name


PYTHON_AGENTS_ONLY = {
    "replaykit debug": "a fork continues from a state inside the agent's process",
    "replaykit fork": "a fork continues from a state inside the agent's process",
    "replaykit golden": "the states of the agent are compared, which only its own process knows",
    "replaykit resume": "a run continues from a state inside the agent's process",
    "replaykit show": "a state is looked up inside the agent's process",
    "replaykit view": "the page forks runs",
}
"""Commands that take `--agent` alone, and why."""


def test_a_command_that_runs_a_candidate_takes_every_kind() -> None:
    for path, context in COMMANDS.items():
        names = {name for parameter in context.command.params for name in parameter.opts}
        if "--agent" not in names or path in (*PYTHON_AGENTS_ONLY, "replaykit init"):
            continue
        assert {"--runner-cmd", "--endpoint"} <= names, path
        assert isinstance(context.command, BeforeProgram), path


@pytest.mark.parametrize("other", [["--runner-cmd", "x"], ["--endpoint=http://127.0.0.1:1"], ["--", "node", "x.mjs"]])
def test_a_command_for_python_agents_alone_says_so(replaykit: Callable[..., Ran], other: list[str]) -> None:
    for path in PYTHON_AGENTS_ONLY:
        ran = replaykit(*path.split()[1:], "RUN", *other)

        assert ran.code == 2
        assert "needs a Python agent: --agent MODULE:FUNCTION" in ran.err


def test_every_flag_is_listed_and_has_one_type_of_value() -> None:
    found: dict[str, set[str]] = {}
    for _path, option in OPTIONS:
        name = next(name for name in option.opts if name.startswith("--"))
        found.setdefault(name, set()).add(type_of(option))

    assert found == {name: {flag["type"]} for name, flag in LISTED.items() if name not in ("--debug", "--version")}


def test_a_meaning_is_listed_once() -> None:
    meanings = [flag["meaning"] for flag in LISTED.values()]

    assert sorted(meanings) == sorted(set(meanings))


def test_a_letter_stands_for_the_same_flag_everywhere() -> None:
    for path, option in OPTIONS:
        for letter in option.opts:
            if not letter.startswith("--"):
                assert SHORT[letter] in option.opts, path


def test_a_flag_that_has_a_letter_has_it_everywhere() -> None:
    letters = {flag: letter for letter, flag in SHORT.items()}

    missing = []
    for path, option in OPTIONS:
        for flag in option.opts:
            if flag in letters and letters[flag] not in option.opts:
                missing.append(f"{path} {flag}")
    assert missing == []


WITHOUT_VERBOSITY = {
    "replaykit chaos profiles": "reference material",
    "replaykit debug": "a screen, not a result",
    "replaykit demo": "what it prints is its purpose",
    "replaykit examples copy": "reference material",
    "replaykit help assertions": "reference material",
    "replaykit help completion": "its output is a script",
    "replaykit help formats": "reference material",
    "replaykit help schema": "its output is a document",
    "replaykit mcp": "its output is a protocol",
    "replaykit serve": "--quiet was the name of --idle, and scripts still use it",
}
"""Commands without --quiet and --verbose, and why."""


def test_every_command_that_prints_a_result_can_be_quiet_and_verbose() -> None:
    found = {path for path, option in OPTIONS if option.opts == ["-q", "--quiet"]}

    assert found == {path for path, option in OPTIONS if option.opts == ["-v", "--verbose"]}
    assert found == COMMANDS.keys() - WITHOUT_VERBOSITY.keys()


@pytest.mark.parametrize("path", COMMANDS)
def test_the_help_of_every_command_has_an_example(path: str) -> None:
    lines = [line.strip() for line in (COMMANDS[path].command.help or "").splitlines()]

    assert [line for line in lines if line.startswith(path) or f"$({path}" in line or f"| {path}" in line]
