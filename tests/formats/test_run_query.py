"""Which runs of a project are wanted, and how both versions of the API are asked for them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.formats.core.run_query import Status, age_of, since_of
from replaykit.intake.services.langsmith_api import LangSmithQuery, latency_ms

NOW = dt.datetime(2026, 2, 15, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("last_7_days", dt.timedelta(days=7)),
        ("last_24_hours", dt.timedelta(hours=24)),
        ("last_1_day", dt.timedelta(days=1)),
        ("last_2_weeks", dt.timedelta(weeks=2)),
        ("LAST_30_DAYS", dt.timedelta(days=30)),
        (" 90m ", dt.timedelta(minutes=90)),
        ("7d", dt.timedelta(days=7)),
        ("99999w", dt.timedelta(days=400)),
    ],
)
def test_a_range_is_read_as_it_says(text: str, age: dt.timedelta) -> None:
    assert age_of(text) == age


@pytest.mark.parametrize("text", ["", "7", "d", "last_days", "last_0_days", "-7d", "7 fortnights", "last__7_days"])
def test_any_other_range_is_refused_and_never_taken_for_all_time(text: str) -> None:
    with pytest.raises(ValueError, match="no range of time"):
        age_of(text)


def test_a_moment_is_a_date_or_an_age() -> None:
    assert since_of("2026-02-01", NOW) == dt.datetime(2026, 2, 1, tzinfo=dt.UTC)
    assert since_of("2026-02-01T10:00:00+02:00", NOW) == dt.datetime(2026, 2, 1, 8, tzinfo=dt.UTC)
    assert since_of("24h", NOW) == NOW - dt.timedelta(hours=24)


def test_both_versions_are_asked_for_the_same() -> None:
    wanted = LangSmithQuery(project_id="p", since=NOW, min_latency_ms=5250)

    first, second = wanted.body(1), wanted.body(2)

    assert (first["session"], second["project_ids"]) == (["p"], ["p"])
    assert (first["error"], second["has_error"]) == (True, True)
    assert (first["start_time"], second["min_start_time"]) == ("2026-02-15T12:00:00Z", "2026-02-15T12:00:00Z")
    assert first["filter"] == second["filter"] == 'gte(latency, "5s")'
    assert (first["limit"], second["page_size"]) == (100, 100)
    assert "INPUTS" in second["selects"]
    assert "inputs_s3_urls" in first["select"]


def test_all_runs_are_asked_for_without_a_filter() -> None:
    body = LangSmithQuery(project_id="p", since=NOW, status=Status.ALL, min_latency_ms=999).body(2)

    assert not {"has_error", "filter"} & body.keys()


@given(st.floats(0, 20_000), st.booleans(), st.sampled_from(Status), st.floats(0, 10_000))
def test_what_fits_is_decided_here_whatever_the_server_makes_of_the_question(
    least: float, failed: bool, status: Status, took: float
) -> None:
    wanted = LangSmithQuery(project_id="p", since=NOW, status=status, min_latency_ms=least)
    root = {"error": "Boom" if failed else None, "latency_seconds": took / 1000}

    right_status = status is Status.ALL or failed == (status is Status.ERROR)
    assert wanted.fits(root) == (right_status and (took / 1000 * 1000 >= least))


@pytest.mark.parametrize(
    ("run", "latency"),
    [
        ({"latency_seconds": 1.5}, 1500),
        ({"start_time": "2026-02-15T12:00:00", "end_time": "2026-02-15T12:00:02.5+00:00"}, 2500),
        ({"start_time": "2026-02-15T12:00:00"}, None),
        ({"start_time": "yesterday", "end_time": 3, "latency_seconds": True}, None),
    ],
)
def test_how_long_a_run_took_is_known_or_not(run: dict[str, object], latency: float | None) -> None:
    assert latency_ms(run) == latency
