"""A page that notices what must not happen: dialogs, errors, requests to anyone but the viewer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, expect

expect.set_options(timeout=15_000)


class WatchedPage:
    """One tab, and what went wrong in it."""

    def __init__(self, tab: Page, url: str) -> None:
        self.tab = tab
        self.url = url
        self.problems: list[str] = []
        self.requests: list[str] = []
        tab.on("dialog", self._dialog)
        tab.on("console", self._console)
        tab.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        tab.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def open(self, route: str) -> None:
        """Open a route and wait until something is drawn."""
        self.tab.goto(f"{self.url}{route}")
        expect(self.tab.locator("main > *").first).to_be_visible()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)

    def find(self, selector: str, text: str = "") -> Locator:
        """Return the elements of a selector that hold a text."""
        return self.tab.locator(selector, has_text=text) if text else self.tab.locator(selector)

    @property
    def selected(self) -> Locator:
        """The selected event in the list."""
        return self.tab.locator(".row[aria-selected=true]")

    @property
    def title(self) -> Locator:
        """The title of the event that is shown in full."""
        return self.tab.locator(".event-head h2")

    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests if not url.startswith((self.url, "data:"))]


@contextmanager
def watched_page(browser: Browser, url: str, *, width: int = 1280, height: int = 800) -> Iterator[WatchedPage]:
    """Open a tab; whoever leaves without an error of their own gets those of the page."""
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    try:
        page = WatchedPage(context.new_page(), url)
        yield page
        assert page.problems == []
        assert page.foreign_requests() == []
    finally:
        context.close()
