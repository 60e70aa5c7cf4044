"""docs/pytest.md and examples/golden, run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from replaykit.cases.golden import read_golden

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
OTHERS = " ".join(
    f"-p no:{point.name}" for point in entry_points(group="pytest11") if point.name not in ("replaykit", "xdist")
)


@pytest.fixture
def example(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, with the commands of this environment first on the path."""
    copied = shutil.copytree(
        ROOT / "examples" / "golden", own_directory / "golden", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    bin_directory = own_directory / "bin"
    bin_directory.mkdir()
    for name, module in (("pytest", "pytest"), ("replaykit", "replaykit"), ("python", "")):
        (bin_directory / name).write_text(f'#!/bin/sh\nexec {sys.executable} {f"-m {module}" if module else ""} "$@"\n')
        (bin_directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"{OTHERS} -p no:cacheprovider")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("CI", raising=False)
    return copied


def typed(command: str, directory: Path) -> str:
    done = subprocess.run(["sh", "-c", command], cwd=directory, capture_output=True, text=True, timeout=120)
    return re.sub(r" in \d+\.\d+s", " in 0.05s", done.stdout)


@pytest.mark.exhaustive
def test_every_command_of_the_page_prints_what_the_page_shows(example: Path) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]

    for part in commands:
        command, _, shown = part.partition("\n")
        assert typed(command, example).strip() == shown.strip(), command
    assert len(commands) == 6


def test_the_test_of_the_page_is_the_one_of_the_example_and_passes(example: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (example / "test_regression.py").write_text(code)

    assert "2 passed" in typed("pytest -q", example)
    by_hand = (ROOT / "examples" / "golden" / "test_regression.py").read_text(encoding="utf-8")
    assert re.sub(r": Path\) -> None", ")", by_hand).endswith(code.partition("import replaykit as rk")[2])


@pytest.mark.exhaustive
def test_the_examples_own_golden_trace_is_as_its_first_lines_say(example: Path) -> None:
    commands = re.findall(r"^(?:python|replaykit|pytest).*$", (example / "refunds.py").read_text(), re.MULTILINE)
    kept = read_golden(example / "golden_traces" / "broken-on-arrival.golden.json")
    assert "2 passed" in typed("pytest -q", example)
    (example / "golden_traces" / "broken-on-arrival.golden.json").unlink()

    outputs = [typed(command, example) for command in commands]

    made = read_golden(example / "golden_traces" / "broken-on-arrival.golden.json")
    assert "2 passed" in outputs[-1]
    assert (made.name, made.agent, made.ignore, made.run.output) == (
        kept.name,
        kept.agent,
        kept.ignore,
        kept.run.output,
    )


def test_the_file_that_formats_md_shows_is_read(own_directory: Path) -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    (text,) = [
        block for block in re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "golden" in block
    ]
    (own_directory / "x.golden.json").write_text(text.replace("{…}", '{"id": "r", "status": "success"}'))

    golden = read_golden(own_directory / "x.golden.json")

    assert (golden.name, golden.agent, golden.ignore) == ("broken-on-arrival", "refunds", ("$.request_id",))
