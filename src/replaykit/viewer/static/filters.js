/** Search and filters above the list of a run. */

import { announce, button, el, fill } from "./dom.js";
import { count, counted } from "./format.js";
import { runPath } from "./source.js";

const CHIPS = /** @type {[string, string[]][]} */ ([
  ["Models", ["llm_call"]], ["Tools", ["tool_call"]], ["HTTP", ["exchange"]], ["Messages", ["message", "decision"]],
  ["State", ["state"]],
]);
const SEARCH_DELAY_MS = 250;
const MIN_PAYLOAD_SEARCH = 2;

export class Filters {
  /**
   * @param {{source: Source, address: string, rows: import("./run_rows.js").RunRows, onChange: () => void,
   *   onEnter: () => void}} options
   */
  constructor(options) {
    this.options = options;
    this.timer = 0;
    this.aborter = new AbortController();
    /** @type {Map<number, Occurrence>} */
    this.places = new Map();
    this.input = el("input", { type: "search", placeholder: "Search everything", "aria-label": "Search this run",
      autocomplete: "off", spellcheck: "false", maxlength: 2000, input: () => this.type(), keydown: (event) => this.key(event) });
    this.status = el("span", { class: "dim filter-status" });
    this.chips = CHIPS.map(([name, kinds]) => this.chip(name, kinds));
    this.errors = button("Errors", () => this.toggleErrors(), { class: "chip", "aria-pressed": "false" });
    this.element = el("div", { class: "filters", role: "search" }, this.input,
      el("div", { class: "chips", role: "group", "aria-label": "Filters" }, this.errors, ...this.chips, this.status));
  }

  /** @param {string} name @param {string[]} kinds */
  chip(name, kinds) {
    const chip = button(name, () => {
      const { filter } = this.options.rows;
      const isOn = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", String(isOn));
      kinds.forEach((kind) => (isOn ? filter.kinds.add(kind) : filter.kinds.delete(kind)));
      this.apply();
    }, { class: "chip", "aria-pressed": "false" });
    return chip;
  }

  toggleErrors() {
    const { filter } = this.options.rows;
    filter.errorsOnly = !filter.errorsOnly;
    this.errors.setAttribute("aria-pressed", String(filter.errorsOnly));
    this.apply();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      this.options.onEnter();
    }
  }

  /** Search titles at once, and payloads when typing pauses. */
  type() {
    const text = this.input.value.trim();
    this.aborter.abort();
    clearTimeout(this.timer);
    this.places.clear();
    Object.assign(this.options.rows.filter, { text: text.toLowerCase(), found: null });
    this.apply();
    if (text.length >= MIN_PAYLOAD_SEARCH) {
      this.timer = setTimeout(() => this.searchPayloads(text), SEARCH_DELAY_MS);
    }
  }

  /** @param {string} text */
  async searchPayloads(text) {
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    try {
      const path = runPath(this.options.address, `/find?text=${encodeURIComponent(text)}`);
      const found = /** @type {Occurrence[]} */ (await this.options.source.get(path, signal));
      found.forEach((item) => this.places.has(item.seq) || this.places.set(item.seq, item));
      this.options.rows.filter.found = new Set(this.places.keys());
      this.apply();
    } catch (problem) {
      if (!signal.aborted) {
        fill(this.status, String(problem));
      }
    }
  }

  clear() {
    const { filter } = this.options.rows;
    const wasFiltered = this.options.rows.isFiltered;
    this.input.value = "";
    filter.kinds.clear();
    filter.errorsOnly = false;
    [this.errors, ...this.chips].forEach((chip) => chip.setAttribute("aria-pressed", "false"));
    this.type();
    return wasFiltered;
  }

  apply() {
    this.options.rows.refilter();
    this.options.onChange();
    announce(`${counted(this.options.rows.shown.length, "event")} shown`);
  }

  updateStatus() {
    const { shown, all, isFiltered } = this.options.rows;
    fill(this.status, isFiltered ? `${count(shown.length)} of ${count(all.length)}` : counted(all.length, "event"));
  }

  close() {
    this.aborter.abort();
    clearTimeout(this.timer);
  }
}
