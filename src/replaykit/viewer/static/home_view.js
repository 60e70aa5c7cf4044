/** What there is to see: runs, cases and replays of a project. */

import { announce, append, button, el, fill } from "./dom.js";
import { counted, duration, moment, tone } from "./format.js";
import { numberOf } from "./exact_json.js";
import { compareRoute, runRoute, suiteRoute } from "./routes.js";

const STATUSES = ["error", "success", "running", "timeout", "cancelled"];
const SEARCH_DELAY_MS = 200;

/** @implements {View} */
export class HomeView {
  /** @param {Source} source @param {Home} home */
  constructor(source, home) {
    this.source = source;
    this.home = home;
    this.title = home.project;
    this.aborter = new AbortController();
    this.timer = 0;
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.input = el("input", { type: "search", placeholder: "Search runs", "aria-label": "Search runs",
      input: () => this.searchSoon() });
    this.status = el("select", { "aria-label": "Status", change: () => this.search() },
      el("option", { value: "" }, "any status"), ...STATUSES.map((status) => el("option", { value: status }, status)));
    this.compare = el("a", { class: "button", href: "#/", hidden: true }, "Compare the two");
    this.runs = el("ul", { class: "run-list", "aria-label": "Runs" });
    this.more = button("Show older runs", () => this.showOlder(), { class: "link" });
    this.element = el("div", { class: "home" },
      el("section", { class: "home-runs" }, el("div", { class: "home-bar" },
        el("h1", null, "Runs"), this.input, this.status, this.compare), this.runs, this.more),
      el("div", { class: "home-side" }, this.suiteList(), this.replayList(), this.caseList()));
    this.keys = { "/": () => this.input.focus(), j: () => this.moveFocus(1), k: () => this.moveFocus(-1) };
    this.draw(home);
  }

  close() {
    this.aborter.abort();
    clearTimeout(this.timer);
  }

  /** @param {Home} home */
  draw(home) {
    fill(this.runs);
    append(this.runs, home.runs.map((run) => this.runItem(run)));
    if (!home.runs.length) {
      append(this.runs, [el("li", { class: "dim empty" }, "No runs")]);
    }
    this.home = home;
    this.more.hidden = !home.has_more;
  }

  /** @param {ListedRun} run */
  runItem(run) {
    const pick = el("input", { type: "checkbox", "aria-label": `Choose ${run.id} for a comparison`,
      change: () => this.choose(run.id, pick.checked) });
    pick.checked = this.chosen.has(run.id);
    return el("li", { class: "run-item" }, pick,
      el("a", { href: runRoute(run.id), class: "run-link" },
        el("span", { class: "run-name" }, (run.name || run.id).slice(0, 200)),
        el("span", { class: `badge ${tone(run.status ?? "")}` }, run.status),
        el("span", { class: "run-line data dim" }, (run.line ?? "").slice(0, 400)),
        el("span", { class: "run-facts dim" },
          [run.forked_from && `fork${run.step ? ` at ${run.step}` : ""}`,
            typeof run.events === "number" && counted(run.events, "event"), duration(run.duration_s),
            moment(run.started_at)].filter(Boolean).join(" · "))));
  }

  /** @param {string} id @param {boolean} isChosen */
  choose(id, isChosen) {
    if (isChosen) {
      this.chosen.add(id);
    } else {
      this.chosen.delete(id);
    }
    const [a, b] = [...this.chosen].sort();
    this.compare.hidden = this.chosen.size !== 2;
    if (b) {
      this.compare.setAttribute("href", compareRoute(a, b));
    }
  }

  searchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), SEARCH_DELAY_MS);
  }

  /** @param {string} [before] */
  query(before = "") {
    const parameters = new URLSearchParams({ q: this.input.value, status: this.status.value, before });
    return `home?${parameters}`;
  }

  async search() {
    this.aborter.abort();
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    try {
      const home = /** @type {Home} */ (await this.source.get(this.query(), signal));
      this.draw(home);
      announce(`${counted(home.runs.length, "run")}${home.has_more ? " and more" : ""}`);
    } catch (problem) {
      if (!signal.aborted) {
        fill(this.runs, el("li", { class: "bad-text" }, String(problem)));
      }
    }
  }

  async showOlder() {
    const home = /** @type {Home} */ (await this.source.get(this.query(this.home.runs.at(-1)?.id), this.aborter.signal));
    append(this.runs, home.runs.map((run) => this.runItem(run)));
    this.home = { ...home, runs: [...this.home.runs, ...home.runs] };
    this.more.hidden = !home.has_more;
  }

  /** @param {number} step */
  moveFocus(step) {
    const links = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll(".run-link, .side-link")]);
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
  }

  suiteList() {
    const items = this.home.suites.map((suite) =>
      el("li", null, el("a", { href: suiteRoute(suite.name), class: "side-link" },
        el("span", { class: "run-name" }, moment(numberOf(suite.started_at)) || suite.name),
        el("span", { class: "run-facts dim" }, counted(suite.items, "item")),
        el("span", { class: "dim run-line data" }, suite.agent.slice(0, 200)))));
    return items.length ? el("section", null, el("h2", null, "Results of ci"), el("ul", { class: "side-list" }, ...items)) : null;
  }

  replayList() {
    const items = this.home.replays.map((replay) =>
      el("li", null, el("a", { href: runRoute(`replay:${replay.name}`), class: "side-link" },
        el("span", { class: "run-name" }, replay.case_id.slice(0, 200)),
        el("span", { class: `badge ${tone(replay.verdict)}` }, replay.verdict),
        el("span", { class: "data dim run-line" }, [replay.candidate, replay.reason].filter(Boolean).join(": ").slice(0, 300)))));
    return el("section", null, el("h2", null, "Replays"),
      items.length ? el("ul", { class: "side-list" }, ...items) : el("p", { class: "dim" }, "No replay has left evidence yet"));
  }

  caseList() {
    const items = this.home.cases.map((item) =>
      el("li", null, el("a", { href: runRoute(`case:${item.name}`), class: "side-link" },
        el("span", { class: "run-name" }, item.name.slice(0, 200)),
        el("span", { class: "dim run-line" }, item.title.slice(0, 300)))));
    return el("section", null, el("h2", null, "Cases"),
      items.length ? el("ul", { class: "side-list" }, ...items) : el("p", { class: "dim" }, "No cases"));
  }
}
