"""kill -9 at random moments: nothing acknowledged is lost or damaged, nothing is left behind, no secret is written."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
from tests.crash.killed_commands import KINDS, WRITTEN, Kind
from tests.crash.projects import LEFT_WITHIN_S, Project
from tests.matrix import sampled

KILLS_PER_PROJECT = 10
TRIALS = int(os.environ.get("CRASH_TRIALS", str(len(KINDS))))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes that are left are looked for in /proc")


def trials_of(name: str) -> int:
    """The share of one kind: all together are TRIALS."""
    index = list(KINDS).index(name)
    return TRIALS * (index + 1) // len(KINDS) - TRIALS * index // len(KINDS)


def check_what_is_left(kind: Kind, project: Project, files: dict[str, tuple[int, int]]) -> None:
    """No process, no changed file, no secret; without isolation a candidate may have left processes and its file."""
    processes = project.end_processes(LEFT_WITHIN_S if kind.is_shut else 0)
    changed = {name for name, state in project.files().items() if files.get(name) != state} | (
        files.keys() - project.files().keys()
    )
    assert not kind.is_shut or processes == []
    assert changed <= (set() if kind.is_shut else {WRITTEN}), "files outside of .replaykit have changed"
    assert project.places_of_the_secret() == []


@sampled("name", KINDS, count=2)
def test_a_killed_command_loses_leaves_and_reveals_nothing(name: str, tmp_path: Path) -> None:
    kind, kills = KINDS[name](), trials_of(name)
    for first in range(0, kills, KILLS_PER_PROJECT):
        project = Project(tmp_path / str(first))
        kind.prepare(project)
        for trial in range(first, min(first + KILLS_PER_PROJECT, kills)):
            files = project.files()
            kind.kill(project, random.Random(f"{name} {trial}"))
            check_what_is_left(kind, project, files)
            kind.check(project)
        files = project.files()
        kind.finish(project)
        check_what_is_left(kind, project, files)

    facts = [f"{kills} kills", "0 stores damaged", "0 files with the secret"]
    if kind.acknowledged is not None:
        facts.append(f"{kind.acknowledged} acknowledged, 0 lost")
        assert kind.acknowledged >= kills
    facts.append("0 processes left" if kind.is_shut else "without isolation, so processes left were not counted")
    print(f"{name}: {', '.join(facts)}")


def test_the_trials_are_divided_over_all_kinds() -> None:
    assert sum(map(trials_of, KINDS)) == TRIALS
