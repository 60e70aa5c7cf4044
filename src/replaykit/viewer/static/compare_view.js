/** Two runs side by side: aligned, with equal parts folded and the first divergence in view. */

import { append, button, el, fill } from "./dom.js";
import { cost, count, counted, duration, kindName, tone } from "./format.js";
import { differenceList } from "./differences.js";
import { runName } from "./run_head.js";
import { runRoute } from "./routes.js";
import { divergence } from "./why_view.js";

const CONTEXT_ENTRIES = 2; // equal events that stay in view around a difference
const PORTION_ENTRIES = 200;

/** @implements {View} */
export class CompareView {
  /** @param {ComparePage} page */
  constructor(page) {
    this.page = page;
    this.names = [runName(page.a), runName(page.b)];
    this.title = `${this.names[0]} and ${this.names[1]}`;
    this.at = -1;
    /** @type {HTMLElement[]} */
    this.changes = [];
    this.entries = el("ol", { class: "entries", "aria-label": "Events of both runs" });
    this.element = el("div", { class: "compare" }, this.head(), this.first(), this.totals(), this.entries, this.states());
    this.addEntries(0);
    this.keys = { n: () => this.move(1), p: () => this.move(-1), j: () => this.move(1), k: () => this.move(-1) };
  }

  head() {
    const { a, b } = this.page;
    return el("header", { class: "compare-head" }, el("h1", { class: "visually-hidden" }, "Comparison"),
      ...[a, b].map((run, index) => el("div", { class: "compare-side" },
        el("span", { class: "side-letter" }, "AB"[index]),
        el("a", { href: runRoute(run.address), class: "strong" }, this.names[index]),
        el("span", { class: `badge ${tone(run.header.status ?? "")}` }, run.header.status),
        run.header.name && el("span", { class: "dim data" }, run.header.id))));
  }

  first() {
    const { first, identical } = this.page.comparison;
    if (identical || !first) {
      return el("section", { class: "why good" }, el("div", { class: "why-line" },
        el("span", { class: "why-label" }, "Equal"), el("span", { class: "why-text" }, "Nothing differs.")));
    }
    const places = [first.a_step || first.b_step, first.b_seq ?? first.a_seq].filter((place) => place !== null && place !== "");
    return el("section", { class: "why warn", "aria-label": "First divergence" },
      el("div", { class: "why-line" }, el("span", { class: "why-label" }, "First divergence"),
        el("span", { class: "why-text" }, first.text, places.length ? ` at ${places.join(", #")}` : ""),
        first.a_seq === null ? null : el("a", { class: "small", href: runRoute(this.page.a.address, first.a_seq) }, "Open in A"),
        first.b_seq === null ? null : el("a", { class: "small", href: runRoute(this.page.b.address, first.b_seq) }, "Open in B")),
      divergence(first, this.names));
  }

  totals() {
    const { usage, outcome, entries } = this.page.comparison;
    const rows = /** @type {[string, string, string][]} */ ([
      ["status", outcome.a.status, outcome.b.status],
      ["model calls", count(usage.a.llm_calls), count(usage.b.llm_calls)],
      ["tool calls", count(usage.a.tool_calls), count(usage.b.tool_calls)],
      ["tokens", String(usage.a.tokens ?? ""), String(usage.b.tokens ?? "")],
      ["cost", cost(usage.a.cost_usd), cost(usage.b.cost_usd)],
      ["took", duration(usage.a.duration_s), duration(usage.b.duration_s)],
    ]);
    const different = entries.filter((entry) => entry.kind !== "same").length;
    return el("section", { class: "compare-totals" },
      el("table", null, el("thead", null, el("tr", null, el("td", null), el("th", { scope: "col" }, "A"), el("th", { scope: "col" }, "B"))),
        el("tbody", null, ...rows.filter(([, a, b]) => a || b).map(([name, a, b]) =>
          el("tr", { class: a === b ? "dim" : null }, el("th", { scope: "row" }, name), el("td", null, a), el("td", null, b))))),
      outcome.equal ? el("span", null) : el("div", { class: "section" }, el("h3", null, "Outcome"), differenceList(outcome.differences)),
      el("p", { class: "dim" }, `${count(different)} of ${counted(entries.length, "event")} differ. `,
        different ? "n and p go from difference to difference." : ""));
  }

  /** Add entries from a position on: at most a portion, with long equal stretches folded. @param {number} begin */
  addEntries(begin) {
    const { entries } = this.page.comparison;
    let drawn = 0;
    let index = begin;
    while (index < entries.length && drawn < PORTION_ENTRIES) {
      const end = this.endOfEqual(index);
      if (end - index > 2 * CONTEXT_ENTRIES + 1) {
        const head = index === 0 ? 0 : CONTEXT_ENTRIES;
        const tail = end === entries.length ? 0 : CONTEXT_ENTRIES;
        append(this.entries, entries.slice(index, index + head).map((entry) => this.entry(entry)));
        append(this.entries, [this.equalFold(index + head, end - tail)]);
        append(this.entries, entries.slice(end - tail, end).map((entry) => this.entry(entry)));
        index = end;
        drawn += head + tail + 1;
      } else {
        append(this.entries, [this.entry(entries[index++])]);
        drawn++;
      }
    }
    if (index < entries.length) {
      const more = button(`Show more of ${counted(entries.length, "event")}`, () => {
        more.parentElement?.remove();
        this.addEntries(index);
      }, { class: "link more" });
      append(this.entries, [el("li", null, more)]);
    }
  }

  /** @param {number} begin */
  endOfEqual(begin) {
    const { entries } = this.page.comparison;
    let end = begin;
    while (end < entries.length && entries[end].kind === "same") {
      end++;
    }
    return end;
  }

  /** @param {number} begin @param {number} end */
  equalFold(begin, end) {
    const fold = button(`${counted(end - begin, "equal event")}`, () => {
      const shown = Math.min(end, begin + PORTION_ENTRIES);
      const nodes = this.page.comparison.entries.slice(begin, shown).map((entry) => this.entry(entry));
      item.replaceWith(...nodes, ...(shown < end ? [this.equalFold(shown, end)] : []));
    }, { class: "equal-fold", "aria-expanded": "false" });
    const item = el("li", null, fold);
    return item;
  }

  /** @param {EventEntry} entry */
  entry(entry) {
    const aText = entry.b_seq !== undefined && !entry.a_text ? entry.text : entry.a_text || entry.text;
    const differences = [...(entry.arguments ?? []), ...(entry.outcome ?? [])];
    const element = el("li", { class: `entry entry-${entry.kind}`, tabindex: entry.kind === "same" ? null : -1 },
      el("div", { class: "entry-kind" },
        entry.kind === "same" ? kindName(entry.event) : el("span", { class: "mark warn" }, ENTRY_NAMES[entry.kind] ?? entry.kind)),
      this.cell(this.page.a.address, entry.a_seq, aText ?? ""),
      this.cell(this.page.b.address, entry.b_seq, entry.text ?? ""));
    if (differences.length) {
      append(element, [el("div", { class: "entry-differences" }, differenceList(differences))]);
    }
    if (entry.kind !== "same") {
      this.changes.push(element);
    }
    return element;
  }

  /** @param {string} address @param {number | null | undefined} seq @param {string} text */
  cell(address, seq, text) {
    if (seq === null || seq === undefined) {
      return el("div", { class: "entry-cell none" }, "—");
    }
    return el("div", { class: "entry-cell" },
      el("a", { href: runRoute(address, seq), class: "data" }, el("span", { class: "dim" }, `#${seq} `), text.slice(0, 400)));
  }

  states() {
    const { states } = this.page.comparison;
    const box = el("section", { class: "section compare-states" });
    if (states.length) {
      fill(box, el("h3", null, "States that differ"), ...states.map((state) =>
        el("div", { class: "state-entry" },
          el("h4", null, state.b_step || state.a_step || `#${state.b_seq ?? state.a_seq}`),
          differenceList(state.differences ?? []))));
    }
    return box;
  }

  /** @param {1 | -1} step */
  move(step) {
    this.at = Math.min(Math.max(this.at + step, 0), this.changes.length - 1);
    const element = this.changes[this.at];
    element?.scrollIntoView({ block: "center" });
    element?.focus({ preventScroll: true });
  }
}

const ENTRY_NAMES = /** @type {Record<string, string>} */ ({
  changed: "changed", inserted: "only in B", deleted: "only in A", moved: "moved",
});
