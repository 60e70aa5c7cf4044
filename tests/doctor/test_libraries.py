"""Installed libraries against the versions that ReplayKit declares."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from replaykit.doctor.libraries import FRAMEWORKS, HTTP_LIBRARIES, SDKS, Requirements, examine_libraries, fits
from replaykit.integrations import EXTRAS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("1.4", ">=1.4,<2", True),
        ("1.4.0", ">=1.4,<2", True),
        ("2.0", ">=1.4,<2", False),
        ("2", "<2.0", False),
        ("1.10", ">=1.9", True),
        ("1.9.9", ">=1.10", False),
        ("3.1rc1", ">=3.1", True),
        ("0.24.7", "<0.25,>=0.24", True),
        ("5", "", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, expected: bool) -> None:
    assert fits(version, wanted) is expected


def test_requirements_are_read_as_packages_write_them() -> None:
    own = Requirements(
        [
            "click>=8.1",
            "aiohttp<4,>=3.12.1",
            "pydantic-ai-slim[openai]<3,>=2.66; extra == 'pydantic-ai'",
            "x; os == 'y'",
        ]
    )

    assert own.needed == {"click": ">=8.1", "aiohttp": "<4,>=3.12.1"}
    assert own.by_extra == {("pydantic-ai", "pydantic-ai-slim"): "<3,>=2.66"}


def test_every_adapter_is_known_by_the_distribution_of_its_extra() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    assert {extra for extra, _ in FRAMEWORKS.values()} == set(EXTRAS.values())
    for name, (extra, _) in FRAMEWORKS.items():
        assert any(re.match(rf"{name}\b", requirement) for requirement in declared[extra])


def test_every_http_library_that_an_sdk_uses_is_one_that_is_recorded() -> None:
    assert {library for libraries in SDKS.values() for library in libraries} <= HTTP_LIBRARIES.keys()


def test_a_dependency_that_is_missing_or_too_old_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata on the path before the real one, as another installation would have it."""
    for name, metadata in {
        "agent_replaykit-9.dist-info": "Name: agent-replaykit\nVersion: 9\n"
        "Requires-Dist: click>=999\nRequires-Dist: not-there-at-all>=1\n",
        "langgraph-0.1.dist-info": "Name: langgraph\nVersion: 0.1\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "METADATA").write_text(f"Metadata-Version: 2.1\n{metadata}")
    monkeypatch.syspath_prepend(tmp_path)

    found = {item.name: item for item in examine_libraries()}

    assert (found["click"].state, found["click"].advice) == ("problem", ("pip install 'click>=999'",))
    assert "which is not installed" in found["not-there-at-all"].detail


def test_a_framework_outside_of_the_range_of_its_adapter_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crewai-0.1.dist-info").mkdir()
    (tmp_path / "crewai-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: crewai\nVersion: 0.1\n")
    monkeypatch.syspath_prepend(tmp_path)

    found = {item.name: item for item in examine_libraries()}

    assert found["crewai"].state == "note"
    assert ".[crewai]" in found["crewai"].advice[0]
