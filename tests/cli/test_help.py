"""The lists of commands agree with the commands; old words still work; reference material is where help is."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.cli.test_flags import COMMANDS as CONTEXTS

from replaykit.cli import VERBS
from replaykit.cli.help import TOPICS
from replaykit.cli.help.schema import DOCUMENTS
from replaykit.cli.renames import FLAGS, FLAKESTORM, MOVED, current_words
from replaykit.cli.store import COMMANDS
from replaykit.documents.document import load_document

Command = Callable[..., Any]
GROUPS = sorted({path.rpartition(" ")[0] for path in CONTEXTS} - {"replaykit"})
EXAMPLES = Path(__file__).parents[2] / "examples"
SUMMARIES = {
    **VERBS,
    **{f"store.{name}": summary for name, summary in COMMANDS.items()},
    **{f"help.{name}": summary for name, summary in TOPICS.items()},
}


@pytest.mark.parametrize("module", SUMMARIES)
def test_a_summary_is_the_first_line_of_the_commands_help(module: str) -> None:
    command = import_module(f"replaykit.cli.{module}").command

    assert command.help.splitlines()[0] == SUMMARIES[module]


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_the_help_of_every_command_fits_the_terminal(
    replaykit: Command, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    for words in (path.split()[1:] for path in ("replaykit", *GROUPS, *CONTEXTS)):
        lines = replaykit(*words, "--help").out.splitlines()

        assert [line for line in lines if len(line) > width and " " in line.strip()] == []
        assert [line for line in lines if re.search(r"[a-z,]\.\.\.$", line)] == [], "a summary is cut off"


@pytest.mark.parametrize(("words", "now"), MOVED.items())
def test_a_command_that_has_moved_runs_by_its_old_words_and_says_the_new_ones(
    replaykit: Command, words: tuple[str, ...], now: tuple[str, ...]
) -> None:
    ran = replaykit(*words, "--help")

    assert (ran.code, ran.out) == (0, replaykit(*now, "--help").out)
    assert ran.err == f"note: `replaykit {' '.join(words)}` is now `replaykit {' '.join(now)}`\n"


@pytest.mark.parametrize(("words", "here"), FLAKESTORM.items())
def test_commands_as_flakestorm_spells_them_work(
    replaykit: Command, words: tuple[str, ...], here: tuple[str, ...]
) -> None:
    assert replaykit(*words, "--help") == replaykit(*here, "--help")


def test_a_case_may_be_called_run(replaykit: Command) -> None:
    Path("run").mkdir()
    Path("run", "case.yaml").write_text("replaykit: 1\nid: run\nscenario: {}\nobserved: [{status_is: error}]\n")

    (result,) = replaykit("replay", "run", "--agent", "no_such_module:agent", "--json").json["results"]

    assert result["case_id"] == "run"


@pytest.mark.parametrize("words", FLAGS)
def test_an_old_flag_means_the_new_one_until_another_programs_arguments_begin(words: tuple[str, ...]) -> None:
    for old, new in FLAGS[words].items():
        current, notes = current_words([*words, f"{old}=x", old, "x", "--", old])

        assert current == [*words, f"{new}=x", new, "x", "--", old]
        assert notes == [f"{old} is now {new}"] * 2


def test_help_of_a_command_is_what_its_option_prints(replaykit: Command) -> None:
    assert replaykit("help", "fork") == replaykit("fork", "--help")
    assert replaykit("help", "store", "prune") == replaykit("store", "prune", "--help")
    assert replaykit("help") == replaykit("--help")


def test_help_of_a_part_of_a_command_is_what_its_option_prints(replaykit: Command) -> None:
    assert replaykit("help", "redact", "scan") == replaykit("redact", "scan", "--help")
    assert replaykit("help", "scan").out == replaykit("redact", "scan", "--help").out


def test_the_first_page_of_the_help_has_at_most_28_commands_and_points_to_the_reference(replaykit: Command) -> None:
    page = replaykit("--help").out

    listed = [name for name in VERBS if f"\n  {name} " in page]
    assert len(listed) <= 28
    assert VERBS.keys() - set(listed) == {"help"}
    for topic in TOPICS:
        assert topic in page.splitlines()[-1] or topic in page.splitlines()[-2]


def test_a_word_that_names_a_part_never_names_a_file(replaykit: Command) -> None:
    Path("scan").write_text("mail jane.doe@example.com\n")

    checked = replaykit("redact", "scan", "scan")
    old = replaykit("scan", "scan")
    Path("review").mkdir()

    assert (checked.code, old.code) == (1, 1)
    assert checked.out == old.out
    assert Path("scan").read_text() == "mail jane.doe@example.com\n"
    assert "missing argument 'CASE'" in replaykit("judge", "review").err


def test_help_of_a_command_that_does_not_exist_names_the_nearest(replaykit: Command) -> None:
    ran = replaykit("help", "forkk")

    assert ran.code == 2
    assert "no such command 'forkk'; did you mean 'fork'?" in ran.err


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_document_has_a_valid_schema(replaykit: Command, document: str) -> None:
    schema = replaykit("help", "schema", document).json

    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("document", "file"), [("config", "sessions/replaykit.yaml"), ("session", "sessions/replays/incident_001.yaml")]
)
def test_an_example_is_valid_by_the_schema_and_one_with_a_wrong_key_is_not(
    replaykit: Command, document: str, file: str
) -> None:
    validator = jsonschema.Draft202012Validator(replaykit("help", "schema", document).json)
    value = load_document(EXAMPLES / file).value

    assert list(validator.iter_errors(value)) == []
    assert list(validator.iter_errors({**value, "no_such_key": 1}))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(replaykit: Command, shell: str) -> None:
    ran = replaykit("help", "completion", shell)

    assert ran.code == 0
    assert "_REPLAYKIT_COMPLETE" in ran.out


def test_bash_completes_commands_of_groups(spawned: Command) -> None:
    ran = spawned(_REPLAYKIT_COMPLETE="bash_complete", COMP_WORDS="replaykit store p", COMP_CWORD="2")

    assert ran.out == "plain,prune\n"
