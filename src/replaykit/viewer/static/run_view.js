/** A run: timeline, list of events, and one event in full. It opens at the failing step. */

import { announce, append, button, el, fill } from "./dom.js";
import { copyButton, eventView } from "./event_view.js";
import { drawRow } from "./row.js";
import { forkForm } from "./fork_form.js";
import { Filters } from "./filters.js";
import { AFTER_ALL, BEFORE_ALL, fullPath, Provenance } from "./provenance.js";
import { overview } from "./overview.js";
import { addressOf, runRoute } from "./routes.js";
import { runHead, runName } from "./run_head.js";
import { CALL_KINDS, readRow, RunRows } from "./run_rows.js";
import { runPath } from "./source.js";
import { stateView } from "./state_view.js";
import { Timeline } from "./timeline.js";
import { valueAt } from "./value_path.js";
import { VirtualList } from "./virtual_list.js";

const WIDE_LIST = 780; // pixels from which a row needs one line
const FETCH_DELAY_MS = 60;

/** @implements {View} */
export class RunView {
  /**
   * @param {Source} source
   * @param {string} address
   * @param {RunPage} page
   * @param {{title?: string, pinned?: Set<number>, opensAt?: number | null,
   *   why?: (page: RunPage, jumps: import("./why_view.js").Jumps) => Node | null}} options
   */
  constructor(source, address, page, options) {
    this.source = source;
    this.address = address;
    this.page = page;
    this.options = options;
    this.title = options.title || runName(page);
    this.aborter = new AbortController();
    this.eventAborter = new AbortController();
    /** @type {number | null} */
    this.seq = null;
    this.path = "";
    this.hasMoved = false;
    this.timer = 0;
    this.rows = new RunRows();
    this.head = el("div", { class: "run-top" });
    this.timeline = new Timeline((seq) => this.open(seq));
    this.filters = new Filters({ source, address, rows: this.rows, onChange: () => this.filterChanged(),
      onEnter: () => this.enterSearch() });
    this.list = new VirtualList({ label: "Events", rowHeight: (width) => (width >= WIDE_LIST ? 32 : 44),
      draw: (index) => this.drawRow(index), onSelect: (index) => this.openIndex(index) });
    this.detail = el("section", { class: "detail", tabindex: -1, "aria-label": "Event" });
    this.provenance = new Provenance({ source, address, onClose: () => this.closeTrace() });
    this.panes = el("div", { class: "panes" },
      el("section", { class: "events", "aria-label": "Events of the run" }, this.filters.element, this.list.element),
      el("div", { class: "detail-pane" },
        button("← Events", () => this.showList(), { class: "back small" }), this.detail, this.provenance.element));
    this.element = el("div", { class: "run" }, this.head, this.timeline.element, this.panes);
    this.drawHead();
    this.keys = {
      j: () => this.move(1), ArrowDown: () => this.move(1), k: () => this.move(-1), ArrowUp: () => this.move(-1),
      n: () => this.nextFailure(1), p: () => this.nextFailure(-1),
      g: () => this.openIndex(0), Home: () => this.openIndex(0),
      G: () => this.openIndex(this.rows.shown.length - 1), End: () => this.openIndex(this.rows.shown.length - 1),
      PageDown: () => this.move(10), PageUp: () => this.move(-10),
      "/": () => this.filters.input.focus(), Enter: () => this.enterDetail(), o: () => this.open(null),
      f: () => this.traceSelection(), Escape: () => this.escape(),
    };
  }

  close() {
    this.aborter.abort();
    this.eventAborter.abort();
    clearTimeout(this.timer);
    this.filters.close();
    this.timeline.close();
    this.list.close();
  }

  /** Read the rows, and show the first ones at once. */
  async load() {
    try {
      await this.source.rows(this.address, (batch) => this.addBatch(batch), this.aborter.signal);
    } catch (problem) {
      if (!this.aborter.signal.aborted) {
        this.showProblem(String(problem));
      }
    }
  }

  /** @param {RowBatch} batch */
  addBatch(batch) {
    const wasEmpty = !this.rows.all.length;
    this.rows.add(batch.rows ?? []);
    if (batch.page) {
      this.page = batch.page;
      this.drawHead();
    }
    this.timeline.update(this.rows.all);
    const follows = this.page.is_running && this.list.isAtEnd;
    this.list.redraw(this.rows.shown.length);
    if (follows && !wasEmpty) {
      this.list.show(this.rows.shown.length - 1);
    }
    this.filters.updateStatus();
    if (batch.problem) {
      this.showProblem(batch.problem);
    }
    this.openFirst(Boolean(batch.page));
    if (batch.page && this.seq === null) {
      this.showDetail(null, ""); // with the output and the last conversation
    }
  }

  /** @param {string} problem */
  showProblem(problem) {
    append(this.head, [el("p", { class: "bad-text problem", role: "alert" }, `The events could not be read: ${problem}`)]);
  }

  /** Open the event that the address names, or the failing one, as soon as it is there. @param {boolean} isComplete */
  openFirst(isComplete) {
    if (this.hasMoved) {
      return;
    }
    const wanted = this.seq ?? this.options.opensAt ?? this.page.opens_at ?? null;
    if (wanted !== null && this.rows.bySeq.has(wanted)) {
      this.hasMoved = true;
      this.select(wanted, this.path);
      this.element.classList.toggle("shows-detail", this.seq !== null && location.hash.includes(`/${wanted}`));
    } else if (isComplete || wanted === null) {
      this.select(null, "");
    }
  }

  drawHead() {
    const jumps = {
      toEvent: (/** @type {number} */ seq) => this.open(seq),
      toCall: (/** @type {number} */ index) => this.openCall(index),
    };
    fill(this.head, runHead(this.page, this.options.title), this.options.why?.(this.page, jumps) ?? null);
  }

  /** @param {number} index */
  drawRow(index) {
    const row = this.rows.shown[index];
    const pinned = this.options.pinned ?? new Set();
    return drawRow(row, {
      isPinned: pinned.has(row.seq) || row.seq === this.page.opens_at,
      isNewStep: row.step !== (this.rows.shown[index - 1]?.step ?? ""),
      depth: this.rows.depthOf(row),
    });
  }

  /** @param {Route} route */
  go(route) {
    if (addressOf(route) !== this.address) {
      return false;
    }
    if (route.seq !== this.seq || route.path !== this.path) {
      this.moveTo(route.seq, route.path);
    }
    return true;
  }

  /** @param {number | null} seq @param {string} path */
  moveTo(seq, path) {
    this.hasMoved = true;
    this.select(seq, path);
    this.element.classList.toggle("shows-detail", seq !== null);
  }

  /** Show an event by its address, so that every place has a link. @param {number | null} seq @param {string} [path] */
  open(seq, path = "") {
    this.moveTo(seq, path); // at once: the next key may come before the address has changed
    location.replace(runRoute(this.address, seq, path));
  }

  /** @param {number} index */
  openIndex(index) {
    const row = this.rows.shown[index];
    if (row) {
      this.open(row.seq, this.filters.places.has(row.seq) ? this.placeOf(row.seq) : "");
    }
  }

  /** The place in an event that the search found. @param {number} seq */
  placeOf(seq) {
    const place = this.filters.places.get(seq);
    return place ? fullPath(place) : "";
  }

  /** @param {number} index of the call in the run, from 0 */
  openCall(index) {
    const call = this.rows.all.filter((row) => CALL_KINDS.has(row.kind))[index];
    if (call) {
      this.open(call.seq);
    }
  }

  /** @param {number} step */
  move(step) {
    const last = this.rows.shown.length - 1;
    const at = this.list.selected;
    this.openIndex(at < 0 ? 0 : Math.min(Math.max(at + step, 0), last));
  }

  /** @param {1 | -1} direction */
  nextFailure(direction) {
    const from = this.list.selected < 0 && direction < 0 ? this.rows.shown.length : this.list.selected;
    const index = this.rows.nextFailure(from, direction);
    if (index >= 0) {
      this.openIndex(index);
    } else {
      announce(direction > 0 ? "No failure further down" : "No failure further up");
    }
  }

  filterChanged() {
    this.list.redraw(this.rows.shown.length);
    this.filters.updateStatus();
    this.selectRow(this.seq);
  }

  enterSearch() {
    this.list.element.focus();
    this.openIndex(Math.max(0, this.list.selected));
  }

  enterDetail() {
    this.element.classList.add("shows-detail");
    this.detail.focus();
  }

  showList() {
    this.element.classList.remove("shows-detail");
    this.list.element.focus();
  }

  escape() {
    if (!this.provenance.element.hidden) {
      this.closeTrace();
    } else if (!this.filters.clear()) {
      this.showList();
    }
  }

  closeTrace() {
    this.provenance.hide();
    this.open(this.seq);
  }

  traceSelection() {
    const text = String(getSelection() ?? "").trim();
    if (text) {
      this.provenance.show(this.seq ?? AFTER_ALL, "", text);
    }
  }

  /** @param {number | null} seq */
  selectRow(seq) {
    const index = seq === null ? -1 : this.rows.positionOf(seq);
    this.list.select(this.rows.shown[index]?.seq === seq ? index : -1);
  }

  /** @param {number | null} seq @param {string} path */
  select(seq, path) {
    const isOther = seq !== this.seq || !this.detail.firstChild;
    [this.seq, this.path] = [seq, path];
    this.selectRow(seq);
    if (isOther || path) {
      this.timeline.select(seq ?? -1);
      this.showDetail(seq, path);
    }
    if (!path) {
      this.provenance.hide();
    }
  }

  /** Draw an event soon: who holds a key down passes many. @param {number | null} seq @param {string} path */
  showDetail(seq, path) {
    this.eventAborter.abort();
    this.eventAborter = new AbortController();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.drawDetail(seq, path), this.detail.firstChild ? FETCH_DELAY_MS : 0);
  }

  /** @param {number | null} seq @param {string} path */
  async drawDetail(seq, path) {
    const { signal } = this.eventAborter;
    if (seq === null) {
      const calls = this.rows.all.filter((row) => row.kind === "llm_call");
      fill(this.detail, overview(this.page, this.source, calls.at(-1), signal,
        (place, value) => this.provenance.show(place.startsWith("$.input") ? BEFORE_ALL : AFTER_ALL, place, value)));
      return;
    }
    try {
      const page = /** @type {EventPage} */ (await this.source.get(runPath(this.address, `/event/${seq}`), signal));
      if (!signal.aborted) {
        this.drawEvent(seq, path, page, signal);
      }
    } catch (problem) {
      if (!signal.aborted) {
        fill(this.detail, el("p", { class: "bad-text", role: "alert" }, String(problem)));
      }
    }
  }

  /** @param {number} seq @param {string} path @param {EventPage} page @param {AbortSignal} signal */
  drawEvent(seq, path, page, signal) {
    const options = {
      path: "$", picked: path,
      onPick: (/** @type {string} */ place) => this.open(seq, place),
    };
    const article = eventView(page, options);
    const state = el("section", { class: "section", hidden: true }, el("h3", null, "State"));
    append(article, [state, this.fork(page), el("footer", { class: "event-foot" }, copyButton(() => location.href, "Copy link"))]);
    fill(this.detail, article);
    this.detail.scrollTop = 0;
    if (path) {
      article.querySelector(".picked")?.scrollIntoView({ block: "center" });
      this.provenance.show(seq, path, valueAt(page, path));
    }
    this.addState(seq, state, signal);
  }

  /** @param {EventPage} page */
  fork(page) {
    const row = readRow(page.row);
    const { post } = this.source;
    if (!post || !this.page.agent || !["tool_call", "llm_call"].includes(row.kind)) {
      return null;
    }
    return forkForm({ post, run: this.address, agent: this.page.agent, row, page,
      step: () => this.rows.forkStep(row) });
  }

  /** @param {number} seq @param {HTMLElement} box @param {AbortSignal} signal */
  async addState(seq, box, signal) {
    if (!this.rows.all.some((row) => row.kind === "state" && row.seq <= seq)) {
      return;
    }
    const page = /** @type {StatePage} */ (await this.source.get(runPath(this.address, `/state/${seq}`), signal).catch(() => null));
    if (page && !signal.aborted) {
      box.hidden = false;
      append(box, [stateView(page, runRoute(this.address))]);
    }
  }
}
