/** Search and filters above the items of a suite. Only what some item has gets a button. */

import { announce, button, el, fill } from "./dom.js";
import { count, counted } from "./format.js";

const OUTCOMES = ["failed", "error", "untested", "passed"];
const NAMES = /** @type {Record<string, string>} */ ({ error: "inconclusive" });
const PARTS = ["replay", "contract", "chaos", "mutation"];
const STANDINGS = ["flaky", "new", "failing", "fixed"];

export class SuiteFilters {
  /** @param {import("./suite_rows.js").SuiteRows} rows @param {() => void} onChange @param {() => void} onEnter */
  constructor(rows, onChange, onEnter) {
    this.rows = rows;
    this.onChange = onChange;
    this.input = el("input", { type: "search", placeholder: "Search items", "aria-label": "Search items", autocomplete: "off",
      spellcheck: "false", maxlength: 500, input: () => this.type(), keydown: (event) => event.key === "Enter" && onEnter() });
    this.status = el("span", { class: "dim filter-status" });
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "Filters" });
    this.element = el("div", { class: "filters", role: "search" }, this.input, this.chips);
    this.draw();
  }

  draw() {
    const { all, filter } = this.rows;
    const parts = PARTS.filter((part) => all.some((item) => item.part === part));
    fill(this.chips,
      ...OUTCOMES.filter((outcome) => all.some((item) => item.outcome === outcome))
        .map((outcome) => this.chip(NAMES[outcome] ?? outcome, filter.outcomes, outcome)),
      ...(parts.length > 1 ? parts.map((part) => this.chip(part, filter.parts, part)) : []),
      ...STANDINGS.filter((standing) => all.some((item) => item.standing === standing))
        .map((standing) => this.chip(standing, filter.standings, standing)),
      this.choice(), this.status);
    const { shown, isFiltered } = this.rows;
    fill(this.status, isFiltered ? `${count(shown.length)} of ${count(all.length)}` : counted(all.length, "item"));
  }

  /** @param {string} name @param {Set<string>} chosen @param {string} value */
  chip(name, chosen, value) {
    const isOn = chosen.has(value);
    return button(name, () => {
      if (isOn) {
        chosen.delete(value);
      } else {
        chosen.add(value);
      }
      this.apply(name);
    }, { class: "chip", "aria-pressed": String(isOn), "data-name": name });
  }

  /** A button that takes back the cause, or the cell of the matrix. */
  choice() {
    const { cause, contract, scenario } = this.rows.filter;
    const name = cause === null ? [contract, scenario].filter(Boolean).join(" × ") : "one cause";
    return name && button(`${name.slice(0, 80)} ×`, () => {
      Object.assign(this.rows.filter, { cause: null, contract: "", scenario: "" });
      this.apply();
    }, { class: "chip", "aria-pressed": "true", "aria-label": `Show more than ${name.slice(0, 80)}` });
  }

  type() {
    this.rows.filter.text = this.input.value.trim().toLowerCase();
    this.apply();
  }

  /** @param {string} [focused] the chip that was pressed */
  apply(focused) {
    this.rows.refilter();
    this.draw();
    this.onChange();
    announce(`${counted(this.rows.shown.length, "item")} shown`);
    const chips = /** @type {NodeListOf<HTMLElement>} */ (this.chips.querySelectorAll("[data-name]"));
    [...chips].find((chip) => chip.dataset.name === focused)?.focus();
  }

  clear() {
    const wasFiltered = this.rows.isFiltered;
    this.input.value = "";
    this.rows.clear();
    this.apply();
    return wasFiltered;
  }
}
