"""docs/importing.md: its table of formats is the registry's, and its importer is one that works when installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.intake.traces import lines, written

from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.replayability import Lack
from replaykit.intake.entries import _KEYS, CaseMade, ImportEntry, Manifest
from replaykit.report.formats import BEGIN, END, page_with_formats

DOCS = Path(__file__).parents[2] / "docs"
PAGE, CLI = ((DOCS / name).read_text(encoding="utf-8") for name in ("importing.md", "cli.md"))


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_table_of_formats_is_the_registrys() -> None:
    assert page_with_formats(PAGE) == PAGE, "write it again: python -m replaykit.report.formats docs/importing.md"


def test_the_table_has_every_format_once_in_the_order_of_detection() -> None:
    table = PAGE.partition(BEGIN)[2].partition(END)[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [importer.name for importer in IMPORTERS.values()]
    assert list(IMPORTERS) == sorted(importer.name for importer in IMPORTERS.values())


@pytest.mark.parametrize("importer", IMPORTERS.values(), ids=lambda importer: importer.name)
def test_every_format_has_a_title_of_one_line(importer: Any) -> None:
    assert importer.title.strip()
    assert "\n" not in importer.title


def test_a_page_whose_table_is_another_is_written_again(own_directory: Path) -> None:
    page = own_directory / "page.md"
    page.write_text(f"before\n{BEGIN}\n| `old` | gone |\n{END}\nafter\n")

    subprocess.run([sys.executable, "-m", "replaykit.report.formats", str(page)], check=True, timeout=60)

    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "`old`" not in text
    assert "| `otlp` |" in text


def test_everything_that_a_call_can_lack_is_described() -> None:
    assert re.findall(r"^\| `(\w+)` \| .+ \|$", PAGE.partition("## What can be replayed")[2], re.MULTILINE)[
        : len(Lack)
    ] == [lack.value for lack in Lack]


def test_every_key_of_a_filter_is_described() -> None:
    assert [key for key in _KEYS if not re.search(rf"`(--filter )?{key}=", PAGE)] == []


@pytest.mark.parametrize("struct", [ImportEntry, Manifest, CaseMade])
def test_every_key_of_the_json_is_described(struct: type[msgspec.Struct]) -> None:
    section = CLI.partition("## replaykit import\n")[2].partition("\n## ")[0]

    assert [name for name in struct.__struct_encode_fields__ if f"`{name}`" not in section] == []


@pytest.fixture
def acme(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package on the page, installed for the processes that are started."""
    project = tomllib.loads(block("toml"))["project"]
    site = own_directory / "site"
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [f"[{group}]\n{name} = {home}\n" for group, all_ in project["entry-points"].items()
              for name, home in all_.items()]  # fmt: skip
    (info / "entry_points.txt").write_text("".join(points))
    (site / "acme_traces.py").write_text(block("python"))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)


def replaykit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "replaykit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


STEP = {"tool": "search", "given": {"q": 1}, "gave": [1, 2]}


@pytest.mark.usefixtures("acme")
def test_an_installed_importer_is_one_like_any_other() -> None:
    good = {"acme": "s-1", "stars": 5, "steps": [STEP]}
    bad = {"acme": "s-2", "stars": 1, "steps": [STEP, {"tool": "refund", "gave": "done"}]}
    wrong = {"acme": "s-3", "steps": [STEP, {"given": {}}]}
    written("sessions.jsonl", lines([good, bad, wrong, bad]))

    ran = replaykit("import", "sessions.jsonl", "--json")

    assert ran.returncode == 1
    entries = json.loads(ran.stdout)["entries"]
    assert [(one["run"], one["status"], one["result"], one["replayable"]["exact"]) for one in entries] == [
        ("s-1", "success", "imported", 1),
        ("s-2", "error", "imported", 1),
        ("", "", "failed", 0),
        ("s-2", "error", "unchanged", 1),
    ]
    assert entries[1]["replayable"]["advice"] == ["Set ACME_KEEP_ARGUMENTS=1 where the sessions are recorded."]
    assert entries[2]["problem"] == "sessions.jsonl:3: 'tool' is missing"


@pytest.mark.usefixtures("acme")
def test_an_installed_importer_is_listed_named_and_makes_cases() -> None:
    written("one.json", {"acme": "s-7", "stars": 0, "steps": [STEP]})

    assert "acme" in replaykit("help", "formats").stdout.splitlines()[-1]
    assert replaykit("import", "one.json", "--format", "acme", "--scaffold", "cases").returncode == 0
    assert Path("cases/s-7/case.yaml").exists()
    assert replaykit("scaffold", "one.json", "--out", "cases/again").returncode == 0
    assert "format: acme" in Path("cases/again/case.yaml").read_text()
    assert replaykit("lint", "cases").returncode == 0


@pytest.mark.usefixtures("acme")
def test_a_thin_trace_of_an_installed_importer_is_refused_with_its_advice() -> None:
    written("one.json", {"acme": "s-7", "stars": 0, "steps": [{"tool": "search", "gave": 1}]})

    ran = replaykit("scaffold", "one.json")

    assert ran.returncode == 2
    assert "search (event 0): no arguments" in ran.stderr
    assert "ACME_KEEP_ARGUMENTS=1" in ran.stderr
