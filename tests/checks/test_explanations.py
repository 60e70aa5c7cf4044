"""Figures that might follow from the sources, and figures that come from nowhere for certain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replaykit.checks.explanations import MAX_NUMBERS, Explanations, converted, parts
from replaykit.checks.figures import all_figures
from replaykit.checks.grounding_sources import GroundingSource, SourceView
from replaykit.checks.source_columns import Columns


def explains(source: Any, text: str) -> bool:
    written = source if isinstance(source, str) else json.dumps(source)
    (figure,) = all_figures(text)
    return Explanations(SourceView([GroundingSource("the input", written)])).explain(figure)


@pytest.mark.parametrize(
    ("source", "figure"),
    [
        ({"c": 41.7}, "107"),
        ({"lb": 18.5}, "8.39"),
        ({"cm": 517}, "11.5"),  # inches, beside 16 feet
        ({"bytes": 389_203_744_850}, "362.5"),
        ({"price": 139.0, "percent_off": 15}, "118.15"),
        ({"carts": 3115, "orders": 906}, "29.1 %"),
        ({"2010": 522_883, "2020": 597_493}, "1.3 %"),
        ([{"sum": 412}, {"sum": 388}, {"sum": 1250}, {"sum": 297}], "2347"),
        ([{"price": 12.5, "n": 2}, {"price": 7.25, "n": 3}], "46.75"),
        ("widget 120 pcs @ 3.40\ngadget 45 pcs @ 12.10\ngizmo 8 pcs @ 99.00", "1744.50"),
        ({"from": "2025-11-18", "to": "2026-09-30"}, "316"),
        ({"from": "2025-06-02", "to": "2025-06-20"}, "15"),
        ({"at": "2025-03-04T12:30:00Z"}, "1741091400"),
        ({"at": 1767225600}, "January 1, 2026"),
        ({"signed": "2024-02-29", "term_months": 18, "notice_days": 90}, "May 31, 2025"),
        ({"code": "0x1F4"}, "500"),
        ("sixty-four guests", "64"),
        ({"phone": "+14155550132"}, "555"),
        ({"host": "https://git.test/acme/shop", "pull": 318}, "https://git.test/acme/shop/pull/318"),
    ],
)
def test_a_short_calculation_explains_a_figure(source, figure):
    assert explains(source, figure)


@pytest.mark.parametrize(
    ("source", "figure"),
    [
        ({"total": 840.0}, "913.27"),
        ({"price": 139.0, "percent_off": 15}, "4411.87"),
        ({"name": "report"}, "September 23, 2024"),
        ({"due": "2025-01-10"}, "July 23, 1931"),
        ({"state": "shipped"}, "JVGL0594823716"),
        ({"host": "https://git.test/acme/shop"}, "https://git.test/acme/shop/pull/4471"),
        ({"error": "HTTP 504 after 30 s"}, "504.25"),
    ],
)
def test_what_nothing_leads_to_is_not_explained(source, figure):
    assert not explains(source, figure)


def test_a_run_with_very_many_numbers_explains_any_number():
    few, many = ([n * 7.3 for n in range(1, count)] for count in (3, MAX_NUMBERS + 3))

    assert not explains(few, "918273.64")
    assert explains(many, "918273.64")


def test_some_of_a_column_may_be_added_up():
    columns = Columns([json.dumps([{"amount": 12.4}, {"amount": 100.3}, {"amount": 7.77}])])

    assert columns.has_subset_sum(20.17, 0.001)
    assert not columns.has_subset_sum(21.17, 0.001)


def test_units_have_their_parts():
    assert {3.0, 30.0} <= {round(value, 6) for value in parts([12_600.0])}
    assert any(abs(value - 68) < 1e-9 for value in converted([20.0]))
