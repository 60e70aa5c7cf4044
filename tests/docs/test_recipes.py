"""The recipes for contributors: their diffs apply to the source as it is, and what they add works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
RECIPES = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
CHAT = {
    "chat": "c-17",
    "solved": False,
    "turns": [
        {"from": "customer", "text": "Where is order 7?"},
        {"from": "assistant", "tool": "find_order", "input": {"order": 7}, "output": {"state": "lost"}},
        {"from": "assistant", "text": "It arrives today. Anything else? A voucher?"},
    ],
}
CHECK_QUESTIONS = """
from replaykit.checks.assertions import parse_assertion
from replaykit.model.result import Side
from replaykit.store.open import open_store

with open_store(None, read_only=True) as store:
    run = store.load("c-17")
for most in (1, 2):
    print(parse_assertion("output.questions", most).check(run, Side.DESIRED).holds)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with all recipes applied, and the generated files written anew."""
    directory = tmp_path_factory.mktemp("copy")
    for name in ("src", "docs", "tests/docs", "pyproject.toml"):
        source = ROOT / name
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    diffs = re.findall(r"^```diff\n(.*?)^```$", RECIPES, re.MULTILINE | re.DOTALL)
    assert len(diffs) == 3
    for diff in diffs:
        subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=directory, check=True)
    schema = directory / "src" / "replaykit" / "cases" / "case.schema.json"
    schema.write_text(run_in(directory, "-m", "replaykit.cases.schema", cwd=directory).stdout, encoding="utf-8")
    run_in(directory, "-m", "replaykit.checks.reference", "docs/assertions.md", cwd=directory)
    return directory


def run_in(copy: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy)])}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_format_the_assertion_and_the_verb_work(copy: Path, own_directory: Path) -> None:
    (own_directory / "chat.json").write_text(json.dumps(CHAT))
    run_in(copy, "-m", "replaykit", "import", "chat.json", cwd=own_directory)

    shown = run_in(copy, "-m", "replaykit", "show", "c-17", "--json", cwd=own_directory)
    slowest = run_in(copy, "-m", "replaykit", "timing", "c-17", "--json", "-n", "1", cwd=own_directory)
    schema = run_in(copy, "-m", "replaykit", "help", "schema", "result.timing", cwd=own_directory)
    findings = run_in(copy, "-c", CHECK_QUESTIONS, cwd=own_directory)

    assert json.loads(shown.stdout)["run"]["origin"]["format"] == "chat_archive"
    assert len(json.loads(slowest.stdout)["calls"]) == 1
    jsonschema.validate(json.loads(slowest.stdout), json.loads(schema.stdout))
    assert findings.stdout.split() == ["False", "True"]


@pytest.mark.exhaustive
def test_what_was_added_is_documented(copy: Path) -> None:
    tests = [
        "test_docs.py::test_every_verb_has_a_section_that_names_all_its_options",
        "test_docs.py::test_no_verb_is_described_that_is_not_there",
        "test_docs.py::test_every_kind_of_assertion_has_a_section_with_an_example",
        "test_glossary.py",
    ]

    run_in(copy, "-m", "pytest", "-q", "-n", "0", *(f"tests/docs/{test}" for test in tests), cwd=copy)
