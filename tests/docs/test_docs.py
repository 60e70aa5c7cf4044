"""The pages in docs/ say what the code does: every verb, option, kind and example in them is checked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from replaykit.candidates.output import CONTRACT, parse_output
from replaykit.cases.case import load_case
from replaykit.cases.fixtures import read_fixture
from replaykit.checks.admissions import admission
from replaykit.checks.assertions import ASSERTIONS
from replaykit.cli import VERBS, cli
from replaykit.formats.files import import_trace
from replaykit.model.changes import StateFold
from replaykit.model.events import State
from replaykit.model.values import READERS

ROOT = Path(__file__).parents[2]
FORMATS, CLI, ASSERTION_KINDS = (
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("formats.md", "cli.md", "assertions.md")
)
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = sorted((ROOT / "docs").rglob("*.md")) + [ROOT / name for name in ROOT_PAGES if (ROOT / name).exists()]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def section(page: str, title: str) -> str:
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title!r}"
    return found[2]


def options_of(command: click.Command) -> list[str]:
    """The options of a command, and of those below it; of `replaykit` itself only its own."""
    names = [name for option in command.params if isinstance(option, click.Option) for name in option.opts]
    if isinstance(command, click.Group) and command is not cli:
        context = click.Context(command, **cli.context_settings)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            names += options_of(inner)
    return names


def examples(*keys: str) -> list[str]:
    """The JSON examples in formats.md that have these keys."""
    return [text for text in blocks(FORMATS, "json") if set(keys) <= json.loads(text).keys()]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page: Path) -> set[str]:
    """The anchors a page has: its headings, as they are linked to."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def replaykit(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replaykit", *arguments]
    env = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_a_section_that_names_all_its_options(verb: str) -> None:
    command = cli.get_command(click.Context(cli, **cli.context_settings), verb)
    assert command is not None

    text = section(CLI, f"replaykit {verb}")

    names = set(options_of(command)) - {"-q", "--quiet", "-v", "--verbose"}  # described once, for all
    missing = [name for name in names if not re.search(rf"`{re.escape(name)}[` ]", text)]
    assert not missing


def test_no_verb_is_described_that_is_not_there() -> None:
    assert set(re.findall(r"^## replaykit (\w+)$", CLI, re.MULTILINE)) == set(VERBS)


def test_the_options_of_all_verbs_and_the_variables_are_described() -> None:
    names = [*options_of(cli), "-q", "--quiet", "-v", "--verbose", "REPLAYKIT_STORE", "REPLAYKIT_DEBUG", "NO_COLOR"]

    assert not [name for name in names if name not in section(CLI, "Common to all")]


@pytest.mark.parametrize("kind", list(ASSERTIONS))
def test_every_kind_of_assertion_has_a_section_with_an_example(kind: str) -> None:
    text = re.search(rf"^### `{kind}`\n(.*?)(?=^##|\Z)", ASSERTION_KINDS, re.MULTILINE | re.DOTALL)

    assert text is not None
    assert f"- {kind}: " in text[1]


def test_every_assertion_in_an_example_is_one(own_directory: Path) -> None:
    lists = [text for text in blocks(ASSERTION_KINDS, "yaml") if text.startswith("- ")]

    for text in lists:
        (own_directory / "case.yaml").write_text(f"replaykit: 1\nid: example\ndesired:\n{text}")
        assert load_case(own_directory).desired
    assert lists


def test_every_answer_on_the_page_that_admits_a_failure_does() -> None:
    quoted = re.findall(r"^> (.+)$", ASSERTION_KINDS, re.MULTILINE)
    answers = [text.strip() for text in " ".join(quoted).split("·") if text.strip()]

    assert len(answers) > 10
    assert [text for text in answers if admission(text) is None] == []


@pytest.mark.parametrize("page", [FORMATS, ASSERTION_KINDS], ids=["formats", "assertions"])
def test_every_case_on_a_page_loads(page: str, own_directory: Path) -> None:
    cases = [text for text in blocks(page, "yaml") if text.startswith(("replaykit: 1", "replaykit: 2"))]

    for text in cases:
        (own_directory / "case.yaml").write_text(text)
        case = load_case(own_directory)
        assert case.observed
        assert case.desired
    assert cases


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_json_example_is_json(page: Path) -> None:
    for text in blocks(page.read_text(encoding="utf-8"), "json"):
        json.loads(text)


def test_the_native_traces_import_with_nothing_left_over(own_directory: Path) -> None:
    traces = examples("run_id", "events")

    for text in traces:
        (own_directory / "trace.json").write_text(text)
        imported = import_trace(own_directory / "trace.json")
        assert imported.format == "replaykit"
        assert not imported.notes
        assert "unmapped" not in imported.runs[0].metadata
    assert traces


def test_the_run_log_imports_and_its_states_fold_to_the_one_that_is_shown(own_directory: Path) -> None:
    log, compact = examples("replaykit", "run")
    (shown,) = examples("tries", "draft")
    (own_directory / "log.json").write_text(log)
    fold = StateFold()

    (run,) = import_trace(own_directory / "log.json").runs
    for event in run.events:
        if isinstance(event, State):
            fold.apply(event)

    assert json.loads(fold.text) == json.loads(shown)
    assert run.event_count == len(run.events)
    (own_directory / "compact.json").write_text(compact)
    (call,) = import_trace(own_directory / "compact.json").runs[0].llm_calls
    assert len(call.arguments["messages"]) == 1


def test_the_fixture_examples_are_read(own_directory: Path) -> None:
    for text in examples("kind", "calls"):
        (own_directory / "fixture.json").write_text(text)

        calls = read_fixture(own_directory / "fixture.json")

        assert len(calls) == 2
    assert len(calls[1].arguments["messages"]) == 3
    assert calls[1].arguments["body"]["instructions"].startswith("Answer in the language")


def test_the_runner_output_example_is_understood() -> None:
    (text,) = examples("status", "tool_calls")

    attempt = parse_output(text.encode())

    assert attempt.run is not None, attempt.reason
    assert len(attempt.run.tool_calls) == 2


def test_every_tagged_form_is_listed_with_an_example_that_reads_back() -> None:
    table = section(FORMATS, "Values")
    shown = [msgspec.json.decode(text) for text in re.findall(r'`(\{"\$.+?\})` \|$', table, re.MULTILINE)]

    assert {form for form in READERS if f"`{form}`" not in table} == set()
    for value in shown:
        ((form, content),) = value.items()
        READERS[form](content)


def test_the_page_that_errors_point_to_is_there() -> None:
    file, _, anchor = CONTRACT.partition("#")

    assert anchor in anchors(ROOT / file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert not broken


def test_the_package_that_adds_to_the_registries_works_as_written(own_directory: Path) -> None:
    (toml,) = blocks(ASSERTION_KINDS, "toml")
    (log,) = blocks(ASSERTION_KINDS, "json")
    site = installed(own_directory / "site", tomllib.loads(toml)["project"])
    (own_directory / "order.json").write_text(log)

    made = replaykit("scaffold", "order.json", "--out", "cases/order", path=site)
    case = own_directory / "cases" / "order" / "case.yaml"
    case.write_text(case.read_text().replace("desired:", "desired:\n  - output_max_chars: 280\n ", 1))
    linted = replaykit("lint", "cases", path=site)

    assert made.returncode == 0, made.stderr
    assert "title: The card was charged 2 times; no answer" in case.read_text()
    assert linted.returncode == 0, linted.stdout
    assert "1 case: ok" in linted.stdout


def installed(site: Path, project: dict[str, Any]) -> Path:
    """A directory with the module and the metadata that installing the project would leave."""
    info = site / "shop_checks-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "shop_checks.py").write_text("\n\n".join(blocks(ASSERTION_KINDS, "python")))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return site


def test_every_test_that_the_security_page_names_is_there() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))

    assert len(named) > 20
    assert not [name for name in sorted(named) if not (ROOT / name).is_file()]
