"""Every way out of an isolated process tree that we know of, tried inside of one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from replaykit.isolation import Level, Report, World, support
from tests.isolation.outside import HERE, Outside, run
from tests.isolation.techniques import TECHNIQUES

LANDLOCK_LETS_THROUGH = {
    "change_mode",
    "change_times",
    "change_attribute",
    "other_priority",
    "system_v_memory",
}
"""What Landlock has no rule for. `docs/decisions/isolation.md` has the same table."""


@dataclass
class Attempts:
    """What came of all techniques in one process tree."""

    answers: dict[str, str]
    changed: set[str]
    connections: list[str]
    report: Report
    facts: dict[str, object]

    def got_through(self, name: str) -> bool:
        return self.answers[name] == "through" or name in self.changed


def _attempts(place: Path, level: Level) -> Attempts:
    outside = Outside(place)
    try:
        facts, answers = outside.scratch / "facts.json", outside.scratch / "answers.json"
        facts.write_text(json.dumps(outside.facts))
        outside.proxy.close()
        with World(outside.policy(ports=(outside.proxy_port,)), level=level) as world:
            arguments = (str(HERE / "techniques.py"), str(facts), str(answers))
            code, printed = run(world, sys.executable, *arguments, cwd=outside.project)
            assert code == 0, printed
            report = world.report()
        return Attempts(
            json.loads(answers.read_text()), outside.changed(), outside.connections, report, outside.facts
        )
    finally:
        outside.close()


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempts]:
    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))
    return _attempts(tmp_path_factory.mktemp("full"), Level.FULL)


@pytest.fixture(scope="module")
def lesser_attempts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempts]:
    if support().level is Level.PROCESS or not support().landlock:
        pytest.skip("; ".join(support().reasons()))
    return _attempts(tmp_path_factory.mktemp("landlock"), Level.LANDLOCK)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_nothing_gets_out_of_full_isolation(attempts: Attempts, name: str) -> None:
    if attempts.answers[name].startswith("left out"):
        pytest.skip(attempts.answers[name])

    assert not attempts.got_through(name), TECHNIQUES[name].purpose


def test_no_server_outside_sees_a_connection(attempts: Attempts) -> None:
    assert attempts.connections == []


@pytest.mark.parametrize("name", [name for name, one in TECHNIQUES.items() if one.named])
def test_the_report_names_what_was_tried(attempts: Attempts, name: str) -> None:
    if attempts.answers[name].startswith("left out"):
        pytest.skip(attempts.answers[name])
    facts = {**attempts.facts, "victim": attempts.facts["victims"][name]}  # type: ignore[index]
    expected = TECHNIQUES[name].named.format(**facts)

    named = [one.target for one in attempts.report.stopped] + [one.path for one in attempts.report.written]

    assert any(expected in text for text in named), named


def test_the_lesser_level_lets_through_what_its_table_says(lesser_attempts: Attempts) -> None:
    rows = []
    for name, technique in TECHNIQUES.items():
        answer = "through" if lesser_attempts.got_through(name) else lesser_attempts.answers[name].partition(":")[0]
        rows.append((technique.kind, name, answer, technique.purpose))
    for kind, name, answer, purpose in sorted(rows):
        print(f"| {kind} | {name} | {answer} | {purpose} |")

    passed = {name for _, name, answer, _ in rows if answer == "through"}

    assert passed <= LANDLOCK_LETS_THROUGH
    assert not {one for one in lesser_attempts.connections if one != "elsewhere"}
