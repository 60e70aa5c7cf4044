"""Which runs of files come in: by what they say, by when they began, and how many."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.intake.traces import failed, lines, native, written

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.intake.entries import ImportRecord, RunFilter, choose, parse_run_filter
from replaykit.model.run import Origin, RunStatus, TraceRun

Run = Callable[..., Any]

RUNS = [
    TraceRun(id="a", status=RunStatus.SUCCESS, agent="support", name="chat", tags=("prod", "eu"), started_at=100.0),
    TraceRun(id="b", status=RunStatus.ERROR, agent="support-2", name="chat", tags=("prod",), started_at=200.0),
    TraceRun(id="c", status=RunStatus.TIMEOUT, agent="billing", origin=Origin(kind="imported", format="otlp")),
    TraceRun(id="d", status=RunStatus.CANCELLED, agent="billing", started_at=300.0),
]


def taken(wanted: RunFilter) -> list[str]:
    records = [ImportRecord(origin="x", id=run.id, run=run) for run in RUNS]
    return [record.id for record in choose(records, wanted) if record.run is not None]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([], "abcd"),
        (["status=error"], "bc"),  # failed in any way
        (["status=timeout"], "c"),
        (["status=cancelled"], "d"),
        (["status=success", "status=error"], "abc"),
        (["agent=support"], "a"),
        (["agent=support*"], "ab"),
        (["AGENT = billing"], "cd"),
        (["agent=support*", "status=error"], "b"),
        (["name=chat"], "ab"),
        (["tag=eu"], "a"),
        (["tag=prod", "tag=none"], "ab"),
        (["format=otlp"], "c"),
        (["name=nobody"], ""),
        (["agent=[support]"], ""),
    ],
)
def test_a_run_is_wanted_that_says_one_of_the_values_of_every_key(filters: list[str], found: str) -> None:
    assert taken(parse_run_filter(filters)) == list(found)


def test_a_run_is_wanted_that_began_then_or_later() -> None:
    assert taken(RunFilter(since=200.0)) == ["b", "d"]
    assert taken(parse_run_filter([], "1970-01-01T00:04:00Z")) == ["d"]
    assert taken(parse_run_filter([], "7d")) == []


def test_a_time_long_ago_is_taken_as_it_is() -> None:
    now = dt.datetime.now(dt.UTC).timestamp()

    since = parse_run_filter([], "2000d").since

    assert since is not None
    assert abs(now - since - 2000 * 86_400) < 60


def test_the_limit_is_that_of_the_runs_that_are_wanted_and_nothing_is_read_beyond_it() -> None:
    read: list[str] = []

    def records() -> Any:
        for run in RUNS:
            read.append(run.id)
            yield ImportRecord(origin="x", id=run.id, run=run)
            yield ImportRecord(origin="x", problem="bad")

    found = list(choose(records(), parse_run_filter(["agent=support*"], limit=2)))

    assert read == ["a", "b"]
    assert [record.id for record in found if record.run] == ["a", "b"]
    assert [note for record in found for note in record.notes] == ["the limit stopped the import after 2"]


def test_what_was_passed_over_is_told() -> None:
    records = [ImportRecord(origin="x", id=run.id, run=run) for run in RUNS]

    *_, last = choose(records, RunFilter(since=250.0))

    assert last.notes == ("skipped, since not selected: 3, 1 of them without a time at which they began",)


@pytest.mark.parametrize(
    ("filters", "since", "told"),
    [
        (["status"], None, "expected KEY=VALUE"),
        (["=x"], None, "no such key; valid: agent, format, name, status, tag"),
        (["name="], None, "expected KEY=VALUE"),
        (["stauts=error"], None, "did you mean 'status'?"),
        (["status=eror"], None, "did you mean 'error'?"),
        ([], "yesterday", "no range of time 'yesterday'"),
        ([], "0d", "no range of time '0d'"),
    ],
)
def test_what_says_nothing_is_wrong_usage(filters: list[str], since: str | None, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_run_filter(filters, since)

    assert told in str(caught.value)


def test_the_command_takes_what_is_asked_for(replaykit: Run) -> None:
    runs = [native("a"), failed("b", agent="x"), failed("c", agent="y"), native("d", status="timeout")]
    file = written("runs.jsonl", lines(runs))

    ran = replaykit("import", file, "--filter", "status=error", "--limit", "2", "--json")

    assert (ran.code, ran.results) == (0, {"b": "imported", "c": "imported"})
    assert "note: the limit stopped the import after 2" in ran.err
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert {header.id for header in store.headers()} == {"b", "c"}


def test_nothing_that_is_asked_for_is_told_with_what_was_passed_over(replaykit: Run) -> None:
    file = written("runs.jsonl", lines([native("a"), native("b")]))

    ran = replaykit("import", file, "--filter", "status=error")

    assert ran.code == 5
    assert "no run was imported" in ran.err
    assert "skipped, since not selected: 2" in ran.err


@pytest.mark.parametrize("wrong", [["--filter", "x=1"], ["--since", "soon"], ["--limit", "0"], ["--limit", "x"]])
def test_a_wrong_option_is_told_before_anything_is_read(replaykit: Run, wrong: list[str]) -> None:
    ran = replaykit("import", written("one.json", native()), *wrong)

    assert ran.code == 2
    assert not Path(".replaykit").exists()
