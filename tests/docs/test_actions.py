"""Workflows and documented snippets name actions by commit: whoever moves a tag must not change what runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (".github", ".ci", "docs", "examples", "src", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
SUFFIXES = {".yml", ".yaml", ".md", ".py", ".json", ".txt", ".toml", ""}
USE = re.compile(
    r"""^[\s#>"'-]*uses:\s*["']?(?P<action>[^\s"'@#]+)(?:@(?P<version>[^\s"'#]+))?["']?[ \t]*(?P<note>.*)$""", re.M
)
COMMIT = re.compile(r"[0-9a-f]{40}")
TAG = re.compile(r"# v\d+\.\d+\.\d+$")


def files() -> list[Path]:
    found = []
    for place in PLACES:
        path = ROOT / place
        found += [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sorted(file for file in found if file.suffix in SUFFIXES and "__pycache__" not in file.parts)


def unpinned(text: str) -> list[str]:
    """The lines of a text that use an action otherwise than by its commit, with its tag as a comment."""
    wrong = []
    for use in USE.finditer(text):
        is_local = use["action"].startswith("./")
        is_pinned = COMMIT.fullmatch(use["version"] or "") and TAG.fullmatch(use["note"].strip())
        if "/" in use["action"] and not is_local and not is_pinned:
            wrong.append(use[0].strip())
    return wrong


def test_every_action_is_named_by_its_commit() -> None:
    found = {
        str(file.relative_to(ROOT)): unpinned(file.read_text(encoding="utf-8", errors="replace")) for file in files()
    }

    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_the_workflow_and_the_snippet_are_among_the_files() -> None:
    uses = {
        str(file.relative_to(ROOT))
        for file in files()
        if "actions/checkout@" in file.read_text(encoding="utf-8", errors="replace")
    }

    assert {".github/workflows/ci.yml", "docs/ci.md"} <= uses


@pytest.mark.parametrize(
    "line",
    [
        "      - uses: actions/checkout@v4",
        "        uses: actions/checkout@main # v4.0.0",
        "- uses: 'actions/checkout'",
        f"- uses: actions/checkout@{'a' * 39} # v4.0.0",
        f"- uses: actions/checkout@{'a' * 40}",
        f"- uses: actions/checkout@{'a' * 40} # newest",
        "- uses: docker://some/image@latest",
    ],
)
def test_an_action_by_tag_is_noticed(line: str) -> None:
    assert unpinned(f"steps:\n{line}\n") == [line.strip()]


def test_a_pinned_action_is_fine() -> None:
    assert unpinned(f"steps:\n  - uses: actions/checkout@{'a' * 40}   # v7.0.1\n  - uses: ./local\n") == []
