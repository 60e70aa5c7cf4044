/** The results of `ci`: every item with its history, and one item or the suite as a whole beside them. */

import { announce, button, el, fill } from "./dom.js";
import { duration } from "./format.js";
import { numberOf } from "./exact_json.js";
import { outcomeTone, suiteItem } from "./suite_item.js";
import { runName, sparkline, standingMark } from "./suite_history.js";
import { runRoute, suiteRoute } from "./routes.js";
import { SuiteFilters } from "./suite_filters.js";
import { suiteOverview } from "./suite_overview.js";
import { SuiteRows } from "./suite_rows.js";
import { VirtualList } from "./virtual_list.js";

const WIDE_LIST = 780; // pixels from which a row needs one line
const FETCH_DELAY_MS = 60;

/** @implements {View} */
export class SuiteView {
  /** @param {Source} source @param {SuitePage} page @param {Route} route */
  constructor(source, page, route) {
    this.source = source;
    this.page = page;
    this.title = page.name === "ci" ? "Results of ci" : `Results of ci ${page.name}`;
    this.aborter = new AbortController();
    this.timer = 0;
    /** @type {number | null} */
    this.index = null;
    this.rows = new SuiteRows(page.items);
    this.filters = new SuiteFilters(this.rows, () => this.filterChanged(), () => this.enterSearch());
    this.list = new VirtualList({ label: "Items", rowHeight: (width) => (width >= WIDE_LIST ? 32 : 44),
      draw: (index) => this.drawRow(this.rows.shown[index]), onSelect: (index) => this.openAt(index) });
    this.detail = el("section", { class: "detail", tabindex: -1, "aria-label": "Item" });
    this.element = el("div", { class: "run suite" }, suiteHead(page), el("div", { class: "panes" },
      el("section", { class: "events", "aria-label": "Items of the suite" }, this.filters.element, this.list.element),
      el("div", { class: "detail-pane" }, button("← Items", () => this.showList(), { class: "back small" }), this.detail)));
    this.list.redraw(this.rows.shown.length);
    this.keys = {
      j: () => this.move(1), ArrowDown: () => this.move(1), k: () => this.move(-1), ArrowUp: () => this.move(-1),
      n: () => this.nextFailure(1), p: () => this.nextFailure(-1), g: () => this.openAt(0), Home: () => this.openAt(0),
      G: () => this.openAt(this.rows.shown.length - 1), End: () => this.openAt(this.rows.shown.length - 1),
      PageDown: () => this.move(10), PageUp: () => this.move(-10), "/": () => this.filters.input.focus(),
      Enter: () => this.enter(), o: () => this.open(null), Escape: () => this.filters.clear() || this.showList(),
    };
    this.go(route);
  }

  close() {
    this.aborter.abort();
    clearTimeout(this.timer);
    this.list.close();
  }

  /** @param {Route} route */
  go(route) {
    if (route.view !== "suite" || route.names[0] !== this.page.name) {
      return false;
    }
    this.select(route.seq);
    this.element.classList.toggle("shows-detail", route.seq !== null);
    return true;
  }

  /** @param {SuiteItem} item */
  drawRow(item) {
    return el("div", { class: `row suite-row${item.outcome === "failed" ? " failed" : ""}${item.reason ? "" : " brief"}` },
      el("span", { class: "row-kind" }, el("span", { class: `mark ${outcomeTone(item.outcome)}` }, item.verdict || item.outcome)),
      el("span", { class: "row-title" }, el("span", { class: "dim" }, `${item.part} `), item.id.slice(0, 300)),
      el("span", { class: "row-answer" }, item.reason),
      el("span", { class: "row-marks" }, item.faults > 0 && el("span", { class: "mark" }, "fault"), standingMark(item, this.page.runs)),
      el("span", { class: "row-figures" }, this.page.runs.length > 1 && sparkline(item.outcomes), el("span", null, duration(item.duration))));
  }

  /** Show an item by its address, so that every item has a link. @param {number | null} index */
  open(index) {
    location.replace(suiteRoute(this.page.name, index));
  }

  /** @param {number} position in the list */
  openAt(position) {
    const item = this.rows.shown[position];
    if (item) {
      this.open(item.index);
    }
  }

  /** @param {number} step */
  move(step) {
    const at = this.list.selected;
    this.openAt(at < 0 ? 0 : Math.min(Math.max(at + step, 0), this.rows.shown.length - 1));
  }

  /** @param {1 | -1} direction */
  nextFailure(direction) {
    const from = this.list.selected < 0 && direction < 0 ? this.rows.shown.length : this.list.selected;
    const position = this.rows.nextFailure(from, direction);
    if (position >= 0) {
      this.openAt(position);
    } else {
      announce(direction > 0 ? "No failure further down" : "No failure further up");
    }
  }

  /** Open the run of the item, or else read the item. */
  enter() {
    const item = this.index === null ? null : this.rows.byIndex[this.index];
    if (item?.replay) {
      location.hash = runRoute(`replay:${item.replay}`);
    } else {
      this.element.classList.add("shows-detail");
      this.detail.focus();
    }
  }

  enterSearch() {
    this.list.element.focus();
    this.openAt(Math.max(0, this.list.selected));
  }

  showList() {
    this.element.classList.remove("shows-detail");
    this.list.element.focus();
  }

  filterChanged() {
    this.list.redraw(this.rows.shown.length);
    this.selectRow();
  }

  selectRow() {
    this.list.select(this.index === null ? -1 : this.rows.shown.findIndex((item) => item.index === this.index));
  }

  /** @param {number | null} index */
  select(index) {
    this.index = index !== null && this.rows.byIndex[index] ? index : null;
    this.selectRow();
    this.aborter.abort();
    this.aborter = new AbortController();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.drawDetail(this.aborter.signal), this.detail.firstChild ? FETCH_DELAY_MS : 0);
  }

  /** @param {AbortSignal} signal */
  async drawDetail(signal) {
    if (this.index === null) {
      fill(this.detail, suiteOverview(this.page, this.rows, {
        onCause: (cause) => this.narrow({ cause, contract: "", scenario: "" }),
        onCell: (contract, scenario) => this.narrow({ cause: null, contract, scenario }),
      }));
      return;
    }
    const item = this.rows.byIndex[this.index];
    /** @type {CiItem | null} */
    const content = await this.source.get(`suite/${encodeURIComponent(this.page.name)}/item/${item.index}`, signal).catch(() => null);
    if (!signal.aborted) {
      fill(this.detail, suiteItem(item, content, this.page));
      this.detail.scrollTop = 0;
    }
  }

  /** Show only the items of a cause, or of a cell of the matrix. @param {{cause: number | null, contract: string, scenario: string}} choice */
  narrow(choice) {
    Object.assign(this.rows.filter, choice);
    this.filters.apply();
    this.openAt(0);
  }
}

/** @param {SuitePage} page */
function suiteHead(page) {
  const run = page.runs[page.runs.length - 1];
  const [word, ...rest] = page.verdict.split(": ");
  const figures = [
    ["", runName(run)], ["agent", page.agent], ["config", [page.config, page.config_from].filter(Boolean).join(" from ")],
    ["seed", String(numberOf(page.seed))], ["took", duration(numberOf(page.duration_s))],
  ].filter(([, value]) => value);
  return el("div", { class: "run-top" }, el("header", { class: "run-head" },
    el("h1", null, rest.join(": ") || page.verdict),
    el("span", { class: `badge ${page.passed ? "good" : "bad"}` }, word),
    el("div", { class: "run-figures" }, ...figures.map(([label, value]) =>
      el("span", null, label && el("span", { class: "dim" }, `${label} `), value.slice(0, 200))))));
}
