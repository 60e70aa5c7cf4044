/** A JSON value as a tree. A branch is drawn when it is opened; clicking a value asks where it came from. */

import { append, button, el } from "./dom.js";
import { count } from "./format.js";
import { ExactNumber, isContainer, memberPath } from "./exact_json.js";
import { longText } from "./long_text.js";
import { leadsDown } from "./value_path.js";

/** @typedef {{path: string, onPick?: (path: string, value: Json) => void, picked?: string}} TreeOptions */

const OPEN_NODES = 40; // drawn at once; everything beyond waits for a click
const PORTION_ITEMS = 100;

/**
 * @param {Json} value
 * @param {TreeOptions} options `path` is that of the value; `picked` is the path to open and to highlight
 */
export function jsonTree(value, options) {
  const budget = { nodes: OPEN_NODES };
  const box = el("div", { class: "tree" });
  if (isContainer(value) && Object.keys(value).length) {
    append(box, [branchBody(value, options.path, options, budget)]);
  } else {
    append(box, [leaf(value, options.path, options)]);
  }
  return box;
}

/**
 * @param {Record<string, Json>} value
 * @param {string} path
 * @param {TreeOptions} options
 * @param {{nodes: number}} budget
 */
function branchBody(value, path, options, budget) {
  const list = el("ul", null);
  const keys = Object.keys(value);
  const isList = Array.isArray(value);
  let shown = 0;
  const more = button("", () => showMore(), { class: "link more" });
  const showMore = () => {
    more.remove();
    for (const key of keys.slice(shown, shown + PORTION_ITEMS)) {
      const name = isList ? Number(key) : key;
      append(list, [member(name, value[key], memberPath(path, name), options, budget)]);
    }
    shown += PORTION_ITEMS;
    if (shown < keys.length) {
      more.textContent = `Show more of ${count(keys.length)} ${isList ? "items" : "members"}`;
      append(list, [el("li", null, more)]);
    }
  };
  do {
    showMore();
  } while (shown < keys.length && isBeyond(options.picked, path, keys, shown, isList));
  return list;
}

/**
 * True if the picked value is below an item that is not drawn yet.
 * @param {string | undefined} picked
 * @param {string} path
 * @param {string[]} keys
 * @param {number} shown
 * @param {boolean} isList
 */
function isBeyond(picked, path, keys, shown, isList) {
  return Boolean(picked) && keys.slice(shown).some((key) => leadsDown(memberPath(path, isList ? Number(key) : key), picked ?? ""));
}

/**
 * @param {string | number} key
 * @param {Json} value
 * @param {string} path
 * @param {TreeOptions} options
 * @param {{nodes: number}} budget
 */
function member(key, value, path, options, budget) {
  const label = el("span", { class: typeof key === "number" ? "key item" : "key" }, String(key).slice(0, 200));
  if (!isContainer(value) || !Object.keys(value).length) {
    budget.nodes--;
    return el("li", null, label, leaf(value, path, options));
  }
  const size = Object.keys(value).length;
  const isOpen = (budget.nodes > size && size <= PORTION_ITEMS) || leadsDown(path, options.picked ?? "");
  budget.nodes -= isOpen ? 1 : 0;
  const details = el("details", null,
    el("summary", null, label, el("span", { class: "dim" }, sizeText(value, size)), " ",
      el("span", { class: "peek" }, peek(value))));
  const open = () => append(details, [branchBody(value, path, options, isOpen ? budget : { nodes: 12 })]);
  if (isOpen) {
    details.open = true;
    open();
  } else {
    details.addEventListener("toggle", open, { once: true });
  }
  return el("li", { class: options.picked === path ? "picked" : null }, details);
}

/** @param {Json} value @param {number} size */
function sizeText(value, size) {
  return Array.isArray(value) ? `[${count(size)}]` : `{${count(size)}}`;
}

/** The beginning of a folded branch. @param {Record<string, Json>} value */
function peek(value) {
  const parts = [];
  for (const key of Object.keys(value).slice(0, 4)) {
    const item = value[key];
    const text = isContainer(item) ? sizeText(item, Object.keys(item).length) : scalarText(item).slice(0, 30);
    parts.push(Array.isArray(value) ? text : `${key.slice(0, 30)}: ${text}`);
  }
  return parts.join(", ");
}

/** @param {Json} value */
function scalarText(value) {
  if (value instanceof ExactNumber) {
    return value.source;
  }
  if (isContainer(value)) {
    return Array.isArray(value) ? "[]" : "{}";
  }
  return typeof value === "string" ? value : String(value);
}

/** @param {Json} value */
function scalarClass(value) {
  if (value instanceof ExactNumber) {
    return "number";
  }
  return value === null || isContainer(value) ? "null" : typeof value;
}

/**
 * @param {Json} value
 * @param {string} path
 * @param {TreeOptions} options
 */
function leaf(value, path, options) {
  const text = scalarText(value);
  const isLong = text.length > 120 || text.includes("\n");
  const isPicked = options.picked === path;
  const className = `value ${scalarClass(value)}${isPicked ? " picked" : ""}`;
  const trace = () => options.onPick?.(path, value);
  if (isLong) {
    return el("div", { class: className }, longText(text, "data"),
      options.onPick && button("Trace this text", trace, { class: "link" }));
  }
  if (!options.onPick || text === "" || value === null || isContainer(value)) {
    return el("span", { class: className }, text === "" ? '""' : text);
  }
  return button(text, trace, { class: className, title: "Where did this value come from?" });
}
