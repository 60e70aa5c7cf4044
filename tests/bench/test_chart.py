"""The chart above the table of results."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The chart, as `python bench/run.py` imports it."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    for name in ("chart", "rows", "table"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import chart

    return chart


def line(bench: ModuleType, ours: float | None, *peers: float | None, title: str = "Recording a call"):
    """A line of the table with these values, in bytes."""
    table, rows = bench.table, sys.modules["rows"]
    row = replace(rows.ROWS[0], chart=title, unit="bytes")
    others = [
        table.Entry(f"peer {number}", table.Number(value), "", value and ours and value / ours)
        for number, value in enumerate(peers, 1)
    ]
    return table.Line(row, table.Entry("ReplayKit", table.Number(ours), "", None), others, "")


def bars(svg: str) -> list[tuple[str, int]]:
    """The kind and the length of each bar, from top to bottom."""
    found = sorted(ET.fromstring(svg).iter(f"{SVG}rect"), key=lambda rect: int(rect.attrib["y"]))
    return [(rect.attrib["class"], int(rect.attrib["width"])) for rect in found]


def test_bars_are_as_long_as_the_logarithm_of_their_values(bench: ModuleType) -> None:
    drawn = bars(bench.svg([line(bench, 1_000, 10_000, 100_000)]))

    assert [kind for kind, _ in drawn] == ["ours", "peer", "peer"]
    ours, near, far = (length for _, length in drawn)
    assert far - near == pytest.approx(near - ours, abs=1)
    assert ours < near < far


def test_a_bar_of_almost_nothing_can_still_be_seen(bench: ModuleType) -> None:
    (_, ours), (_, peer) = bars(bench.svg([line(bench, 1, 10**9)]))

    assert 0 < ours < peer


def test_rows_without_a_title_in_the_chart_and_systems_that_were_not_measured_are_left_out(bench: ModuleType) -> None:
    assert bars(bench.svg([line(bench, 1, 2, title="")])) == []
    assert bars(bench.svg([line(bench, None, 2)])) == []
    assert [kind for kind, _ in bars(bench.svg([line(bench, 1, None, 2)]))] == ["ours", "peer"]


def test_titles_are_text_and_never_markup(bench: ModuleType) -> None:
    svg = bench.svg([line(bench, 1, 2, title="<b>fast</b> & small")])

    assert "<b>fast</b> & small" in [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_chart_loads_nothing(bench: ModuleType) -> None:
    svg = bench.svg([line(bench, 1, 2)])

    assert svg.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert {element.tag for element in ET.fromstring(svg).iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "style", "text", "rect")
    }


def test_every_row_of_the_chart_is_a_row_of_the_table(bench: ModuleType) -> None:
    rows = sys.modules["rows"]

    assert {row.title for row in rows.ROWS if row.chart} == set(rows.CHARTED)
