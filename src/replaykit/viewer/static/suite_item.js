/** One item of a suite in full: why it did not pass, what the agent did, and its history. */

import { copyButton, factList, section, valueSection } from "./event_view.js";
import { el, fold } from "./dom.js";
import { duration } from "./format.js";
import { historyTable, standingText } from "./suite_history.js";
import { jsonTree } from "./json_tree.js";
import { longText } from "./long_text.js";
import { numberOf } from "./exact_json.js";
import { runRoute } from "./routes.js";

const MAX_CALLS = 200;
const TONES = /** @type {Record<string, string>} */ ({ passed: "good", failed: "bad", error: "warn", untested: "warn" });

/** @param {string} outcome */
export function outcomeTone(outcome) {
  return TONES[outcome] ?? "plain";
}

/**
 * @param {SuiteItem} item
 * @param {CiItem | null} content null if a shared file does not hold it
 * @param {SuitePage} page
 */
export function suiteItem(item, content, page) {
  return el("article", { class: "event" }, itemHead(item, content, page),
    ...(content ? [...whySections(content), ...runSections(content)]
      : [el("p", { class: "dim section" }, "This file holds the details of what did not pass. For others, use replaykit view ci.")]),
    page.runs.length > 1 ? section("History", historyTable(item, page.runs)) : null);
}

/** @param {SuiteItem} item @param {CiItem | null} content @param {SuitePage} page */
function itemHead(item, content, page) {
  const facts = [
    ["part", item.part], ["contract", item.contract], ["scenario", item.scenario], ["took", duration(item.duration)],
    ["history", standingText(item, page.runs)], ["isolation", content?.isolation ?? ""], ["where", placeOf(content)],
    ["evidence", content?.evidence ?? ""],
  ].filter(([, value]) => value);
  return el("header", { class: "event-head" },
    el("div", { class: "event-kicker" },
      el("span", { class: `badge ${outcomeTone(item.outcome)}` }, item.verdict || item.outcome),
      item.replay ? el("a", { href: runRoute(`replay:${item.replay}`), class: "small" }, "Open its run") : null),
    el("h2", { class: "data" }, item.id.slice(0, 1000)),
    factList(facts));
}

/** @param {CiItem | null} content */
function placeOf(content) {
  return [content?.file, content?.line && numberOf(content.line)].filter(Boolean).join(":");
}

/** @param {CiItem} content */
function whySections(content) {
  const failures = content.failures ?? [];
  return [
    failures.length ? section("What does not hold", ...failures.map(failure)) : null,
    content.reason && !failures.length ? section("Why", longText(content.reason)) : null,
    content.expected_failure ? section("The incident", longText(content.expected_failure)) : null,
    content.divergence ? section("First divergence", longText(content.divergence.text, "data nowrap")) : null,
    content.error ? section("Error", longText(content.error, "data")) : null,
    content.unproven ? section("Proof", longText(content.unproven)) : null,
    content.faults?.length
      ? section("Injected faults", el("ul", null, ...content.faults.map((fault) => el("li", { class: "data" }, fault)))) : null,
    content.command ? section("Run it again", el("div", null, longText(content.command, "data"), copyButton(() => content.command ?? ""))) : null,
  ];
}

/** @param {Finding} finding */
function failure(finding) {
  const name = finding.id || finding.kind;
  return el("div", { class: "finding" },
    el("span", { class: "mark bad" }, finding.severity || "must hold"),
    el("span", { class: "data strong finding-name" }, name),
    finding.expected
      ? el("span", { class: "finding-text" }, el("span", { class: "dim" }, "expected "), finding.expected.slice(0, 2000),
        el("span", { class: "dim" }, " actual "), (finding.actual ?? "").slice(0, 2000))
      : el("span", { class: "finding-text" }, finding.text.slice(0, 2000)));
}

/** @param {CiItem} content */
function runSections(content) {
  const calls = content.calls ?? [];
  return [
    "input" in content ? valueSection("Input", content.input, { path: "$.input" }) : null,
    "context" in content ? valueSection("Context", content.context, { path: "$.context" }) : null,
    calls.length ? section("Calls", ...calls.slice(0, MAX_CALLS).map(call)) : null,
    "output" in content ? valueSection("Output", content.output, { path: "$.output" }) : null,
  ];
}

/** @param {SeenCall} seen */
function call(seen) {
  const status = typeof seen.status === "number" ? `  ${seen.status || "no answer"}` : "";
  const isBad = typeof seen.status === "number" && (seen.status === 0 || seen.status >= 400);
  return fold([el("span", { class: isBad ? "data bad-text" : "data" }, `${seen.name}${status}`)],
    () => [jsonTree({ arguments: seen.arguments, response: seen.response, error: seen.error || null }, { path: "$" })]);
}
