"""A suite in the browser: its items, their history, causes, contracts in their scenarios, and the runs of failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.trials.test_ci_history import item
from tests.trials.test_shards import header, written
from tests.viewer_browser.hostile import PAYLOADS
from tests.viewer_browser.made_runs import STARTED, run_of
from tests.viewer_browser.project import replaykit, viewer
from tests.viewer_browser.test_accessible import AXE, problems
from tests.viewer_browser.test_scale import FIRST_ROWS_MS, JUMP_MS
from tests.viewer_browser.watched_page import WatchedPage, watched_page

from replaykit.model.events import AnyEvent, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import raw
from replaykit.store.sqlite import SQLiteStore
from replaykit.trials.ci_records import CiRecord, Tally, place_of
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName

ITEMS = 20_000
ANSWERED = "performance.getEntriesByType('resource').find((entry) => entry.name.includes('/api/suite/')).responseStart"
FIRST_ROW = """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
    if (!window.firstRowAt && document.querySelector(".row")) window.firstRowAt = performance.now();
}).observe(document.body, {childList: true, subtree: true}));"""
WATCH_CANVAS = """
    window.drawn = new Set();
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        drawn.add(text);
        draw.call(this, text, ...place);
    };
"""
AGENT = """
import replaykit as rk

@rk.tool
def lookup(order):
    return {"status": "shipped"}

def answer(question):
    return f"It was {lookup(order=7)['status']}."
"""
CAREFUL = (
    AGENT.replace("    return f", "    try:\n        return f")
    + '    except rk.ToolError:\n        return "Unavailable."\n'
)
FAULTY = {"name": "faulty", "tool_faults": [{"tool": "lookup", "mode": "error", "error_code": 503}]}
POLITE = {"id": "answers", "type": "output_not_empty"}
DELIVERS = {"id": "delivered", "type": "contains", "value": "delivered"}
SHIPPED = [{"tool": "lookup", "response": {"status": "shipped"}, "status": 200}]
CONFIG = {
    "replaykit": 1,
    "agent": {"type": "python", "endpoint": "agent:answer", "timeout": 20000},
    "inputs": ["Where is it?"],
    "contracts": {
        "polite": {"invariants": [POLITE], "chaos_matrix": [{"name": "calm"}, FAULTY]},
        "delivers": {"invariants": [DELIVERS], "chaos_matrix": [{"name": "calm"}, FAULTY]},
    },
    "replays": {
        "sessions": [{"id": "incident", "input": "Where is it?", "contract": "polite", "tool_responses": SHIPPED}]
    },
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose suite was run with a careful agent, and then with a careless one."""
    directory = tmp_path_factory.mktemp("suite")
    (directory / "replaykit.yaml").write_text(json.dumps(CONFIG))
    for code in (CAREFUL, AGENT):
        (directory / "agent.py").write_text(code)
        done = replaykit(directory, "ci", "--html", "ci.html")
        assert done.returncode == 1, done.stderr
    with SQLiteStore.open(directory / ".replaykit" / "store.db") as store:
        store.add(faulty_run())
    return directory


def faulty_run() -> TraceRun:
    """A run with a fault, and later two close together."""
    events: list[AnyEvent] = []
    for seq in range(40):
        faults = ("tool.error",) if seq in (2, 30, 31) else ()
        events.append(ToolCall(seq=seq, at=STARTED + seq, duration_s=0.7, name="lookup", faults=faults))
    return run_of("faulty", events)


@pytest.fixture(scope="module")
def url(directory: Path) -> Iterator[str]:
    with viewer(directory) as url:
        yield url


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[WatchedPage]:
    with watched_page(browser, url) as page:
        page.open("")
        page.find(".side-link", "agent:answer").first.click()
        expect(page.find(".row").first).to_be_visible()
        yield page


def statuses(page: WatchedPage) -> str:
    return page.find(".filter-status").inner_text()


def test_the_command_opens_the_newest_suite(browser: Browser, directory: Path) -> None:
    with viewer(directory, "ci") as url, watched_page(browser, url) as page:
        page.tab.goto(url)
        expect(page.find("h1")).to_contain_text("2 passed, 3 failed")


def test_items_are_filtered_by_outcome_part_history_and_text(page: WatchedPage) -> None:
    expect(page.find(".filter-status")).to_have_text("5 items")
    for chip, count in (("failed", "3 of 5"), ("replay", "0 of 5"), ("failed", "1 of 5"), ("replay", "5 items")):
        page.tab.get_by_role("button", name=chip, exact=True).click()
        expect(page.find(".filter-status")).to_have_text(count)

    page.press("/")
    page.tab.keyboard.type("delivers")
    expect(page.find(".filter-status")).to_have_text("2 of 5")
    page.press("Enter", "Escape")
    expect(page.find(".filter-status")).to_have_text("5 items")


def test_an_item_shows_since_when_it_fails(page: WatchedPage) -> None:
    row = page.find(".row", "polite / faulty")
    expect(row.locator(".mark.bad").last).to_have_text("fails now")
    expect(row.locator(".spark .visually-hidden")).to_have_text("2 runs: 1 passed, 1 failed")
    expect(page.find(".row", "delivers / calm").locator(".mark.bad").last).to_have_text("failing")

    page.tab.get_by_role("button", name="failing", exact=True).click()
    expect(page.find(".filter-status")).to_have_text("3 of 5")


def test_causes_and_cells_of_the_matrix_select_their_items(page: WatchedPage) -> None:
    expect(page.find(".causes li")).to_have_count(3)
    page.find(".causes button").first.click()
    expect(page.find(".filter-status")).to_have_text("1 of 5")
    page.tab.get_by_role("button", name="Show more than one cause").click()

    page.press("o")
    page.find(".matrix .cell.good").first.click()
    expect(page.find(".filter-status")).to_have_text("1 of 5")
    expect(page.title).to_contain_text("polite / calm")


def test_the_timeline_names_injected_faults(page: WatchedPage) -> None:
    page.tab.add_init_script(WATCH_CANVAS)
    page.tab.reload()
    page.open("#/run/faulty")
    expect(page.find(".timeline")).to_be_visible()

    page.tab.wait_for_function("drawn.has('fault') && drawn.has('2 faults')")


def test_an_item_leads_to_its_run(page: WatchedPage) -> None:
    page.find(".row", "polite / faulty").click()
    expect(page.find(".section", "Injected faults")).to_contain_text("tool.error in lookup")

    page.press("Enter")

    expect(page.find(".why")).to_contain_text("answers")
    expect(page.find(".row .mark", "fault")).to_be_visible()


def test_n_and_p_go_from_failure_to_failure_and_a_link_leads_to_an_item(page: WatchedPage) -> None:
    selected = page.selected.locator(".row-title")
    titles = ["nothing"]
    for _ in range(3):
        page.press("n")
        expect(selected).not_to_have_text(titles[-1])
        titles.append(selected.inner_text())
    page.press("p")

    expect(selected).to_have_text(titles[2])
    expect(page.title).to_contain_text(titles[2].partition(" ")[2])
    link = page.tab.url
    page.tab.goto("about:blank")
    page.tab.goto(link)
    expect(page.title).to_contain_text(titles[2].partition(" ")[2])


def test_the_file_of_ci_opens_from_disk_with_the_runs_of_its_failures(browser: Browser, directory: Path) -> None:
    file = directory / "ci.html"
    with watched_page(browser, file.as_uri()) as page:
        page.tab.context.set_offline(True)
        page.open("")
        expect(page.find(".filter-status")).to_have_text("5 items")
        page.find(".row", "polite / faulty").click()
        page.tab.get_by_role("link", name="Open its run").click()
        expect(page.find(".row", "lookup").first).to_be_visible()
        assert set(page.requests) - {file.as_uri(), "data:,"} == set()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_axe_finds_no_serious_problem(browser: Browser, directory: Path, url: str, scheme: str, width: int) -> None:
    name = max(file.stem for file in (directory / ".replaykit/ci").iterdir())
    for route in (f"#/suite/{name}", f"#/suite/{name}/1"):
        assert problems(browser, f"{url}{route}", scheme, width) == [], route


def shown(directory: Path, items: list[CiItem]) -> None:
    """Write results with these items."""
    records = []
    for number, one in enumerate(items):
        records.append(CiRecord(place=place_of(CiPartName.REPLAY, number), item=one, tally=Tally()))
    written(directory / ".replaykit/ci/20260101-000000.jsonl", header(), records)


def test_a_large_suite_opens_in_time_and_jumps_at_once(browser: Browser, tmp_path: Path) -> None:
    outcomes = [CiOutcome.FAILED if number % 100 == 0 else CiOutcome.PASSED for number in range(ITEMS)]
    shown(tmp_path, [item(f"case-{number}", outcome, verdict="x") for number, outcome in enumerate(outcomes)])

    with viewer(tmp_path) as url, watched_page(browser, url) as page:
        page.tab.add_init_script(FIRST_ROW)
        page.open("#/suite/20260101-000000")
        expect(page.find(".filter-status")).to_have_text("20,000 items")
        assert page.tab.evaluate("window.firstRowAt") - page.tab.evaluate(ANSWERED) <= FIRST_ROWS_MS
        assert jump_ms(page.tab, "G") <= JUMP_MS
        assert jump_ms(page.tab, "g") <= JUMP_MS
        assert page.find(".row").count() < 100
        page.find("input[type=search]").fill("case-19999")
        expect(page.find(".row")).to_have_count(1)


def jump_ms(tab: Page, key: str) -> float:
    """Press a key; return how long the page takes to draw what it leads to."""
    return float(
        tab.evaluate(
            """key => new Promise((resume) => {
                const began = performance.now();
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                const wait = () => document.querySelector(".row[aria-selected=true]")
                    ? resume(performance.now() - began) : requestAnimationFrame(wait);
                requestAnimationFrame(wait);
            })""",
            key,
        )
    )


def test_hostile_items_are_only_text(browser: Browser, tmp_path: Path) -> None:
    items = []
    for text in map(str, PAYLOADS):
        items.append(
            item(
                text,
                CiOutcome.FAILED,
                verdict=text,
                reason=text,
                error=text,
                contract=text,
                scenario=text,
                output_json=raw(text),
            )
        )
    shown(tmp_path, items)

    with viewer(tmp_path) as url, watched_page(browser, url, width=360) as page:
        page.open("#/suite/20260101-000000")
        for index in range(0, len(items), 7):
            page.tab.goto(f"{url}#/suite/20260101-000000/{index}")
            expect(page.title).to_be_visible()
            assert page.tab.evaluate("document.documentElement.scrollWidth") <= 360
