"""A shared file opens from disk, shows the same, and makes no request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.viewer_browser.made_runs import FAILS_AT, LONG
from tests.viewer_browser.project import BILLING, ViewedProject
from tests.viewer_browser.watched_page import WatchedPage, watched_page

OPENS_MS = 10_000


@contextmanager
def shared(browser: Browser, project: ViewedProject, directory: Path, *targets: str) -> Iterator[WatchedPage]:
    """Write a shared file, open it with the network cut, and expect no request but for the file itself."""
    file = directory / f"{'-'.join(Path(target).name for target in targets)}.html"
    done = project.run("view", *targets, "--share", str(file), REPLAYKIT_REDACT="off")
    assert done.returncode == 0, done.stderr
    with watched_page(browser, file.as_uri()) as page:
        page.tab.context.set_offline(True)
        page.open("")
        yield page
        assert set(page.requests) - {file.as_uri(), "data:,"} == set()


def test_a_shared_run_opens_at_its_failure_and_can_be_searched(
    browser: Browser, project: ViewedProject, shared_files: Path
) -> None:
    with shared(browser, project, shared_files, BILLING) as page:
        expect(page.title).to_contain_text("Max tool call limit exceeded")
        page.find("input[type=search]").fill("usr_8821")
        expect(page.find(".filter-status")).to_have_text("5 of 7")
        page.press("Enter")
        page.find("button.value", "usr_8821").click()
        expect(page.find(".trace")).to_contain_text("Flowed into")


def test_a_shared_replay_shows_why_it_is_red(browser: Browser, project: ViewedProject, shared_files: Path) -> None:
    evidence = f".replaykit/runs/{project.evidence('reproduced')}"
    with shared(browser, project, shared_files, evidence) as page:
        expect(page.find(".why")).to_contain_text("at most 3 tool calls")
        expect(page.find(".row").first).to_contain_text("lookup_billing")


def test_a_shared_comparison_shows_the_divergence(browser: Browser, project: ViewedProject, shared_files: Path) -> None:
    with shared(browser, project, shared_files, "prompt-a", "prompt-b") as page:
        expect(page.find(".why del")).to_have_text("politely")


def test_states_are_in_a_shared_file(browser: Browser, project: ViewedProject, shared_files: Path) -> None:
    with shared(browser, project, shared_files, "weather") as page:
        expect(page.find(".row").first).to_be_visible()
        page.find(".row").nth(12).click()
        expect(page.find(".state .difference")).to_contain_text("$.tries")


def test_a_shared_file_of_hostile_payloads_is_harmless(
    browser: Browser, project: ViewedProject, shared_files: Path
) -> None:
    with shared(browser, project, shared_files, "hostile") as page:
        expect(page.find(".row").first).to_be_visible()
        page.press("g", "j", "j", "j")
        expect(page.title).to_be_visible()


def test_a_long_shared_file_opens_in_time(browser: Browser, project: ViewedProject, shared_files: Path) -> None:
    with shared(browser, project, shared_files, "long") as page:
        expect(page.selected.locator(".row-seq")).to_have_text(str(FAILS_AT))
        expect(page.title).to_contain_text(f"id={FAILS_AT}")
        assert page.tab.evaluate("performance.now()") <= OPENS_MS
        expect(page.find(".filter-status")).to_have_text(f"{LONG:,} events")
