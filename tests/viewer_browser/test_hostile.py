"""Recorded text never becomes markup, loads nothing, hides nothing and breaks no layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.viewer.serving import documents_of, served
from tests.viewer_browser.hostile import PAYLOADS
from tests.viewer_browser.made_runs import STARTED, run_of
from tests.viewer_browser.project import ViewedProject
from tests.viewer_browser.watched_page import WatchedPage, watched_page

from replaykit.cli.view import _opening_file
from replaykit.model.events import ToolCall
from replaykit.model.values import Raw
from replaykit.store.sqlite import SQLiteStore

EVENTS = 3 * len(PAYLOADS)
FORBIDDEN = (
    "script:not([src]), iframe, object, embed, img, svg, style, base, form, video, audio, marquee, math, template"
)


def is_broken(page: WatchedPage) -> str:
    """Return what hostile text did to the page; empty if nothing."""
    return str(
        page.tab.evaluate(
            """selector => {
                const root = document.documentElement;
                const foreign = document.body.querySelector(selector);
                if (foreign) return "an element: " + foreign.outerHTML;
                if (root.scrollWidth > innerWidth) return "wider than the window: " + root.scrollWidth;
                if (document.querySelector("[onerror], [onload], [onclick]")) return "a handler";
                if (({}).polluted) return "a polluted prototype";
                for (const link of document.querySelectorAll("a")) {
                    if (!link.getAttribute("href").startsWith("#")) return "a link: " + link.outerHTML;
                }
                for (const part of document.querySelectorAll(".run-head, .detail-pane, .list")) {
                    const box = part.getBoundingClientRect();
                    if (box.width && box.right > innerWidth + 1) return "out of the window: " + part.className;
                }
                return "";
            }""",
            FORBIDDEN,
        )
    )


def test_there_are_enough_payloads() -> None:
    assert len(PAYLOADS) >= 50


@pytest.mark.parametrize(("width", "step"), [(360, 3), (1280, 1)])
def test_no_payload_runs_loads_or_breaks_anything(
    browser: Browser, project: ViewedProject, width: int, step: int
) -> None:
    with watched_page(browser, project.url, width=width) as page:
        page.open("#/run/hostile/0")
        expect(page.find(".event-head")).to_be_visible()
        for seq in range(0, EVENTS, step):
            page.tab.evaluate("seq => { location.hash = `#/run/hostile/${seq}` }", seq)
            expect(page.find(".event-kicker")).to_contain_text(f"#{seq}")
            assert is_broken(page) == "", f"event {seq}: {PAYLOADS[seq // 3]!r:.100}"


def test_hostile_runs_are_harmless_in_lists_and_comparisons(page: WatchedPage) -> None:
    for route in ("#/", "#/run/hostile", "#/compare/hostile/prompt-a"):
        page.open(route)
        expect(page.find("main > *").first).to_be_visible()
        assert is_broken(page) == ""


def test_hidden_characters_are_spelled_out(page: WatchedPage) -> None:
    seq = 3 * next(i for i, payload in enumerate(PAYLOADS) if str(payload).startswith("\u202e"))
    page.open(f"#/run/hostile/{seq}")

    expect(page.title).to_contain_text("\\u202e")
    text = page.find("body").inner_text()
    assert not {"\u202e", "\u2066", "\u200b", "\u0007"} & set(text)


def test_deep_json_opens_branch_by_branch(page: WatchedPage) -> None:
    seq = 3 * next(i for i, payload in enumerate(PAYLOADS) if isinstance(payload, dict) and "down" in payload)
    page.open(f"#/run/hostile/{seq}")
    tree = page.find(".tree").first
    expect(tree).to_be_visible()

    closed = tree.locator("details:not([open]) > summary")
    clicks = 0
    while "bottom" not in tree.inner_text():
        expect(closed.first).to_be_visible()  # a branch is drawn a moment after the click
        closed.first.click()
        clicks += 1

    assert clicks > 3
    assert is_broken(page) == ""


def test_a_giant_text_is_shown_in_portions(page: WatchedPage) -> None:
    seq = 3 * next(i for i, payload in enumerate(PAYLOADS) if payload == "A" * 1_000_000)
    page.open(f"#/run/hostile/{seq}")

    more = page.find(".tree").first.get_by_role("button", name="Show more of 1.0M characters")
    more.first.click()
    assert 50_000 < len(page.find(".tree .long-text").first.inner_text()) < 80_000


def test_a_route_that_is_hostile_itself_is_only_text(page: WatchedPage) -> None:
    page.open("#/run/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/0?path=%3Cscript%3Ealert(1)%3C%2Fscript%3E")

    expect(page.find("[role=alert]")).to_be_visible()
    assert is_broken(page) == ""
    page.problems.clear()  # the browser logs the 404


@pytest.mark.parametrize(
    ("at", "duration_s", "has_timeline"),
    [(1e17, 20.0, True), (STARTED, 1e-300, True), (STARTED, 1e308, True), (1.7e308, 1.7e308, False)],
)
def test_times_of_any_size_are_drawn_or_left_out(
    browser: Browser, tmp_path: Path, at: float, duration_s: float, has_timeline: bool
) -> None:
    call = ToolCall(seq=0, at=at, duration_s=duration_s, name="slow", arguments_json=Raw(b"{}"), result_json=Raw(b"1"))
    with SQLiteStore.open(tmp_path / "store.db") as store:
        store.add(run_of("times", [call]))
        with served(documents_of(store)) as client, watched_page(browser, client.url) as page:
            page.tab.set_default_timeout(10_000)
            page.open("#/run/times/0")
            expect(page.title).to_contain_text("slow")
            expect(page.find(".timeline")).to_be_visible(visible=has_timeline)


def test_the_private_file_leads_to_the_page(browser: Browser, tmp_path: Path) -> None:
    with SQLiteStore.open(tmp_path / "store.db") as store:
        store.add(run_of("one", []))
        with served(documents_of(store)) as client, _opening_file(f"{client.url}#/run/one") as address:
            tab = browser.new_page()
            tab.goto(address)
            expect(tab.locator("h1").first).to_contain_text("one")
            tab.close()
