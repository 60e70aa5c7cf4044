"""Durations and sizes, as they are written and as they are shown."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.retention.policy import DAY_S, FOREVER, parse_duration, parse_size, shown_bytes, shown_duration


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("14 days", 14 * DAY_S),
        ("1 day", DAY_S),
        ("2weeks", 14 * DAY_S),
        (" 36 hours ", 1.5 * DAY_S),
        ("90 minutes", 5400),
        ("0.5 days", DAY_S / 2),
        ("forever", FOREVER),
        (3, 3 * DAY_S),
        (0, 0),
        (0.5, DAY_S / 2),
    ],
)
def test_durations(said: str | float, seconds: float) -> None:
    assert parse_duration(said) == seconds


@pytest.mark.parametrize(
    ("said", "size"),
    [("2 GB", 2_000_000_000), ("1.5 MiB", 1_572_864), ("10kb", 10_000), ("7 B", 7), (99, 99), ("1 TiB", 1 << 40)],
)
def test_sizes(said: str | int, size: int) -> None:
    assert parse_size(said) == size


@pytest.mark.parametrize("said", ["", "days", "-3 days", "3", "3 d ays", "1e9 days", "three days", "3 days ago"])
def test_what_is_no_duration_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match=r"expected a duration|no unit"):
        parse_duration(said)


@pytest.mark.parametrize(("said", "why"), [("3 PB", "no unit 'PB' of size"), ("much", "expected a size")])
def test_what_is_no_size_is_refused(said: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_size(said)


@given(st.text(max_size=30))
def test_any_text_is_an_amount_or_a_value_error(said: str) -> None:
    for read in (parse_duration, parse_size):
        with suppress(ValueError):
            assert read(said) >= 0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (14 * DAY_S, "14 days"),
        (DAY_S, "1 day"),
        (5400, "1.5 hours"),
        (60, "1 minute"),
        (0, "0 days"),
        (0.5, "0.50 seconds"),
    ],
)
def test_durations_are_shown_as_people_say_them(seconds: float, shown: str) -> None:
    assert shown_duration(seconds) == shown


@given(st.integers(1, 5000), st.sampled_from(["minutes", "hours", "days"]))
def test_what_is_shown_is_about_what_was_said(number: int, unit: str) -> None:
    seconds = parse_duration(f"{number} {unit}")
    assert parse_duration(shown_duration(seconds)) == pytest.approx(seconds, rel=0.1)
    assert shown_duration(FOREVER) == "forever"


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (1_450_000, "1.4 MB"), (2e9, "2.0 GB"), (3e12, "3.0 TB")],
)
def test_sizes_are_shown_with_their_unit(size: float, shown: str) -> None:
    assert shown_bytes(size) == shown
