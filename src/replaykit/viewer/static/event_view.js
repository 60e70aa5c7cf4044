/** One event in full. */

import { append, button, el, fold } from "./dom.js";
import { cost, count, counted, duration, kindName } from "./format.js";
import { conversation } from "./conversation.js";
import { isFailure, readRow } from "./run_rows.js";
import { jsonText } from "./exact_json.js";
import { jsonTree } from "./json_tree.js";
import { longText } from "./long_text.js";

/**
 * @param {EventPage} page
 * @param {import("./json_tree.js").TreeOptions} options
 */
export function eventView(page, options) {
  const at = (/** @type {string} */ place) => ({ ...options, path: `$.${place}` });
  const article = el("article", { class: "event" }, eventHead(page));
  append(article, [
    page.errors?.length ? errorChain(page.errors) : null,
    page.conversation?.length ? section("Conversation", conversation(page.conversation, at("conversation"))) : null,
    "arguments" in page && !page.conversation?.length && valueSection("Arguments", page.arguments, at("arguments")),
    "content" in page && valueSection("Content", page.content, at("content")),
    "result" in page && !page.conversation?.length && valueSection("Result", page.result, at("result")),
    page.items?.length ? streamSection(page, at("items")) : null,
    page.facts?.length ? section("Facts", factTable(page.facts)) : null,
    "options" in page && foldedValue("Options", page.options, at("options")),
    page.tools?.length ? fold([`${counted(page.tools.length, "tool")} offered`],
      () => [el("p", { class: "data" }, page.tools?.join(", "))], false, "section") : null,
    "arguments" in page && page.conversation?.length
      ? foldedValue("Request as recorded", page.arguments, at("arguments")) : null,
    "result" in page && page.conversation?.length
      ? foldedValue("Response as recorded", page.result, at("result")) : null,
  ]);
  return article;
}

/** @param {EventPage} page */
function eventHead(page) {
  const row = readRow(page.row);
  const facts = [
    row.step && ["step", row.step],
    row.at !== null && ["at", `+${duration(row.at) || "0 s"}`],
    row.duration !== null && ["took", duration(row.duration)],
    row.tokens !== null && ["tokens", count(row.tokens)],
    row.cost !== null && ["cost", cost(row.cost)],
    page.path && ["path", page.path],
  ].filter((fact) => Array.isArray(fact));
  return el(
    "header",
    { class: "event-head" },
    el("div", { class: "event-kicker" },
      el("span", { class: `kind kind-${kindName(row.kind)}` }, kindName(row.kind)),
      el("span", { class: "dim" }, `#${row.seq}`),
      isFailure(row) && el("span", { class: "mark bad" }, "error"),
      ...row.marks.filter((mark) => mark !== "error").map((mark) => el("span", { class: "mark" }, mark)),
    ),
    el("h2", { class: "data" }, row.title.slice(0, 1000)),
    factList(facts),
  );
}

/** @param {string[][]} facts */
export function factList(facts) {
  return el("dl", { class: "facts" }, ...facts.map(([name, value]) =>
    el("div", null, el("dt", null, name), el("dd", null, value.slice(0, 500)))));
}

/** @param {[string, string][]} facts */
function factTable(facts) {
  return el("dl", { class: "fact-table" }, ...facts.flatMap(([name, value]) =>
    [el("dt", null, name), el("dd", null, longText(value, "data"))]));
}

/** @param {string} title @param {...import("./dom.js").Child} children */
export function section(title, ...children) {
  return el("section", { class: "section" }, el("h3", null, title), ...children);
}

/**
 * @param {string} title
 * @param {Json} value
 * @param {import("./json_tree.js").TreeOptions} options
 */
export function valueSection(title, value, options) {
  return el("section", { class: "section" },
    el("h3", null, title, copyButton(() => (typeof value === "string" ? value : jsonText(value)))),
    jsonTree(value, options));
}

/**
 * @param {string} title
 * @param {Json} value
 * @param {import("./json_tree.js").TreeOptions} options
 */
function foldedValue(title, value, options) {
  return fold([title], () => [jsonTree(value, options)], Boolean(options.picked?.startsWith(options.path)), "section");
}

/** @param {() => string} text @param {string} [label] */
export function copyButton(text, label = "Copy") {
  const copy = button(label, () => {
    navigator.clipboard.writeText(text()).then(() => (copy.textContent = "Copied"), () => (copy.textContent = "Not allowed"));
  }, { class: "link quiet" });
  return copy;
}

/** @param {EventPage} page @param {import("./json_tree.js").TreeOptions} options */
function streamSection(page, options) {
  const pauses = page.pauses_ms ?? [];
  const waited = pauses.reduce((sum, pause) => sum + pause, 0);
  const summary = `Stream: ${counted(page.items?.length ?? 0, "item")}${waited ? ` in ${duration(waited / 1000)}` : ""}`;
  const list = () => el("div", null, jsonTree(page.items, options),
    pauses.length ? el("p", { class: "dim" }, `Pauses: ${pauses.slice(0, 200).map((pause) => duration(pause / 1000)).join(", ")}`) : null);
  return fold([summary], () => [list()], !("result" in page) || Boolean(options.picked?.startsWith("$.items")), "section");
}

/** @param {ErrorPart[]} errors */
export function errorChain(errors) {
  const relations = /** @type {Record<string, string>} */ ({
    cause: "caused by", context: "while handling", member: "in the group",
  });
  return el("section", { class: "errors", "aria-label": "Errors" }, ...errors.map((error) =>
    el("div", { class: "error-part" },
      error.relation && el("div", { class: "dim" }, relations[error.relation] ?? error.relation),
      el("div", { class: "error-type data" }, error.type),
      error.message && longText(error.message, "data"),
      error.traceback ? fold(["Traceback"], () => [longText(error.traceback ?? "", "data nowrap")]) : null,
    )));
}
