"""Why a replay is red, and two runs side by side."""

from __future__ import annotations

from playwright.sync_api import expect
from tests.viewer_browser.project import BILLING, ViewedProject
from tests.viewer_browser.watched_page import WatchedPage


def test_a_red_replay_pins_what_failed_and_leads_there(page: WatchedPage, project: ViewedProject) -> None:
    page.open(f"#/replay/{project.evidence('reproduced')}")

    why = page.find(".why")
    expect(why).to_contain_text("reproduced")
    line = why.locator(".finding", has_text="at most 3 tool calls")
    expect(line).to_contain_text("5 calls")
    line.get_by_role("button").click()
    expect(page.selected.locator(".row-seq")).to_have_text("3")
    expect(page.selected).to_contain_text("failed here")
    expect(why).to_be_visible()


def test_a_replay_opens_at_the_first_failed_assertion(page: WatchedPage, project: ViewedProject) -> None:
    page.open(f"#/replay/{project.evidence('reproduced')}")

    expect(page.title).to_contain_text("Max tool call limit exceeded")


def test_a_divergence_shows_recorded_beside_current(page: WatchedPage, project: ViewedProject) -> None:
    page.open(f"#/replay/{project.evidence('diverged')}")

    expect(page.find(".why")).to_contain_text("geocode(query=")
    expect(page.find(".why .side", "recorded")).to_have_count(1)
    expect(page.find(".why .side", "now")).to_have_count(1)
    page.find(".why .finding", "must hold").first.get_by_role("button").click()
    expect(page.title).to_contain_text("geocode")


def test_a_case_stands_beside_the_run_that_it_came_from(page: WatchedPage, project: ViewedProject) -> None:
    page.open("#/")
    page.find(".side-link", "cases/search-loop").click()

    expect(page.find(".why")).to_contain_text("signature holds")
    expect(page.find(".why")).to_contain_text("needs human")
    page.find(".why summary").last.click()
    expect(page.find(".file")).to_contain_text("max_tool_calls")
    page.find(".why .finding", "signature holds").nth(1).get_by_role("button").click()
    expect(page.title).to_contain_text("lookup_billing")


def test_a_comparison_folds_equal_parts_and_shows_the_first_divergence(page: WatchedPage) -> None:
    page.open("#/compare/prompt-a/prompt-b")

    expect(page.find(".why")).to_be_in_viewport()
    expect(page.find(".equal-fold")).to_contain_text("equal events")
    count = page.find(".entry-same").count()
    page.find(".equal-fold").first.click()
    assert page.find(".entry-same").count() > count


def test_a_long_prompt_shows_exactly_what_differs(page: WatchedPage) -> None:
    page.open("#/compare/prompt-a/prompt-b")

    difference = page.find(".why .difference").first
    expect(difference.locator("del")).to_have_text("politely")
    expect(difference.locator("ins")).to_have_text("firmly")
    expect(difference).to_contain_text("equal line")
    expect(difference).not_to_contain_text("Rule 12:")


def test_keys_go_from_difference_to_difference(page: WatchedPage) -> None:
    page.open(f"#/compare/{BILLING}/run-finance-2026-0215")
    expect(page.find(".entry").first).to_be_visible()

    page.press("n", "n")

    focused = page.tab.evaluate("document.activeElement.className")
    assert "entry" in focused


def test_equal_runs_are_said_to_be_equal(page: WatchedPage) -> None:
    page.open(f"#/compare/{BILLING}/{BILLING}")

    expect(page.find(".why")).to_contain_text("Nothing differs.")
