"""Layout on a terminal: recorded text stays text, whatever rich would make of it, and comes out in our marks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.terminals import screen_of, use_terminal

from replaykit.report.layout import beside, highlighted, panel, table, value_text, width_of, with_hint
from replaykit.report.recorded_and_current import with_sides
from replaykit.report.rich_layout import json_lines
from replaykit.terminal import guarded_output, style, unstyle

HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]fixed[/] :smile: [link=http://x]y[/link]\u202e\r\n"
SPELLED = r"\x1b]0;owned\x07\x1b[2J[bold red]fixed[/] :smile: [link=http://x]y[/link]\u202e"
BLOCKS: dict[str, Callable[[], str]] = {
    "table": lambda: table(["name", HOSTILE], [[HOSTILE, HOSTILE], [style(HOSTILE, fg="red"), "b"]], is_cut=False),
    "panel": lambda: panel(HOSTILE, [HOSTILE], colour="red"),
    "beside": lambda: beside((HOSTILE, "now"), [(HOSTILE, HOSTILE)]),
    "json": lambda: highlighted(json.dumps({HOSTILE: [HOSTILE]}, ensure_ascii=False)),
    "value": lambda: value_text({"a": HOSTILE}),
}
CALLS = [
    "run 'a' left its recording at call 1 of 2, tool `pay`",
    "  recorded  pay(order=7, note='a, (b', tags=['x', 'y'])",
    "  now       pay(order=8, note='a, (b', tags=['x', 'y'])",
    "  changed   $.order: 7 → 8",
]


@pytest.mark.parametrize("block", BLOCKS)
def test_recorded_text_is_neither_obeyed_by_the_terminal_nor_by_rich(
    monkeypatch: pytest.MonkeyPatch, block: str
) -> None:
    terminal = use_terminal(monkeypatch, 160)

    with guarded_output():
        print(BLOCKS[block]())

    written = terminal.getvalue()
    assert set(re.findall(r"\x1b[^A-Za-z]*.", written)) <= {f"\x1b[{code}m" for code in (0, 1, 2, 31, 32, 33, 36)}
    assert not {"\x07", "\u202e", "\r"} & set(written)
    shown = re.sub(r"\s+", "", "".join(screen_of(written)).replace("│", ""))
    assert re.sub(r"\s+", "", SPELLED) in shown.replace(r"\u001b", r"\x1b").replace(r"\u0007", r"\x07")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists))
def test_json_in_colours_means_the_same(value: object) -> None:
    lines = json.dumps(value, ensure_ascii=False, indent=2).split("\n")

    assert json.loads("\n".join(map(unstyle, json_lines(lines)))) == value


def test_rich_is_given_text_that_is_spelled_out() -> None:
    assert unstyle(json_lines(['"\u202e\x1b"'])[0]) == r'"\u202e\x1b"'


def test_without_a_terminal_nothing_is_laid_out_or_hinted_at() -> None:
    text = '{"a": 1}'

    assert highlighted(text) is text
    assert value_text({"a": 1}) == "{'a': 1}"
    assert with_hint("cut…", "All of it: --json") == "cut…"
    assert with_sides(CALLS) == CALLS


def test_what_is_cut_says_how_to_see_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, 160)

    with guarded_output():
        assert unstyle(with_hint("cut…", "All of it: --json")) == "cut…\n\nAll of it: --json"
        assert with_hint("whole", "All of it: --json") == "whole"


def test_numbers_are_set_flush_right_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, 160)

    with guarded_output():
        text = table(["n", "name"], [["1", "a"], ["1000", "b"]], numbers=("n",))

    assert unstyle(text).split("\n") == ["   n  name", "──────────", "   1  a", "1000  b"]


def test_a_very_long_table_fits_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, 160)
    rows = [[style("error", fg="red"), "x" * 200] for _ in range(400)]

    with guarded_output():
        lines = table(["status", "text"], rows).split("\n")

    assert len(lines) == 401
    assert {width_of(unstyle(line)) for line in lines[1:]} == {160}


def test_two_calls_stand_beside_each_other_with_an_argument_on_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, 160)

    with guarded_output():
        lines = [unstyle(line).split() for line in "\n".join(with_sides(CALLS)).split("\n")]

    assert ["recorded", "now"] in lines
    assert ["order=7,", "order=8,"] in lines
    assert ["note='a,", "(b',", "note='a,", "(b',"] in lines
    assert ["tags=['x',", "'y']", "tags=['x',", "'y']"] in lines
    assert ["changed", "$.order:", "7", "→", "8"] in lines


def test_on_a_narrow_terminal_they_stand_below_each_other_in_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, 119)

    with guarded_output():
        lines = with_sides(CALLS)

    assert [unstyle(line) for line in lines] == CALLS
    assert [line != unstyle(line) for line in lines] == [False, True, True, True]
