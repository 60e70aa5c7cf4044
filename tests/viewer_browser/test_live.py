"""A run that is being recorded grows on screen."""

from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import expect
from tests.viewer_browser.project import ViewedProject, environment
from tests.viewer_browser.watched_page import WatchedPage

AGENT = """
import sys
import replaykit as rk

@rk.tool
def look(page):
    return f"page {page}"

with rk.record("live", input="read") as run:
    print(run.id, flush=True)
    for line in sys.stdin:
        look(int(line))
        print("done", flush=True)
"""


def test_a_run_grows_on_screen_while_it_is_recorded(page: WatchedPage, project: ViewedProject) -> None:
    command = [sys.executable, "-c", AGENT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=project.directory, env=environment(), **pipes) as agent:  # type: ignore[call-overload]
        run = agent.stdout.readline().strip()
        for number in (1, 2):
            agent.stdin.write(f"{number}\n")
            agent.stdin.flush()
            agent.stdout.readline()
        page.open(f"#/run/{run}")
        expect(page.find(".row")).to_have_count(2)
        expect(page.find(".badge", "running")).to_be_visible()

        agent.stdin.write("3\n")
        agent.stdin.flush()
        expect(page.find(".row")).to_have_count(3)
        expect(page.find(".row").nth(2)).to_contain_text("look(page=3)")

        agent.stdin.close()
        expect(page.find(".badge", "success")).to_be_visible()
        expect(page.find(".run-figures")).to_contain_text("3 calls")
