/** Where a value came from, and where it flowed to. */

import { append, button, el, fill } from "./dom.js";
import { counted } from "./format.js";
import { ExactNumber } from "./exact_json.js";
import { runPath } from "./source.js";
import { runRoute } from "./routes.js";

export const BEFORE_ALL = -1; // in place of an event: the run's input
export const AFTER_ALL = Number.MAX_SAFE_INTEGER; // its output
const SHOWN = 60;
const SEARCHED_CHARS = 2000;

/** Return the text that a value is searched by. @param {Json} value */
export function searchText(value) {
  if (value instanceof ExactNumber) {
    return value.source;
  }
  return String(value).slice(0, SEARCHED_CHARS);
}

export class Provenance {
  /** @param {{source: Source, address: string, onClose: () => void}} options */
  constructor(options) {
    this.options = options;
    this.aborter = new AbortController();
    this.body = el("div", { class: "trace-body", "aria-live": "polite" });
    this.label = el("div", { class: "trace-label" });
    this.element = el("aside", { class: "trace", "aria-label": "Where a value came from", hidden: true },
      el("div", { class: "trace-head" }, this.label, button("Close", () => this.options.onClose(), { class: "small" })),
      this.body);
  }

  hide() {
    this.aborter.abort();
    this.element.hidden = true;
  }

  /** @param {number} seq @param {string} path @param {Json} value */
  async show(seq, path, value) {
    this.aborter.abort();
    this.aborter = new AbortController();
    const { signal } = this.aborter;
    const text = searchText(value);
    this.element.hidden = false;
    const place = seq === BEFORE_ALL || seq === AFTER_ALL ? path : `#${seq} ${path}`;
    fill(this.label, el("span", { class: "data strong" }, text.slice(0, 80)), el("span", { class: "dim data" }, ` ${place}`));
    fill(this.body, el("p", { class: "dim" }, "Searching the run…"));
    try {
      const query = `/find?text=${encodeURIComponent(text)}`;
      const found = /** @type {Occurrence[]} */ (await this.options.source.get(runPath(this.options.address, query), signal));
      this.draw(found, seq, path);
    } catch (problem) {
      if (!signal.aborted) {
        fill(this.body, el("p", { class: "bad-text" }, String(problem)));
      }
    }
  }

  /** @param {Occurrence[]} found @param {number} seq @param {string} path */
  draw(found, seq, path) {
    const others = found.filter((item) => item.seq !== seq || fullPath(item) !== path);
    const earlier = others.filter((item) => item.seq < seq);
    const here = others.filter((item) => item.seq === seq);
    const later = others.filter((item) => item.seq > seq);
    fill(this.body);
    append(this.body, [
      earlier.length
        ? this.group("First appeared", earlier.slice(0, 1))
        : el("p", null, "It appears nowhere earlier in this run."),
      earlier.length > 1 && this.group("Seen again before", earlier.slice(1)),
      here.length ? this.group("Elsewhere in this event", here) : null,
      later.length ? this.group("Flowed into", later) : seq !== AFTER_ALL && el("p", { class: "dim" }, "It does not appear later."),
    ]);
  }

  /** @param {string} title @param {Occurrence[]} found */
  group(title, found) {
    return el("section", null,
      el("h4", null, title, found.length > 1 && el("span", { class: "dim" }, ` ${counted(found.length, "place")}`)),
      el("ul", null, ...found.slice(0, SHOWN).map((item) => this.occurrence(item))),
      found.length > SHOWN && el("p", { class: "dim" }, `and ${counted(found.length - SHOWN, "more place")}`));
  }

  /** @param {Occurrence} item */
  occurrence(item) {
    const path = fullPath(item);
    return el("li", null,
      el("a", { href: runRoute(this.options.address, item.seq, path) },
        `#${item.seq} `, el("span", { class: "data" }, path.slice(0, 200) || "title")),
      " ", el("span", { class: item.is_exact ? "mark" : "mark warn" }, item.is_exact ? "exact" : "normalised"),
      el("div", { class: "data dim excerpt" }, item.excerpt.slice(0, 300)));
  }
}

/** The path inside the event's page; empty for its title, which is in no tree. @param {Occurrence} item */
export function fullPath(item) {
  return item.place === "row" ? "" : `$.${item.place}${item.path.slice(1)}`;
}
