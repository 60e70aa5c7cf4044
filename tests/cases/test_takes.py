"""Takes on disk: what a case may hold beside its recorded take, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.find import find_case_files
from replaykit.cases.takes import MAX_TAKES, TAKE_FORMAT, Take, read_takes, take_calls, write_take
from replaykit.errors import InvalidFile
from replaykit.model.events import ToolCall
from replaykit.model.values import raw

CALLS = [ToolCall(seq=0, name="look", result_json=raw("lamp")), ToolCall(seq=1, name="ask", result_json=raw("three"))]


@pytest.fixture
def case(tmp_path: Path) -> ReplayCase:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "case.yaml").write_text("replaykit: 2\nid: shop\nscenario: {input: lamp}\n")
    return load_case(tmp_path / "shop")


def take(name: str, at: str = "2026-01-01T00:00:00Z") -> Take:
    return Take(replaykit=TAKE_FORMAT, name=name, at=at)


def test_takes_are_read_back_newest_first(case: ReplayCase) -> None:
    write_take(case, take("old"), CALLS, {})
    write_take(case, take("new", at="2026-02-01T00:00:00Z"), CALLS[:1], {})

    assert [one.name for one in read_takes(case)] == ["new", "old"]
    assert [call.result for call in take_calls(case, "old")] == ["lamp", "three"]


def test_directories_of_takes_hold_no_cases_of_their_own(case: ReplayCase) -> None:
    write_take(case, take("old"), CALLS, {})

    assert find_case_files([case.directory.parent]) == [case.directory / "case.yaml"]


def test_a_directory_called_takes_is_searched_where_no_case_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "takes" / "shop").mkdir(parents=True)
    file = tmp_path / "takes" / "shop" / "case.yaml"
    file.write_text("replaykit: 2\nid: shop\n")

    assert find_case_files([tmp_path]) == [file]


def test_takes_behind_a_link_out_of_the_case_are_refused(case: ReplayCase, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "stolen").mkdir(parents=True)
    (case.directory / "takes").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(InvalidFile, match="leaves the case's directory"):
        read_takes(case)


def test_more_takes_than_a_replay_should_try_are_refused(case: ReplayCase) -> None:
    for number in range(MAX_TAKES + 1):
        (case.directory / "takes" / f"take-{number}").mkdir(parents=True)

    with pytest.raises(InvalidFile, match="at most 100"):
        read_takes(case)


def test_a_call_that_refers_to_no_recorded_call_is_refused_with_its_line(case: ReplayCase) -> None:
    directory = write_take(case, take("new"), CALLS, {0: 7})

    with pytest.raises(InvalidFile, match=r"look\.json:\d+"):
        take_calls(case, "new")
    assert (directory / "fixtures" / "look.json").is_file()
