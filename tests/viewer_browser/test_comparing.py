"""Why a replay is red, and two runs side by side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.viewer_browser.project import BILLING, ViewedProject, environment, viewer
from tests.viewer_browser.watched_page import WatchedPage, watched_page

REFUNDING = """
import replaykit as rk

@rk.tool(effects="none")
def price(order):
    return 20

@rk.tool
def refund(amount):
    with open("refunds.txt", "a") as file:
        file.write(f"{amount}\\n")
    return "refunded"

@rk.record("refund")
def answer(question):
    return refund(price(7))
"""


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


def test_a_step_is_edited_and_forked_in_the_page(page: WatchedPage, project: ViewedProject) -> None:
    page.open(f"#/run/{project.run_named('weather')}/11")
    page.find("summary", "Edit and fork").click()

    page.find(".fork-form textarea").fill('{"sky": "sun", "celsius": 31, "stale": false}')
    page.find(".fork-form button").click()

    expect(page.find(".fork-outcome")).to_contain_text("success", timeout=30_000)
    page.find(".fork-outcome a", "compare").click()
    expect(page.find(".compare-totals")).to_contain_text("31")


def test_an_effect_is_asked_for_by_name_before_it_happens(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "refunding_agent.py").write_text(REFUNDING)
    recording = "import refunding_agent; refunding_agent.answer('refund 7')"
    subprocess.run([sys.executable, "-c", recording], cwd=tmp_path, env=environment(), check=True, timeout=60)
    refunds = tmp_path / "refunds.txt"

    with viewer(tmp_path, "--agent", "refunding_agent:answer") as url, watched_page(browser, url) as page:
        page.open("#/run/refund/0")
        page.find("summary", "Edit and fork").click()
        page.find(".fork-form textarea").fill("5")
        page.find(".fork-form button").click()
        allow = page.find(".fork-outcome button", "Call refund for real")
        expect(allow).to_be_visible(timeout=30_000)
        assert refunds.read_text().split() == ["20"]

        allow.click()
        expect(page.find(".fork-outcome")).to_contain_text("success", timeout=30_000)
        assert refunds.read_text().split() == ["20", "5"]


def test_a_value_that_is_no_json_is_not_sent(page: WatchedPage, project: ViewedProject) -> None:
    page.open(f"#/run/{project.run_named('weather')}/11")
    page.find("summary", "Edit and fork").click()

    page.find(".fork-form textarea").fill("{sky")
    page.find(".fork-form button").click()

    expect(page.find(".fork-outcome .bad-text")).to_contain_text("JSON")
    assert not [url for url in page.requests if url.endswith("/fork")]
