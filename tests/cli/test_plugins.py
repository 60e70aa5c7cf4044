"""Plugins on the command line: what each kind of them does, which commands import them, and which never do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Ran
from tests.git_repository import Repository
from tests.matrix import sampled

Spawned = Callable[..., Ran]
EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins"
MARKS = "import pathlib\npathlib.Path('imported').touch()\n"
CASE = "cases/charged-twice"


@pytest.fixture
def shop(own_directory: Path) -> Path:
    """The example of the documentation, in the working directory."""
    shutil.copytree(EXAMPLE, own_directory, dirs_exist_ok=True)
    return own_directory


@pytest.fixture
def marked(shop: Path) -> Path:
    """The example, with a plugin that leaves a file where it is imported."""
    with Path("shop_plugin.py").open("a", encoding="utf-8") as file:
        file.write(MARKS)
    return shop


def test_a_check_and_an_assertion_of_a_plugin_decide_a_replay(shop: Path, spawned: Spawned) -> None:
    fixed = spawned("replay", CASE, "--json")
    broken = spawned("replay", CASE, "--agent", "shop_agent:answer_twice", "--json", "-j", "2")

    assert (fixed.code, broken.code) == (0, 1)
    assert broken.json["results"][0]["verdict"] == "reproduced"
    desired = broken.json["results"][0]["desired"]
    assert [(finding["kind"], finding["holds"]) for finding in desired] == [
        ("custom.python", False),
        ("names_the_order", False),
    ]


def test_a_format_of_a_plugin_is_imported_without_being_named(shop: Path, spawned: Spawned) -> None:
    ran = spawned("import", "orders.shoplog", "--json")

    assert ran.code == 0, ran.err
    assert [run["id"] for run in spawned("runs", "--json").json["runs"]] == ["A-18", "A-17"]


def test_a_judge_of_a_plugin_answers(shop: Path, spawned: Spawned) -> None:
    Path(CASE, "judgements.json").unlink()
    unjudged = spawned("replay", CASE)

    asked = spawned("judge", CASE, "--ask-judge")
    named = spawned("judge", CASE, "--ask-judge", "--again", "--judge", "shop_judge")

    assert (unjudged.code, asked.code, named.code) == (0, 0, 0)
    assert "asked shop_judge 1 of 1" in asked.err
    assert "asked shop_judge 1 of 1" in named.err


def test_a_judge_that_no_plugin_brings_is_refused_with_the_nearest(shop: Path, spawned: Spawned) -> None:
    spawned("replay", CASE)

    ran = spawned("judge", CASE, "--ask-judge", "--judge", "shop_jugde")

    assert ran.code == 2
    assert "no judge 'shop_jugde'; did you mean 'shop_judge'?" in ran.err


def test_a_finder_of_a_plugin_redacts_what_a_recorded_program_says(shop: Path, spawned: Spawned) -> None:
    Path("program.py").write_text(
        "import replaykit as rk\n@rk.tool\ndef look(text: str) -> str: return text\n"
        "look('customer C-100006 and C-100000')\n"
    )

    ran = spawned("record", "--", sys.executable, "program.py")

    assert ran.code == 0, ran.err
    shown = spawned("show", "last", "--json").out
    assert "C-100006" not in shown, "its digits add up to seven"
    assert "<customer-number:" in shown
    assert "C-100000" in shown, "its digits do not"
    for file in Path(".replaykit").rglob("*"):
        assert not file.is_file() or b"C-100006" not in file.read_bytes(), file


def test_a_finder_of_a_plugin_redacts_files_and_finds_them(shop: Path, spawned: Spawned) -> None:
    Path("note.txt").write_text("customer C-100006\n")

    found = spawned("redact", "scan", "--plugins", "note.txt")
    unseen = spawned("redact", "scan", "note.txt")
    redacted = spawned("redact", "note.txt")

    assert (found.code, unseen.code, redacted.code) == (1, 0, 0)
    assert "note.txt:1:10 customer-number" in found.out
    assert Path("note.txt").read_text().startswith("customer <customer-number:")


def test_nothing_is_written_while_a_finder_fails(shop: Path, spawned: Spawned) -> None:
    with Path("shop_plugin.py").open("a", encoding="utf-8") as file:
        file.write("register_finder('broken', lambda text: 1 / 0)\n")

    ran = spawned("import", "orders.shoplog")

    assert ran.code == 1
    assert "the finder 'broken' raised ZeroDivisionError" in ran.err
    assert "no runs" in spawned("runs").err


def test_an_exporter_of_a_plugin_writes_a_run(shop: Path, spawned: Spawned) -> None:
    with Path("shop_plugin.py").open("a", encoding="utf-8") as file:
        file.write(
            "from replaykit.export.forms import EXPORTERS\n"
            "@EXPORTERS.register('tools')\ndef tools(run): return b' '.join(c.name.encode() for c in run.tool_calls)\n"
        )
    spawned("import", "orders.shoplog")

    assert spawned("export", "A-17", "--format", "tools").out.strip() == "charge_card charge_card"


def test_a_detector_of_a_plugin_finds_the_signature_of_a_case(shop: Path, spawned: Spawned) -> None:
    with Path("shop_plugin.py").open("a", encoding="utf-8") as file:
        file.write(
            "from replaykit.cases.signatures import DETECTORS, signature_of\n"
            "@DETECTORS.register('charged')\ndef charged(run):\n"
            "    return signature_of(run, 'charged', 'not', {'custom.python': 'charged_once'})\n"
        )
    Path("log").write_text("SHOPLOG\nA-19;charge_card,charge_card;refused\n")

    spawned("scaffold", "log", "--out", "cases/new", "--allow-incomplete")

    assert "custom.python: charged_once" in Path("cases/new/case.yaml").read_text()


def pytest_run() -> subprocess.CompletedProcess[str]:
    words = ["-q", "-p", "no:langsmith_plugin", "--replaykit-agent", "shop_agent:answer", CASE]
    return subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, timeout=60)


def test_pytest_imports_the_plugins_of_its_project(shop: Path) -> None:
    done = pytest_run()

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_pytest_names_the_line_of_a_plugin_that_is_not_there(shop: Path) -> None:
    Path("shop_plugin.py").unlink()
    done = pytest_run()

    assert done.returncode == 2
    assert "replaykit.yaml:2: no module 'shop_plugin' for a plugin" in done.stdout


READING = [
    ("lint", CASE),
    ("redact", "scan", "cases"),
    ("doctor",),
    ("runs",),
    ("show", "A-17"),
    ("compare", "A-17", "A-18"),
    ("help", "formats"),
    ("help", "assertions"),
    ("store", "stats"),
    ("contract", "lint"),
]


@sampled("words", READING, count=2)
def test_a_command_that_only_reads_imports_no_plugin(marked: Path, spawned: Spawned, words: tuple[str, ...]) -> None:
    spawned("import", "orders.shoplog")
    assert Path("imported").exists()
    Path("imported").unlink()

    spawned(*words)

    assert not Path("imported").exists()


@sampled("words", [("lint", CASE), ("redact", "scan", "cases"), ("doctor",), ("contract", "lint")], count=1)
def test_a_command_that_only_reads_imports_plugins_on_request(
    marked: Path, spawned: Spawned, words: tuple[str, ...]
) -> None:
    spawned(*words, "--plugins")

    assert Path("imported").exists()


def test_lint_says_how_an_assertion_of_a_plugin_becomes_known(shop: Path, spawned: Spawned) -> None:
    unknown = spawned("lint", CASE)
    known = spawned("lint", "--plugins", CASE)

    assert (unknown.code, known.code) == (1, 0)
    assert "unknown assertion 'names_the_order'" in unknown.out
    assert "If a plugin of yours defines it: replaykit lint --plugins CASE" in unknown.out


def test_doctor_lists_the_plugins_and_with_the_flag_what_each_brings(shop: Path, spawned: Spawned) -> None:
    unread = spawned("doctor", "--json").json
    read = spawned("doctor", "--plugins", "--json").json

    [found] = [item["detail"] for item in unread["items"] if item["name"] == "plugin shop_plugin"]
    [brings] = [item["detail"] for item in read["items"] if item["name"] == "plugin shop_plugin"]
    assert found.endswith("shop_plugin.py")
    assert brings == (
        "brings assertion names_the_order; check charged_once; finder customer-number; "
        "importer shop_log; judge shop_judge"
    )


def test_doctor_names_a_plugin_that_is_not_there(shop: Path, spawned: Spawned) -> None:
    Path("shop_plugin.py").rename("shop_plugins.py")

    ran = spawned("doctor", "--json")

    [problem] = [item for item in ran.json["items"] if item["name"] == "plugins"]
    assert problem["state"] == "problem"
    assert "did you mean 'shop_plugins'?" in problem["detail"]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (
            "from replaykit.checks.rule import ASSERTIONS, Rule\n"
            "@ASSERTIONS.register('span.exists')\nclass Own(Rule, frozen=True): pass\n",
            "the assertion 'span.exists'",
        ),
        (
            "from replaykit.export.forms import EXPORTERS\n@EXPORTERS.register('otlp')\ndef own(run): return b''\n",
            "the exporter 'otlp'",
        ),
        (
            "from replaykit.redaction.finders import register_finder\nregister_finder('email', lambda text: [])\n",
            "the kind 'email' is taken",
        ),
    ],
)
def test_a_plugin_cannot_take_a_built_in_name(shop: Path, spawned: Spawned, source: str, what: str) -> None:
    Path("shop_plugin.py").write_text(source, encoding="utf-8")

    ran = spawned("replay", CASE)

    assert ran.code == 2
    assert "replaykit.yaml:2: " in ran.err
    assert what in ran.err


@pytest.mark.parametrize("key", ["plugins", "judge"])
def test_a_case_cannot_name_a_plugin(marked: Path, spawned: Spawned, key: str) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\ncases: [cases]\n")
    with Path(CASE, "case.yaml").open("a", encoding="utf-8") as file:
        file.write(f"{key}: [shop_plugin]\n")

    ran = spawned("replay", CASE, "--agent", "shop_agent:answer")

    assert ran.code == 2
    assert f"unknown key '{key}'" in ran.err
    assert not Path("imported").exists()


@sampled("options", [("--untrusted", "--config-from", "base"), ("--config-from", "base")], count=1)
def test_a_strangers_working_tree_is_not_imported(marked: Path, spawned: Spawned, options: tuple[str, ...]) -> None:
    repository = Repository.new(marked)
    repository.commit()
    repository.git("branch", "base")
    Path("shop_plugin.py").write_text(MARKS)
    repository.commit()

    ran = spawned("ci", *options)

    assert ran.code == 2
    assert "replaykit.yaml:2: the plugin 'shop_plugin' is " in ran.err
    assert not Path("imported").exists()


def test_an_installed_plugin_is_imported_for_a_strangers_working_tree(
    marked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site = tmp_path_factory.mktemp("site")
    Path("shop_plugin.py").rename(site / "shop_plugin.py")
    repository = Repository.new(marked)
    repository.commit()
    repository.git("branch", "base")

    command = [sys.executable, "-m", "replaykit", "ci", "--untrusted", "--config-from", "base"]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(site)}, timeout=60)

    assert ran.returncode == 0
    assert Path("imported").exists()
