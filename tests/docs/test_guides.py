"""The how-to pages: each is followed word by word in an empty directory, and has the parts that a reader looks for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.guide_pages import GUIDES, ROOT, blocks, follow
from tests.langfuse_server import PUBLIC, SECRET, incident, langfuse_server

WORKFLOW = ROOT / "docs" / "guides" / "github-actions.md"
NEEDS_MORE = {"fastapi-agent.md", "langgraph-thread.md"}
"""Pages that need a framework: tests/integrations follows them."""
PLAIN = [page for page in GUIDES if page.name not in NEEDS_MORE and page != WORKFLOW]
LINES_BESIDE_FILES = 135
FROM_A_CLONE = re.compile(r"""pip install '?\.(\[[\w,-]+\]'?)?[`\s]""")


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.stem)
def test_the_page_works_as_written(page: Path, own_directory: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with langfuse_server() as langfuse:
        for written, replaced in (
            ("https://cloud.langfuse.com", langfuse.url),
            ("pk-lf-…", PUBLIC),
            ("sk-lf-…", SECRET),
        ):
            text = text.replace(written, replaced)
        langfuse.traces = [incident(**trace) for trace in langfuse_traces(text)]
        installed = own_directory.parent / "installed"
        follow(text, own_directory, **offline_pip(installed), PYTHONPATH=str(installed))


def langfuse_traces(page: str) -> list[dict[str, Any]]:
    """Return the traces that a page saves in a file, as Langfuse keeps them."""
    found = []
    for block in blocks(page):
        if block.file == "trace.json":
            trace = json.loads(block.text)
            found.append({**trace, "trace_id": trace.pop("id")})
    return found


@pytest.mark.exhaustive
def test_the_workflow_runs_in_the_project_of_the_page(own_directory: Path) -> None:
    page = WORKFLOW.read_text(encoding="utf-8").replace("/path/to/replaykit", str(ROOT))
    steps, title, mistakes = page.partition("## What can go wrong")
    follow(steps, own_directory, **offline_pip(own_directory.parent / "installed"))

    passed = run_workflow(own_directory)
    agent = own_directory / "my_agent.py"
    agent.write_text(agent.read_text().replace("range(2)", "range(9)"))
    failed = run_workflow(own_directory)
    agent.write_text(agent.read_text().replace("range(9)", "range(2)"))
    follow(title + mistakes, own_directory)

    assert [step.returncode for step in passed] == [0, 0, 0], passed
    assert "passed: score 100" in passed[-1].stdout
    assert [step.returncode for step in failed] == [0, 0, 1], failed
    assert "::error file=cases/billing-loop/case.yaml,line=16," in failed[-1].stderr
    assert "failed: score 0" in (own_directory.parent / "summary.md").read_text()
    assert {path.name for path in (own_directory / "reports").iterdir()} == {"ci.json", "junit.xml", "ci.md", "ci.html"}


def offline_pip(site: Path) -> dict[str, str]:
    """Return what lets pip build and install without an index, into a directory of its own."""
    return {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_TARGET": str(site)}


def run_workflow(project: Path) -> list[subprocess.CompletedProcess[str]]:
    """Do the `run:` steps of the workflow in a project as GitHub does, up to the first that fails."""
    workflow = yaml.safe_load((project / ".github" / "workflows" / "agent.yml").read_text())
    site = project.parent / "installed"
    shutil.rmtree(site, ignore_errors=True)
    variables = {
        **os.environ,
        **offline_pip(site),
        "GITHUB_ACTIONS": "true",
        "GITHUB_BASE_REF": "main",
        "GITHUB_WORKSPACE": str(project),
        "GITHUB_STEP_SUMMARY": str(project.parent / "summary.md"),
        "PATH": os.pathsep.join([str(site / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(site),
    }
    done: list[subprocess.CompletedProcess[str]] = []
    for step in workflow["jobs"]["replay"]["steps"]:
        if "run" in step and not any(each.returncode for each in done):
            command = ["bash", "-eo", "pipefail", "-c", step["run"]]
            done.append(
                subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, timeout=120)
            )
    return done


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_page_has_its_parts_and_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    lines_of_files = sum(len(block.text.splitlines()) for block in blocks(text) if block.file)
    steps = [title for title in titles if re.match(r"\d+\. ", title)]

    assert FROM_A_CLONE.search(text)
    assert [int(step.partition(".")[0]) for step in steps] == list(range(1, len(steps) + 1))
    assert titles == [*steps, "What can go wrong", "Next"]
    assert len(text.splitlines()) - lines_of_files <= LINES_BESIDE_FILES


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
@pytest.mark.parametrize("index", ["README.md", "docs/README.md"])
def test_the_page_is_linked(page: Path, index: str) -> None:
    link = page.relative_to((ROOT / index).parent)

    assert f"]({link})" in (ROOT / index).read_text(encoding="utf-8")
