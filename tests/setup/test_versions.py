"""The Python versions that the package claims are those that are tested, and those that `make` looks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLAIMED = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
SCRIPT = (ROOT / "tools" / "setup-venv").read_text(encoding="utf-8")


def test_the_workflow_tests_every_claimed_version() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))

    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == CLAIMED


def test_make_looks_for_every_claimed_version() -> None:
    (candidates,) = re.findall(r'^candidates="(.*)"$', SCRIPT, re.MULTILINE)

    assert {f"python{version}" for version in CLAIMED} <= set(candidates.split())


def test_the_oldest_version_is_the_same_everywhere() -> None:
    major, minor = re.findall(r"version_info < \((\d+), (\d+)\)", SCRIPT)[0]

    assert PROJECT["requires-python"] == f">={major}.{minor}"
    assert CLAIMED[0] == f"{major}.{minor}"
