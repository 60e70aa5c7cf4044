/** The page: its bar, and the view that the address names. */

import { button, el, fill } from "./dom.js";
import { CompareView } from "./compare_view.js";
import { fileSource, isSharedFile } from "./file_source.js";
import { HomeView } from "./home_view.js";
import { listenToKeys, showHelp } from "./keys.js";
import { addressOf, readRoute } from "./routes.js";
import { RunView } from "./run_view.js";
import { runPath, serverSource } from "./source.js";
import { SuiteView } from "./suite_view.js";
import { toggleTheme } from "./theme.js";
import { addDivergence, whyCase, whyReplay, whyRun } from "./why_view.js";

class Page {
  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    /** @type {View | null} */
    this.view = null;
    this.visit = 0;
    this.place = el("span", { class: "place" });
    this.main = el("main", { id: "main" });
    document.body.append(
      el("header", { class: "bar" },
        el("a", { href: "#/", class: "brand" }, "ReplayKit"), this.place,
        button("Theme", toggleTheme, { class: "small quiet" }),
        button("Keys ?", showHelp, { class: "small quiet" })),
      this.main,
      el("div", { id: "announcements", class: "visually-hidden", "aria-live": "polite", role: "status" }));
    const keys = { "?": showHelp, t: toggleTheme, h: () => { location.hash = "#/"; } };
    listenToKeys(() => ({ ...keys, ...this.view?.keys }));
    addEventListener("hashchange", () => this.show());
  }

  async start() {
    if (!location.hash) {
      const home = /** @type {Home} */ (await this.source.get("home"));
      if (home.opens) {
        location.replace(home.opens);
        return;
      }
    }
    await this.show();
  }

  async show() {
    const route = readRoute(location.hash);
    if (this.view?.go?.(route)) {
      return;
    }
    const visit = ++this.visit;
    try {
      const view = await this.viewOf(route);
      if (visit === this.visit) {
        this.enter(view, route);
      }
    } catch (problem) {
      if (visit === this.visit) {
        this.enter(problemView(String(problem)), route);
      }
    }
  }

  /** @param {View} view @param {Route} route */
  enter(view, route) {
    this.view?.close?.();
    this.view = view;
    document.title = `${view.title.slice(0, 80)} – ReplayKit`;
    fill(this.place, view.title.slice(0, 120));
    fill(this.main, view.element);
    if (view instanceof RunView) {
      [view.seq, view.path] = [route.seq, route.path];
      view.load();
    }
  }

  /** @param {Route} route @returns {Promise<View>} */
  async viewOf(route) {
    const [name = "", other = ""] = route.names;
    if (route.view === "compare") {
      return new CompareView(await this.source.get(`compare/${encodeURIComponent(name)}/${encodeURIComponent(other)}`));
    }
    if (route.view === "replay") {
      return this.replayView(await this.source.get(`replay/${encodeURIComponent(name)}`), addressOf(route));
    }
    if (route.view === "case") {
      return this.caseView(await this.source.get(`case/${encodeURIComponent(name)}`), addressOf(route));
    }
    if (route.view === "suite") {
      return new SuiteView(this.source, await this.source.get(`suite/${encodeURIComponent(name)}`), route);
    }
    if (route.view === "run") {
      return new RunView(this.source, name, await this.source.get(runPath(name)), { why: whyRun });
    }
    const home = /** @type {Home} */ (await this.source.get("home"));
    if (home.opens && isSharedFile()) {
      location.replace(home.opens); // a shared file has no list
    }
    return new HomeView(this.source, home);
  }

  /** @param {ReplayPage} replay @param {string} address @returns {Promise<View>} */
  async replayView(replay, address) {
    const title = `${replay.result.case_id}: replay`;
    if (!replay.run) {
      const jumps = { toEvent: () => {}, toCall: () => {} };
      return { element: el("div", { class: "run" }, whyReplay(replay, jumps)), title };
    }
    const red = [...replay.result.desired.filter((finding) => !finding.holds),
      ...replay.result.observed.filter((finding) => finding.holds)];
    const places = red.map((finding) => finding.seq).filter((seq) => typeof seq === "number");
    const run = /** @type {RunPage} */ (await this.source.get(runPath(replay.run)));
    const details = el("div", null);
    if (replay.result.verdict === "diverged" && replay.recorded) {
      addDivergence(details, replay, this.source);
    }
    const why = (/** @type {RunPage} */ _page, /** @type {import("./why_view.js").Jumps} */ jumps) => {
      const box = whyReplay(replay, jumps);
      box.querySelector(".why-line")?.after(details);
      return box;
    };
    return new RunView(this.source, address, run, { title, pinned: new Set(places), opensAt: places[0], why });
  }

  /** @param {CasePage} page @param {string} address @returns {Promise<View>} */
  async caseView(page, address) {
    const run = /** @type {RunPage} */ (await this.source.get(runPath(address)));
    const places = (page.observed ?? []).map((finding) => finding.seq).filter((seq) => typeof seq === "number");
    return new RunView(this.source, address, run, {
      title: page.name, pinned: new Set(places), opensAt: places[0], why: (_page, jumps) => whyCase(page, jumps) });
  }
}

/** @param {string} problem @returns {View} */
function problemView(problem) {
  return { title: "Problem", element: el("div", { class: "problem", role: "alert" },
    el("h1", null, "This cannot be shown"), el("p", null, problem), el("a", { href: "#/" }, "All runs")) };
}

new Page(isSharedFile() ? fileSource() : serverSource()).start();
