"""Figures of an answer that nothing in the run says: which count, where they may come from, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest
from tests.matrix import sampled

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.figures import stated_figures
from replaykit.model.events import LlmCall, ToolCall
from replaykit.model.result import Finding, Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw


def tool(seq: int, name: str, arguments: Any, result: Any) -> ToolCall:
    return ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), result_json=raw(result))


def model(seq: int, said: str, *messages: tuple[str, str]) -> LlmCall:
    request = {"messages": [{"role": role, "content": text} for role, text in messages]}
    answer = {"role": "assistant", "content": said, "tool_calls": []}
    return LlmCall(seq=seq, name="m", arguments_json=Raw(canonical(request)), result_json=raw(answer))


def run_of(*events: Any, output: Any, asked: str = "What do I owe?") -> TraceRun:
    return TraceRun(
        id="r",
        status=RunStatus.SUCCESS,
        input_json=raw(asked),
        output_json=raw(output),
        events=events,
        event_count=len(events),
    )


def grounded(run: TraceRun, **parameters: Any) -> Finding:
    return parse_assertion("output.grounded", parameters or True).check(run, Side.DESIRED)


def billed(output: Any, result: Any = None, **parameters: Any) -> Finding:
    return grounded(run_of(tool(0, "get_bill", {}, result), output=output), **parameters)


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({"total": 1234.5}, "You owe $1,234.50."),
        ({"total": 1234.5}, "Sie schulden 1.234,50 €."),
        ({"total_cents": 4999}, "You owe $49.99."),
        ({"share": 0.125}, "That is 12.5 % of it."),
        ({"revenue": 4213000000}, "Revenue was $4.2 billion."),
        ({"pi": 3.14159}, "The ratio is 3.14."),
        ({"people": 1187}, "About 1,200 people came."),
        ({"due": "2024-03-12"}, "It is due on March 12, 2024."),
        ({"due": "2024-03-12T10:00:00Z"}, "Fällig am 12. März."),
        ({"due": "12/03/2024"}, "期日は2024年3月12日です。"),
        ({"order": "ORD-00991"}, "Your order is #ord 00991."),
        ({"page": "https://www.shop.test/orders/7?x=1"}, "See https://shop.test/orders/7."),
        ({"city": "Orléans"}, 'tool get_weather {"city": "Orl\\u00e9ans"}'),
        ({"title": "the long way home"}, 'It is called "The Long Way Home".'),
        ({"price": "forty euros"}, "It costs 40 euros."),
        ({"total": 20350}, "税込20,350円です。"),
        ({"total": 37300}, "총37,300원입니다."),
    ],
)
def test_a_figure_is_found_in_a_source_whatever_its_format(result, output):
    assert billed(output, result).holds


@pytest.mark.parametrize(
    "output",
    [
        "There are 3 ways to pay, and all 12 months count.",
        "1. Pay by card.\n2. Pay by transfer.\n14) Wait.\n### 27. Summary",
        "See step 41 and section 77.",
        "We are open from 9:30 to 18:45, 24 hours a day, 365 days a year, since 1998.",
        "```python\nprice = 4711.99\n```",
        "It is 100 % safe.",
        "The 21st century has 3D films, CO2 and MP3.",
        "Your Q3 report is ready.",
    ],
)
def test_counting_numbering_code_and_times_need_no_source(output):
    assert stated_figures(output) == []


def test_a_figure_from_nowhere_is_named_with_the_nearest_one():
    finding = billed("You owe $59.99 by 2024-04-12.", {"total": 49.99, "due": "2024-03-12"})

    assert not finding.holds
    assert finding.text == (
        "Output states '$59.99' (nearest: 49.99, tool 'get_bill' (event 0)), '2024-04-12', "
        "which nothing in the run supports"
    )


@pytest.mark.parametrize(
    ("output", "derivation"),
    [
        ("Together 61.25.", "sum"),
        ("The difference is 38.75.", "difference"),
        ("Twelve of them are 135.", "product"),
        ("That is 4.44 times as much.", "ratio"),
        ("That is 22.5 %.", "percent"),
    ],
)
def test_arithmetic_counts_only_where_the_case_names_it(output, derivation):
    result = {"flight": 50, "bag": 11.25}

    assert not billed(output, result).holds
    assert billed(output, result, derive=[derivation]).holds
    assert billed(output, result, derive="all").holds


def test_a_count_is_at_most_the_length_of_a_list():
    rows = [{"id": f"row_{n}a{n}"} for n in range(40)]

    assert billed("There are 37 open ones.", rows, derive=["count"]).holds
    assert not billed("There are 41 open ones.", rows, derive=["count"]).holds


def test_figures_can_be_left_out():
    assert billed("Call 1-800-555-0199.", {}, ignore=["1-800-*"]).holds
    assert not billed("Call 1-800-555-0199.", {}).holds


def test_the_models_own_words_are_no_source_nor_is_their_echo():
    said_first = model(0, "I believe it is 4711.", ("user", "What do I owe?"))
    echoed = model(2, "It is 4711.", ("user", "What do I owe?"), ("tool", "4711"))
    search = tool(1, "web_search", {"query": "bill 4711"}, "Results for bill 4711: none")

    finding = grounded(run_of(said_first, search, echoed, output="You owe 4711 euros in all."))

    assert not finding.holds
    assert finding.seq == 0


def test_a_message_that_came_before_the_statement_is_a_source():
    asked = model(0, "It is 4711.", ("system", "Every bill is 4711 euros."), ("user", "What do I owe?"))

    assert grounded(run_of(asked, output="You owe 4711 euros in all.")).holds


def test_the_arguments_of_a_change_count_and_those_of_a_search_do_not():
    assert grounded(run_of(tool(0, "refund", {"amount": 47.5}, "ok"), output="I refunded $47.50.")).holds
    assert not grounded(run_of(tool(0, "search_bills", {"amount": 47.5}, "ok"), output="I found $47.50.")).holds


def test_the_answer_of_a_sub_agent_is_no_source_but_what_its_tools_answered_is():
    inner = LlmCall(seq=1, name="m", parent=0, result_json=raw("47.50"))
    lookup = ToolCall(seq=2, parent=0, name="get_bill", arguments_json=Raw(b"{}"), result_json=raw({"total": 61}))
    agent = tool(0, "billing_agent", {"task": "find it"}, "It is 47.50; the total is 61.")

    assert not grounded(run_of(agent, inner, lookup, output="You owe $47.50.")).holds
    assert grounded(run_of(agent, inner, lookup, output="You owe $61.")).holds


@pytest.mark.parametrize(
    ("output", "is_grounded"),
    [
        ("1937", False),
        ("2024", True),
        ("Wen Jiabao", False),
        ("Jane Miller", True),
        ("Miller, Jane", True),
        ("Done.", True),
    ],
)
def test_an_answer_that_is_a_figure_or_a_name_alone_needs_a_source(output, is_grounded):
    run = run_of(tool(0, "read", {}, "Jane Miller wrote it in 2024."), output=output)

    assert grounded(run).holds is is_grounded


def test_a_patch_must_take_lines_for_granted_that_the_agent_has_read():
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n def total(bill):\n-    return bill.amount * 2\n+    return 0\n"
    read = tool(0, "read_file", {"path": "x.py"}, "def total(bill):\n    return bill.amount * 2\n")

    assert grounded(run_of(read, output=patch)).holds
    assert not grounded(run_of(tool(0, "list_files", {}, ["x.py"]), output=patch)).holds


def test_the_values_of_json_are_figures_and_its_keys_are_not():
    assert billed({"Total Amount 99": 49.99}, {"total": 49.99}).holds
    assert not billed('{"total": 59.99}', {"total": 49.99}).holds


def test_a_run_without_an_output_is_neither_grounded_nor_not():
    run = TraceRun(id="r", status=RunStatus.SUCCESS)

    assert not grounded(run).holds
    assert not grounded(run, grounded=False).holds


@sampled("text", ["1" * 60_000, "a/" * 30_000, "a@" * 20_000, "<code>" * 10_000, "12 34 " * 10_000], count=2, start=1)
def test_hostile_texts_are_read_in_linear_time(text):
    assert billed(f"You owe 47.50. {text}", text, derive="all").seq is not None
