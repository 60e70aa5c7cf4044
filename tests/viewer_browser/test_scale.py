"""A run of 100,000 events: its first rows, jumps, and the number of nodes."""

from __future__ import annotations

from playwright.sync_api import expect
from tests.viewer_browser.made_runs import FAILS_AT, LONG
from tests.viewer_browser.watched_page import WatchedPage

FIRST_ROWS_MS = 1000
JUMP_MS = 100
MAX_NODES = 1000
ANSWERED = "performance.getEntriesByType('resource').find((entry) => entry.name.endsWith('/rows')).responseStart"
JUMPS = """async (seqs) => {
    const times = [];
    for (const seq of seqs) {
        const begin = performance.now();
        location.hash = `#/run/long/${seq}`;
        while (document.querySelector('.row[aria-selected=true] .row-seq')?.textContent !== String(seq)) {
            await new Promise(requestAnimationFrame);
        }
        times.push(performance.now() - begin);
    }
    return times.sort((a, b) => a - b);
}"""


def test_the_first_rows_of_a_long_run_are_there_at_once(page: WatchedPage) -> None:
    page.tab.add_init_script(
        """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
            if (!window.firstRowAt && document.querySelector(".row")) window.firstRowAt = performance.now();
        }).observe(document.body, {childList: true, subtree: true}));"""
    )
    page.open("#/run/long/5")
    expect(page.find(".filter-status")).to_have_text(f"{LONG:,} events", timeout=60_000)

    assert page.tab.evaluate("window.firstRowAt") - page.tab.evaluate(ANSWERED) <= FIRST_ROWS_MS
    assert page.find("*").count() < MAX_NODES


def test_a_long_run_opens_at_its_failure_and_jumps_are_fast(page: WatchedPage) -> None:
    page.open("#/run/long")
    expect(page.find(".filter-status")).to_have_text(f"{LONG:,} events", timeout=60_000)
    expect(page.selected.locator(".row-seq")).to_have_text(str(FAILS_AT))

    times = page.tab.evaluate(JUMPS, [99_999, 3, 50_000, 50_001, 12_345, 98_765, 1, 77_777, 30_000, 60_000])

    assert times[len(times) // 2] <= JUMP_MS, times
    assert page.find("*").count() < MAX_NODES


def test_filters_and_failures_work_in_a_long_run(page: WatchedPage) -> None:
    page.open("#/run/long/0")
    expect(page.find(".filter-status")).to_have_text(f"{LONG:,} events", timeout=60_000)

    page.press("n")
    expect(page.selected.locator(".row-seq")).to_have_text(str(FAILS_AT))
    page.find("input[type=search]").fill("tool_6(id=99,")
    expect(page.find(".filter-status")).to_contain_text("of 100,000")
    page.find("input[type=search]").fill("id=4242)")
    expect(page.find(".row").first).to_contain_text("4242")
