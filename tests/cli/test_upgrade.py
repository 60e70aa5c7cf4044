"""`replaykit lint --upgrade`: older cases in the current format, with nothing lost that people wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.proof import read_proof

Command = Callable[..., Any]
OLD = Path(__file__).parents[1] / "frozen_files" / "v1" / "case"


@pytest.fixture
def old(own_directory: Path) -> Path:
    """A case as the first version wrote it, with a comment of somebody's."""
    case = Path("cases/frozen")
    shutil.copytree(OLD, case)
    file = case / "case.yaml"
    file.write_text("# ours\n" + file.read_text().replace("id: frozen", "id: frozen  # its name"))
    return case


def test_only_versions_change_and_comments_stay(replaykit: Command, old: Path) -> None:
    before, calls = (old / "case.yaml").read_text(), read_fixtures(old)

    ran = replaykit("lint", "--upgrade", "cases")

    assert ran.code == 0
    assert (old / "case.yaml").read_text() == before.replace("replaykit: 1", "replaykit: 2")
    assert read_fixtures(old) == calls
    for file in (old / "fixtures").iterdir():
        assert file.read_text().splitlines()[1] == '  "replaykit": 3,'
    assert f"rewrote {old}/case.yaml" in ran.out
    assert replaykit("lint", old).out == "1 case: ok\n"


def test_an_older_case_is_proven_by_its_own_recording(replaykit: Command, old: Path) -> None:
    ran = replaykit("lint", "--upgrade", old)

    assert f"{old}: proven red by the recorded run" in ran.out
    red = read_proof(rk.load_case(old)).red
    assert red is not None
    assert red.candidate == "the recorded run"


def test_a_dry_run_says_what_it_would_do_and_does_nothing(replaykit: Command, old: Path) -> None:
    before = {file: file.read_bytes() for file in old.rglob("*") if file.is_file()}

    ran = replaykit("lint", "--upgrade", old, "--dry-run")

    assert f"would rewrite {old}/case.yaml" in ran.out
    assert f"{old}: would be proven red by the recorded run" in ran.out
    assert {file: file.read_bytes() for file in old.rglob("*") if file.is_file()} == before


def test_upgrading_twice_changes_nothing_more(replaykit: Command, old: Path) -> None:
    replaykit("lint", "--upgrade", old)

    assert replaykit("lint", "--upgrade", old).out == "1 case: 0 upgraded, 1 already current\n"


def test_a_proof_outlives_the_upgrade(replaykit: Command, old: Path) -> None:
    rk_case = rk.load_case(old)
    from replaykit.cases.proof import ProofWriter

    ProofWriter(rk_case).write(red="python bad.py")

    replaykit("lint", "--upgrade", old)

    assert replaykit("lint", old).out == "1 case: ok\n"


def test_the_cases_of_the_configuration_are_upgraded(replaykit: Command, old: Path) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\ncases: [cases]\n")

    ran = replaykit("lint", "--upgrade", "--json")

    (case,) = ran.json["cases"]
    assert len(case["rewritten"]) == 3
    assert case["proven"] is True


def test_a_case_that_cannot_be_proven_says_why(replaykit: Command, old: Path) -> None:
    file = old / "case.yaml"
    file.write_text(file.read_text().replace("status_is: error", "status_is: timeout"))

    ran = replaykit("lint", "--upgrade", old)

    assert ran.code == 0
    assert f"{old}: not proven: the recorded run is" in ran.out
    assert not (old / "proof.json").exists()


@pytest.mark.parametrize(("text", "code"), [("replaykit: 1\nid: [", 2), ("replaykit: 9\nid: x\n", 3)])
def test_a_case_that_cannot_be_read_is_told_and_the_others_are_upgraded(
    replaykit: Command, old: Path, text: str, code: int
) -> None:
    Path("cases/wrong").mkdir()
    Path("cases/wrong/case.yaml").write_text(text)

    ran = replaykit("lint", "--upgrade", "cases")

    assert ran.code == code
    assert "cases/wrong/case.yaml" in ran.err
    assert f"rewrote {old}/case.yaml" in ran.out


def test_without_a_case_or_a_configuration_it_asks_for_one(replaykit: Command) -> None:
    ran = replaykit("lint", "--upgrade")

    assert ran.code == 2
    assert "replaykit lint --upgrade cases" in ran.err
