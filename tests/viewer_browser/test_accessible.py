"""axe-core finds no serious problem, in both themes and on narrow and wide screens; nothing needs a mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from tests.viewer_browser.project import BILLING, FINANCE, ROOT, ViewedProject
from tests.viewer_browser.watched_page import WatchedPage

AXE = ROOT / ".node" / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = (
    "#/",
    f"#/run/{BILLING}",
    f"#/run/{FINANCE}/5",
    "#/run/weather/12",
    "#/run/values/0?path=%24.result.total",
    "#/compare/prompt-a/prompt-b",
)


def problems(browser: Browser, url: str, scheme: Any, width: int) -> list[str]:
    """Return the serious problems of a page, in a context that lets axe in."""
    context = browser.new_context(bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900})
    tab = context.new_page()
    tab.goto(url)
    expect(tab.locator("main > *").first).to_be_visible()
    tab.wait_for_load_state("networkidle")
    tab.add_script_tag(path=AXE)
    found = tab.evaluate("axe.run({resultTypes: ['violations']}).then((result) => result.violations)")
    context.close()
    return [
        f"{item['id']}: {node['html'][:200]} {node['failureSummary']}"
        for item in found
        if item["impact"] in ("serious", "critical")
        for node in item["nodes"][:3]
    ]


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_no_serious_problem(browser: Browser, project: ViewedProject, scheme: str, width: int) -> None:
    replay = f"#/replay/{project.evidence('reproduced')}"
    for route in (*VIEWS, replay) if scheme == "light" else VIEWS[1::2]:
        assert problems(browser, f"{project.url}{route}", scheme, width) == [], route


@pytest.mark.parametrize("width", [320, 820, 3840])
def test_nothing_is_wider_than_the_window(browser: Browser, project: ViewedProject, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    tab = context.new_page()
    for route in VIEWS:
        tab.goto(f"{project.url}{route}")
        expect(tab.locator("main > *").first).to_be_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, route
    context.close()


def test_on_a_narrow_screen_an_event_opens_over_the_list(browser: Browser, project: ViewedProject) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740})
    tab = context.new_page()
    tab.goto(f"{project.url}#/run/{BILLING}")
    expect(tab.locator(".row").first).to_be_visible()

    tab.locator(".row").nth(2).click()
    expect(tab.locator(".event-head")).to_be_visible()
    expect(tab.locator(".list")).not_to_be_visible()
    tab.get_by_role("button", name="← Events").click()
    expect(tab.locator(".list")).to_be_visible()
    context.close()


def test_tab_reaches_everything_and_focus_can_be_seen(page: WatchedPage) -> None:
    page.open(f"#/run/{BILLING}")
    expect(page.title).to_be_visible()
    reached: set[str] = set()

    for _ in range(30):
        page.press("Tab")
        reached.add(
            str(
                page.tab.evaluate(
                    "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
                )
            )
        )
        width = page.tab.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert width != "0px" or page.tab.evaluate("document.activeElement === document.body")

    assert {"Search this run", "Errors", "Events", "Theme", "Go to #6", "Copy link"} <= reached


def test_the_page_names_no_other_host_and_parses_no_markup() -> None:
    static = Path(ROOT, "src/replaykit/viewer/static")
    for file in static.iterdir():
        text = file.read_text(encoding="utf-8")
        assert "innerHTML" not in text
        assert "://" not in text, file.name
