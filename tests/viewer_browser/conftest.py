"""The page in a real browser. Collected where playwright is installed: `make test-viewer` sets that up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from tests.viewer_browser.project import ViewedProject
    from tests.viewer_browser.watched_page import WatchedPage

collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("REPLAYKIT_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        if os.environ.get("REPLAYKIT_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium on PATH, and REPLAYKIT_REQUIRE_BROWSER is 1")
        pytest.skip("no Chromium on PATH: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewedProject]:
    """A project with runs of all sorts, and `replaykit view` of it."""
    from tests.viewer_browser.project import viewed_project

    with viewed_project(tmp_path_factory.mktemp("project")) as project:
        yield project


@pytest.fixture
def page(browser: Browser, project: ViewedProject) -> Iterator[WatchedPage]:
    """A page of the project's viewer. Afterwards: no dialog, no error, and no request to anyone else."""
    from tests.viewer_browser.watched_page import watched_page

    with watched_page(browser, project.url) as page:
        yield page


@pytest.fixture(scope="session")
def shared_files(project: ViewedProject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for shared files."""
    return tmp_path_factory.mktemp("shared")
