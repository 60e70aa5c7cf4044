"""A run in the browser: where it opens, how one moves, searches and filters, and what an event shows."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.viewer_browser.project import BILLING, FINANCE, ViewedProject
from tests.viewer_browser.watched_page import WatchedPage


def test_a_failed_run_opens_at_the_step_that_failed(page: WatchedPage) -> None:
    page.open(f"#/run/{BILLING}")

    expect(page.selected).to_contain_text("Max tool call limit exceeded")
    expect(page.title).to_contain_text("Max tool call limit exceeded")
    expect(page.find(".why")).to_contain_text("Max tool call limit exceeded")
    expect(page.find(".row.pinned")).to_contain_text("failed here")


def test_a_run_that_went_well_opens_as_a_whole(page: WatchedPage) -> None:
    page.open("#/run/weather")

    expect(page.find(".overview")).to_contain_text("What is the weather in Berlin?")
    expect(page.find(".overview")).to_contain_text("Fog, 14 °C in Berlin.")
    expect(page.selected).to_have_count(0)


def test_keys_move_through_events_and_failures(page: WatchedPage) -> None:
    page.open(f"#/run/{BILLING}")
    expect(page.selected).to_contain_text("Max tool call")

    page.press("g")
    expect(page.selected).to_contain_text("Why was I charged")
    page.press("j", "j")
    expect(page.selected.locator(".row-seq")).to_have_text("2")
    page.press("k")
    expect(page.selected.locator(".row-seq")).to_have_text("1")
    page.press("n")
    expect(page.selected.locator(".row-seq")).to_have_text("2")
    page.press("p")
    expect(page.selected.locator(".row-seq")).to_have_text("1")
    page.press("G")
    expect(page.selected.locator(".row-seq")).to_have_text("6")
    page.press("Enter")
    expect(page.find(".detail")).to_be_focused()
    page.press("o")
    expect(page.find(".overview")).to_be_visible()
    page.press("h")
    expect(page.find(".home h1")).to_have_text("Runs")


def test_the_list_is_a_listbox_whose_active_row_is_announced(page: WatchedPage) -> None:
    page.open(f"#/run/{BILLING}/3")

    expect(page.selected.locator(".row-seq")).to_have_text("3")
    active = page.find(".list").get_attribute("aria-activedescendant")
    assert active == page.selected.get_attribute("id")
    assert page.selected.get_attribute("aria-posinset") == "4"
    assert page.selected.get_attribute("aria-setsize") == "7"


def test_help_lists_the_keys_and_escape_closes_it(page: WatchedPage) -> None:
    page.open("#/run/weather")

    page.press("?")
    expect(page.find("dialog")).to_contain_text("next and previous failure")
    page.press("j")
    expect(page.selected).to_have_count(0)
    page.press("Escape")
    expect(page.find("dialog")).to_have_count(0)


def test_search_looks_into_titles_and_payloads(page: WatchedPage) -> None:
    page.open("#/run/values")
    expect(page.find(".row")).to_have_count(4)

    page.press("/")
    page.tab.keyboard.type("A149")
    expect(page.find(".row")).to_have_count(1)
    expect(page.find(".filter-status")).to_have_text("1 of 4")
    page.press("Enter")
    expect(page.title).to_contain_text("get_order")
    expect(page.find(".value.picked")).to_contain_text("A149")
    page.press("Escape", "Escape")
    expect(page.find(".row")).to_have_count(4)


def test_search_says_how_many_events_are_left(page: WatchedPage) -> None:
    page.open(f"#/run/{BILLING}")
    expect(page.find(".row")).to_have_count(7)

    page.find("input[type=search]").fill("lookup_billing")

    expect(page.find("#announcements")).to_have_text("5 events shown")


def test_filters_show_errors_and_kinds(page: WatchedPage) -> None:
    page.open(f"#/run/{FINANCE}")
    expect(page.find(".row")).to_have_count(7)

    page.tab.get_by_role("button", name="Errors").click()
    expect(page.find(".row")).to_have_count(2)
    page.tab.get_by_role("button", name="Errors").click()
    page.tab.get_by_role("button", name="Models").click()
    expect(page.find(".row")).to_have_count(2)
    expect(page.tab.get_by_role("button", name="Models")).to_have_attribute("aria-pressed", "true")
    page.press("Escape")
    expect(page.find(".row")).to_have_count(7)


def test_a_link_leads_to_a_value(page: WatchedPage) -> None:
    page.open("#/run/values/0?path=%24.result.items%5B149%5D.sku")

    expect(page.find(".value.picked")).to_contain_text("A149")
    expect(page.find(".value.picked")).to_be_in_viewport()


def test_moving_changes_the_address_so_that_every_event_has_a_link(page: WatchedPage) -> None:
    page.open(f"#/run/{BILLING}/1")
    expect(page.selected.locator(".row-seq")).to_have_text("1")

    page.press("j")

    expect(page.tab).to_have_url(re.compile(rf"#/run/{BILLING}/2$"))


def test_a_tool_call_shows_arguments_result_and_error(page: WatchedPage) -> None:
    page.open(f"#/run/{FINANCE}/2")

    expect(page.find(".event")).to_contain_text("ticker")
    expect(page.find(".event")).to_contain_text("504")
    expect(page.find(".event .facts")).to_contain_text("30 s")


def test_numbers_stay_as_they_were_written(page: WatchedPage) -> None:
    page.open("#/run/values/0")

    expect(page.find(".value.number", "9007199254740993")).to_have_count(1)


def test_a_conversation_folds_the_messages_that_were_there_before(page: WatchedPage) -> None:
    page.open("#/run/prompt-a/13")

    expect(page.find(".repeated > summary")).to_contain_text("earlier message")
    expect(page.find(".conversation")).to_contain_text("Why?")
    expect(page.find(".message.role-answer")).to_contain_text("See rule 207.")
    expect(page.find(".conversation")).not_to_contain_text("Rule 12:")
    page.find(".repeated > summary").click()
    expect(page.find(".conversation")).to_contain_text("Rule 12:")


def test_long_texts_are_folded_and_can_be_read_to_the_end(page: WatchedPage) -> None:
    page.open("#/run/prompt-a/12")

    expect(page.find(".conversation")).not_to_contain_text("Rule 299")
    page.tab.get_by_role("button", name=re.compile("Show all")).first.click()
    expect(page.find(".conversation")).to_contain_text("Rule 299")


def test_an_event_shows_the_state_and_what_changed_in_it(page: WatchedPage) -> None:
    page.open("#/run/weather/12")

    expect(page.find(".state")).to_contain_text("1 change since the previous checkpoint")
    expect(page.find(".state .difference")).to_contain_text("$.tries")
    expect(page.find(".state del")).to_have_text("2")
    expect(page.find(".state ins")).to_have_text("3")
    page.find(".state summary", "The whole state").click()
    expect(page.find(".state .tree")).to_contain_text("max_retries")


def test_overlapping_calls_lie_in_lanes_and_a_click_selects_one(page: WatchedPage) -> None:
    page.open("#/run/values")
    canvas = page.find(".timeline canvas")
    expect(canvas).to_be_visible()

    width = canvas.bounding_box()["width"]  # type: ignore[index]
    canvas.click(position={"x": width * 0.3, "y": 18 + 13 + 5})

    expect(page.title).to_contain_text("get_user")


def test_the_theme_follows_the_system_until_somebody_chooses(page: WatchedPage) -> None:
    page.tab.emulate_media(color_scheme="light")
    page.open("#/run/weather")
    ground = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")

    page.press("t")
    assert page.tab.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.press("t")
    assert page.tab.evaluate("getComputedStyle(document.body).backgroundColor") == ground


def test_an_unknown_run_is_a_message(page: WatchedPage) -> None:
    page.open("#/run/no-such-run")

    expect(page.find("[role=alert]")).to_contain_text("no-such-run")
    page.problems.clear()  # the browser logs the 404


def test_a_value_leads_to_where_it_came_from_and_where_it_went(page: WatchedPage, project: ViewedProject) -> None:
    page.open("#/run/values/0")
    page.find("button.value", "1234.5").click()

    trace = page.find(".trace")
    expect(trace).to_contain_text("It appears nowhere earlier in this run.")
    expect(trace).to_contain_text("Flowed into")
    expect(trace.locator("li", has_text="#3")).to_contain_text("$.arguments.amount")
    expect(trace.locator("li", has_text="#3").locator(".mark")).to_have_text("exact")
    expect(trace.locator("li", has_text="#2").first.locator(".mark")).to_have_text("normalised")

    trace.locator("a", has_text="#3").click()
    expect(page.title).to_contain_text("refund")
    expect(page.find(".trace section", "First appeared")).to_contain_text("#0")


def test_the_output_leads_to_where_it_came_from(page: WatchedPage) -> None:
    page.open("#/run/prompt-a")

    page.find(".overview button.value", "refuse politely").click()

    expect(page.find(".trace section", "First appeared")).to_contain_text("#12")
    page.press("Escape")
    expect(page.find(".trace")).not_to_be_visible()


def test_figures_from_nowhere_are_marked_in_the_output(page: WatchedPage) -> None:
    page.open(f"#/run/{FINANCE}")

    expect(page.find(".overview")).to_contain_text("Figures that came from nowhere")
    expect(page.find(".overview .long-text mark").first).to_have_text("$4.21 billion")


def test_home_lists_searches_and_compares(page: WatchedPage, project: ViewedProject) -> None:
    page.open("#/")
    expect(page.find(".run-item", "weather@step_3")).to_have_count(1)
    expect(page.find(".side-list", "reproduced")).to_be_visible()

    page.find("input[type=search]").fill("prompt-")
    expect(page.find(".run-item")).to_have_count(2)
    for box in page.find(".run-item input").all():
        box.check()
    page.find(".button", "Compare").click()
    expect(page.find(".compare")).to_be_visible()


def test_home_filters_by_status(page: WatchedPage) -> None:
    page.open("#/")

    page.find("select").select_option("timeout")

    expect(page.find(".run-item")).to_have_count(1)
    expect(page.find(".run-item")).to_contain_text("timeout")


def test_a_fork_shows_its_family_and_leads_to_a_comparison(page: WatchedPage, project: ViewedProject) -> None:
    page.open("#/run/weather%40step_3")

    expect(page.find(".family")).to_contain_text("forked at step_3")
    page.find(".family-run.current a", "compare with its parent").click()
    expect(page.find(".why", "First divergence")).to_contain_text("max_retries")
