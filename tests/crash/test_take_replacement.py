"""kill -9 at every file operation of a take's replacement: the old take or the new one is there, for every reader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.matrix import sampled

from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.lint import lint_case
from replaykit.cases.takes import TAKE_FORMAT, Take, has_take, read_takes, take_calls, take_files, write_take
from replaykit.model.events import ToolCall
from replaykit.model.values import raw

WORKER = Path(__file__).with_name("take_worker.py")
CASE = """\
replaykit: 2
id: shop
scenario: {input: lamp, take: fix}
observed: [{output.contains: "lamp"}]
"""
FIX = Take(replaykit=TAKE_FORMAT, name="fix")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and kills")


def answers(case: ReplayCase) -> set[object]:
    return {call.result for call in take_calls(case, "fix")}


def write(case: ReplayCase, answer: str, *, replace: bool) -> None:
    calls = [ToolCall(seq=number, name=name, result_json=raw(answer)) for number, name in enumerate(("look", "ask"))]
    write_take(case, FIX, calls, {}, replace=replace)


@sampled("mode", ["exchange", "renames"], count=1)
@pytest.mark.exhaustive
def test_a_kill_at_any_point_leaves_the_old_take_or_the_new_one(tmp_path: Path, mode: str) -> None:
    template = tmp_path / "template"
    template.mkdir()
    (template / "case.yaml").write_text(CASE)
    write(load_case(template), "old", replace=False)
    arguments = [str(template), str(tmp_path), mode]

    ran = subprocess.run([sys.executable, str(WORKER), *arguments], capture_output=True, text=True, check=False)
    kills = int(ran.stdout)

    assert kills > 10, ran.stderr
    found = []
    for step in range(kills + 1):
        case = load_case(tmp_path / f"step-{step}" / "shop")
        assert [take.name for take in read_takes(case)] == ["fix"], step
        assert has_take(case, "fix")
        assert len(take_files(case, "fix")) == 2
        assert [problem for problem in lint_case(case.directory) if problem.severity == "error"] == []
        found += answers(case)
        write(case, "newest", replace=True)
        assert answers(case) == {"newest"}
        assert (case.directory / "takes" / "fix").is_dir()
    assert found == sorted(found, key=["old", "new"].index), "a later kill leaves an older take"
    assert set(found) == {"old", "new"}
    print(f"{mode}: {kills} kills, {found.count('old')} left the old take, {found.count('new')} the new one, 0 neither")
