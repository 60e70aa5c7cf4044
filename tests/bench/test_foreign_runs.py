"""The benchmark on foreign runs: failed runs of tau-bench, with tools that return errors and with tools that raise."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.samples import corpus, unpacked

from replaykit.model.matching import ToolErrors

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("foreign_runs", ROOT / "bench" / "foreign_runs.py")
assert SPEC is not None
assert SPEC.loader is not None
foreign_runs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(foreign_runs)


def shortest_with_a_tool_error() -> dict[str, Any]:
    results = json.loads(unpacked(corpus("tau-bench/gpt-4o-airline-trials-0-1.json")))
    failed = [one for one in results if one["reward"] < 1 and '"Error: ' in json.dumps(one["traj"])]
    return min(failed, key=lambda one: len(json.dumps(one)))


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    (tmp_path / "tau-bench").mkdir()
    (tmp_path / "tau-bench" / "excerpt.json").write_text(json.dumps([shortest_with_a_tool_error()]))
    return tmp_path


def test_every_run_reproduces_in_both_styles(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert foreign_runs.main([str(corpora)]) == 0

    row = capsys.readouterr().out.splitlines()[0]
    assert row.startswith("tau-bench: runs 1, ")
    assert row.endswith("manifest 1, returned 1, raised 1")


def test_an_answer_that_is_not_the_recorded_one_is_a_failure(
    corpora: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_runs, "with_style", lambda case, _style: case)  # errors are returned, whoever asks

    assert foreign_runs.main([str(corpora)]) == 1
    assert f", {ToolErrors.RAISED}: " in capsys.readouterr().out


def test_without_a_corpus_it_says_what_it_wants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert foreign_runs.main([str(tmp_path)]) == 0
    assert foreign_runs.main([]) == 0

    assert capsys.readouterr().out.count("skipped: give a directory that holds tau-bench or tau2") == 2
