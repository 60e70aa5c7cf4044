/** Differences between two values, and between two texts: equal parts are folded, the exact difference is marked. */

import { align } from "./align.js";
import { append, button, el, fold } from "./dom.js";
import { count, counted } from "./format.js";
import { equal, isContainer, jsonText, memberPath } from "./exact_json.js";
import { longText } from "./long_text.js";

/** @typedef {import("./align.js").Stretch} Stretch */

const SIMILAR = 0.3; // below this share of equal words, two lines are shown one after the other
const CONTEXT_LINES = 3;
const CONTEXT_CHARS = 120;
const SIGNS = /** @type {Record<string, string>} */ ({ added: "+", removed: "−", changed: "~" });
const SHOWN_DIFFERENCES = 100;

/**
 * @param {Json} old
 * @param {Json} current
 * @param {string} [path]
 * @returns {Generator<Difference>}
 */
export function* valueDifferences(old, current, path = "$") {
  if (!isContainer(old) || !isContainer(current) || Array.isArray(old) !== Array.isArray(current)) {
    if (!equal(old, current)) {
      yield { kind: "changed", path, old, new: current };
    }
    return;
  }
  const isList = Array.isArray(old);
  for (const key of new Set([...Object.keys(old), ...Object.keys(current)])) {
    const place = memberPath(path, isList ? Number(key) : key);
    if (!Object.hasOwn(current, key)) {
      yield { kind: "removed", path: place, old: old[key], new: null };
    } else if (!Object.hasOwn(old, key)) {
      yield { kind: "added", path: place, old: null, new: current[key] };
    } else {
      yield* valueDifferences(old[key], current[key], place);
    }
  }
}

/**
 * @param {Difference[]} differences
 * @param {(path: string) => void} [onPath]
 */
export function differenceList(differences, onPath) {
  const list = el("ul", { class: "differences" });
  let shown = 0;
  const more = button("", () => showMore(), { class: "link more" });
  const showMore = () => {
    more.remove();
    append(list, differences.slice(shown, shown + SHOWN_DIFFERENCES).map((item) => differenceItem(item, onPath)));
    shown += SHOWN_DIFFERENCES;
    if (shown < differences.length) {
      more.textContent = `Show more of ${count(differences.length)} differences`;
      append(list, [el("li", null, more)]);
    }
  };
  showMore();
  return list;
}

/** @param {Difference} item @param {(path: string) => void} [onPath] */
function differenceItem(item, onPath) {
  const head = el("div", { class: "difference-head" },
    el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[item.kind] ?? "~"),
    el("span", { class: "difference-kind" }, item.kind),
    onPath
      ? button(item.path, () => onPath(item.path), { class: "link data" })
      : el("span", { class: "data" }, item.path.slice(0, 500)),
  );
  return el("li", { class: `difference ${item.kind in SIGNS ? item.kind : "changed"}` }, head, differenceBody(item));
}

/** @param {Difference} item */
function differenceBody(item) {
  if (item.kind === "added") {
    return el("ins", null, longText(textOf(item.new), "data"));
  }
  if (item.kind === "removed") {
    return el("del", null, longText(textOf(item.old), "data"));
  }
  return textDifference(textOf(item.old), textOf(item.new));
}

/** @param {Json} value */
function textOf(value) {
  return typeof value === "string" ? value : jsonText(value);
}

/** @param {string} old @param {string} current */
export function textDifference(old, current) {
  if (!old.includes("\n") && !current.includes("\n")) {
    return el("div", { class: "text-difference data" }, ...inlineDifference(old, current));
  }
  const box = el("div", { class: "text-difference data" });
  const stretches = align(old.split("\n"), current.split("\n"));
  stretches.forEach((stretch, index) => {
    const next = stretches[index + 1];
    if (stretch.kind === "same") {
      append(box, sameLines(stretch.items, index === 0, !next));
    } else if (stretch.kind === "old" && next?.kind === "new") {
      append(box, changedLines(stretch.items, next.items));
    } else if (stretch.kind === "old") {
      append(box, stretch.items.map((line) => el("del", { class: "line" }, line)));
    } else if (stretches[index - 1]?.kind !== "old") {
      append(box, stretch.items.map((line) => el("ins", { class: "line" }, line)));
    }
  });
  return box;
}

/** @param {string[]} lines @param {boolean} isFirst @param {boolean} isLast */
function sameLines(lines, isFirst, isLast) {
  const line = (/** @type {string} */ text) => el("div", { class: "line" }, text);
  const head = isFirst ? 0 : CONTEXT_LINES;
  const tail = isLast ? 0 : CONTEXT_LINES;
  if (lines.length <= head + tail + 2) {
    return lines.map(line);
  }
  const folded = lines.slice(head, lines.length - tail);
  return [
    ...lines.slice(0, head).map(line),
    fold([counted(folded.length, "equal line")], () => [longText(folded.join("\n"), "data")], false, "equal"),
    ...lines.slice(lines.length - tail).map(line),
  ];
}

/** @param {string[]} old @param {string[]} current */
function changedLines(old, current) {
  const nodes = [];
  for (let index = 0; index < Math.max(old.length, current.length); index++) {
    if (index < old.length && index < current.length) {
      nodes.push(el("div", { class: "line changed-line" }, ...inlineDifference(old[index], current[index])));
    } else if (index < old.length) {
      nodes.push(el("del", { class: "line" }, old[index]));
    } else {
      nodes.push(el("ins", { class: "line" }, current[index]));
    }
  }
  return nodes;
}

/** The difference inside one line, word by word. @param {string} old @param {string} current @returns {Node[]} */
function inlineDifference(old, current) {
  const words = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;
  const stretches = align(old.match(words) ?? [], current.match(words) ?? []);
  if (equalShare(stretches) < SIMILAR) {
    return [el("del", null, longText(old, "inline")), el("span", { class: "arrow" }, "→"), el("ins", null, longText(current, "inline"))];
  }
  return stretches.map((stretch, index) => {
    const text = stretch.items.join("");
    if (stretch.kind === "old") {
      return el("del", null, longText(text, "inline"));
    }
    if (stretch.kind === "new") {
      return el("ins", null, longText(text, "inline"));
    }
    return sameText(text, index === 0, index === stretches.length - 1);
  });
}

/** The share of the words that both texts have. @param {Stretch[]} stretches */
function equalShare(stretches) {
  const lengthOf = (/** @type {Stretch[]} */ parts) => parts.flatMap((part) => part.items).filter((item) => item.trim()).length;
  return lengthOf(stretches.filter((part) => part.kind === "same")) / (lengthOf(stretches) || 1);
}

/** @param {string} text @param {boolean} isFirst @param {boolean} isLast */
function sameText(text, isFirst, isLast) {
  if (text.length <= 3 * CONTEXT_CHARS) {
    return el("span", null, text);
  }
  const head = isFirst ? "" : text.slice(0, CONTEXT_CHARS);
  const tail = isLast ? "" : text.slice(-CONTEXT_CHARS);
  const folded = el("span", { class: "elided" }, `${count(text.length - head.length - tail.length)} equal characters`);
  return el("span", null, head, folded, tail);
}
