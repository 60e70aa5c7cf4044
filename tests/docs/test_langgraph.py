"""docs/langgraph.md: its program is run, and its commands print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "langgraph.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run(*command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8", "COLUMNS": "140"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain(text: str) -> str:
    """Without what is another one each time: times, ids, how far a line is cut, and which of two writes is first."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN", text)
    text = re.sub(r"[+-]?\d+\.\d+ ?s\b", "TIME", text)
    text = re.sub(r"'task': '.*…$", "'task': …", text, flags=re.MULTILINE)
    text = re.sub(r" → .*…$", " → …", text, flags=re.MULTILINE)
    text = re.sub(r"^ +\d+ +TIME ", "", text, flags=re.MULTILINE)
    return "\n".join(sorted(re.sub(r" {2,}", "  ", text).strip().splitlines()))


@pytest.mark.exhaustive
def test_the_program_runs_and_the_commands_show_what_the_page_shows(own_directory: Path) -> None:
    first, *rest = blocks("python")
    Path("trip.py").write_text(first)
    run(sys.executable, "trip.py")
    (script,), (shown,) = blocks("bash"), blocks("text")
    commands = script.strip().splitlines()

    found = "\n".join(run("bash", "-c", command) for command in commands)

    assert plain(found) == plain(shown)
    Path("all.py").write_text("\n\n".join([first, *rest, "assert saver.get_tuple(alice) is None"]))
    run(sys.executable, "all.py")
