/** A run as a whole: input, output, figures from nowhere, the conversation, forks. */

import { append, el, fill, fold } from "./dom.js";
import { counted } from "./format.js";
import { conversation } from "./conversation.js";
import { copyButton, errorChain, factList, section, valueSection } from "./event_view.js";
import { familyTree, hasRelatives } from "./family.js";
import { isContainer, jsonText } from "./exact_json.js";
import { jsonTree } from "./json_tree.js";
import { runPath } from "./source.js";
import { runRoute } from "./routes.js";

/**
 * @param {RunPage} page
 * @param {Source} source
 * @param {Row | undefined} lastModelCall
 * @param {AbortSignal} signal
 * @param {(path: string, value: Json) => void} onPick
 */
export function overview(page, source, lastModelCall, signal, onPick) {
  const { header } = page;
  const output = el("div", null);
  const later = el("div", { class: "later" });
  const element = el("article", { class: "event overview" },
    header.error ? errorChain([{ ...header.error, traceback: header.error.traceback ?? "" }]) : null,
    page.remarks?.length
      ? section("What a replay would lack", el("ul", null, ...page.remarks.map((remark) => el("li", null, remark)))) : null,
    "input" in header && valueSection("Input", header.input, { path: "$.input", onPick }),
    "output" in header ? el("section", { class: "section" }, el("h3", null, "Output", copyButton(() => textOf(header.output))), output) : null,
    later);
  fill(output, jsonTree(header.output, { path: "$.output", onPick }));
  addLater(page, source, lastModelCall, signal, output, later);
  return element;
}

/** @param {Json} value */
function textOf(value) {
  return typeof value === "string" ? value : jsonText(value);
}

/**
 * Add what takes a request of its own.
 * @param {RunPage} page
 * @param {Source} source
 * @param {Row | undefined} lastModelCall
 * @param {AbortSignal} signal
 * @param {HTMLElement} output
 * @param {HTMLElement} later
 */
async function addLater(page, source, lastModelCall, signal, output, later) {
  const get = (/** @type {string} */ rest) => source.get(runPath(page.address, rest), signal).catch(() => null);
  const [figures, family, event] = await Promise.all([
    "output" in page.header && !page.is_running ? get("/ungrounded") : null,
    get("/family"),
    lastModelCall ? get(`/event/${lastModelCall.seq}`) : null,
  ]);
  if (signal.aborted) {
    return;
  }
  append(later, [
    figures?.length ? ungroundedList(figures) : null,
    family && hasRelatives(family) ? section("Forks", familyTree(family, page.header.id)) : null,
    event?.conversation?.length ? conversationSection(page, event) : null,
    metadataSection(page.header),
  ]);
  if (figures?.length) {
    markFigures(page.header.output, figures, output);
  }
}

/** @param {RunPage} page @param {EventPage} event */
function conversationSection(page, event) {
  const messages = (event.conversation ?? []).map((message) => ({ ...message, is_new: true }));
  return section("Conversation",
    el("p", { class: "dim" }, "As of the last model call, ",
      el("a", { href: runRoute(page.address, event.row[0]) }, `#${event.row[0]}`)),
    conversation(messages, { path: "$.conversation" }));
}

/** @param {UngroundedFigure[]} figures */
function ungroundedList(figures) {
  return section("Figures that came from nowhere",
    el("p", { class: "dim" }, `${counted(figures.length, "figure")} in the output that nothing in the run explains`),
    el("ul", { class: "figures" }, ...figures.map((figure) =>
      el("li", null, el("mark", { class: "data" }, figure.text), " ", figure.reason))));
}

/** Mark figures in an output that is a text. @param {Json} text @param {UngroundedFigure[]} figures @param {HTMLElement} output */
function markFigures(text, figures, output) {
  if (typeof text !== "string" || text.length > 20_000) {
    return;
  }
  const box = el("div", { class: "long-text prose" });
  let end = 0;
  for (const figure of figures) {
    const begin = text.indexOf(figure.text, end);
    if (begin >= 0) {
      append(box, [text.slice(end, begin), el("mark", { title: figure.reason }, figure.text)]);
      end = begin + figure.text.length;
    }
  }
  append(box, [text.slice(end)]);
  fill(output, box);
}

/** @param {RunHeader} header */
function metadataSection(header) {
  const facts = [
    ["id", header.id], ["agent", [header.agent, header.agent_version].filter(Boolean).join(" ")],
    ["origin", [header.origin?.kind, header.origin?.format, header.origin?.run, header.origin?.step].filter(Boolean).join(" ")],
    ["tags", (header.tags ?? []).join(", ")],
  ].filter(([, value]) => value);
  const hasMore = isContainer(header.metadata) && Object.keys(header.metadata).length > 0;
  return section("About", factList(facts),
    hasMore ? fold(["Metadata"], () => [jsonTree(header.metadata, { path: "$.metadata" })]) : null);
}
