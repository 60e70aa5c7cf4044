"""Every sample is read as what it is, and tells the story but for what its format cannot carry."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.formats.format_coverage import (
    BEGIN,
    END,
    ONLY_LOGS,
    OTHERS,
    STORIES,
    WORDS,
    Other,
    Story,
    check,
    files_of,
    imported,
    page_with_stories,
    story_in,
)
from tests.formats.samples import sample, samples_below
from tests.formats.story import PARTS

from replaykit.formats.core.registry import IMPORTERS
from replaykit.intake.job import read_files

PAGE = (Path(__file__).parents[2] / "docs" / "importing-formats.md").read_text(encoding="utf-8")


def named(row: Story | Other) -> str:
    return f"{row.format}-{row.what}"


@pytest.mark.parametrize("row", STORIES, ids=named)
def test_every_format_tells_the_story_but_for_what_it_cannot_carry(row: Story) -> None:
    for name in files_of(row):
        found = imported(row, name)
        assert (found.format, found.left_out) == (row.format, ()), name
        check(row, story_in(row, name))


@pytest.mark.parametrize("row", OTHERS, ids=named)
def test_samples_of_something_else_are_read_whole(row: Other) -> None:
    for name in files_of(row):
        found = imported(row, name)
        assert (found.format, found.left_out) == (row.format, ()), name
        assert sorted(run.status.value for run in found.runs) == sorted(row.statuses.split()), name


def test_every_sample_is_in_one_row() -> None:
    rows = Counter(name for row in (*STORIES, *OTHERS) for name in files_of(row) if name)

    assert rows == Counter(set(samples_below(".")) - set(files_of(ONLY_LOGS)))


@pytest.mark.parametrize("name", files_of(ONLY_LOGS))
def test_log_records_without_their_spans_are_no_run_and_say_what_to_do(name: str) -> None:
    (record,) = read_files([sample(name)])

    assert (record.run, record.problem) == (None, "")
    assert "holds no run: trace " in record.notes[0]
    assert "put them into one file with its spans" in record.notes[0]


def test_the_rows_are_in_the_order_of_detection() -> None:
    order = [importer.name for importer in IMPORTERS.values()]

    assert [row.format for row in STORIES] == sorted((row.format for row in STORIES), key=order.index)


def test_the_page_says_what_the_table_says() -> None:
    assert page_with_stories(PAGE) == PAGE, (
        "write it again: python -m tests.formats.format_coverage docs/importing-formats.md"
    )


def test_every_part_of_a_run_is_described() -> None:
    parts = [WORDS.get(name, name) for name in PARTS if name not in ("order", "replayable")]

    assert re.findall(r"^\| ([a-z ]+) \| ", PAGE.partition(BEGIN)[0], re.MULTILINE)[1:] == parts


def test_every_format_is_on_the_page() -> None:
    told = PAGE.partition(BEGIN)[2].partition(END)
    table = re.findall(r"^\| `(\w+)` \|", told[0], re.MULTILINE)
    others = re.findall(r"^\| `(\w+)` \|", told[2], re.MULTILINE)

    assert sorted({*table, *others}) == sorted(importer.name for importer in IMPORTERS.values())
    assert not set(table) & set(others)
