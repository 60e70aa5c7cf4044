/** The outcomes of an item in the latest runs: as a small chart, in words, and as a label. */

import { el } from "./dom.js";
import { counted, moment } from "./format.js";
import { numberOf } from "./exact_json.js";

const SHOWN_RUNS = 20;
const WORDS = /** @type {Record<string, string>} */ ({ p: "passed", f: "failed", e: "inconclusive", u: "untested" });
const TONES = /** @type {Record<string, string>} */ ({ flaky: "warn", new: "live", failing: "bad", fixed: "good" });

/** @param {string} outcomes a letter for each run, the oldest first */
export function sparkline(outcomes) {
  const letters = outcomes.slice(-SHOWN_RUNS);
  return el("span", { class: "spark", title: historyText(letters) },
    el("span", { class: "visually-hidden" }, historyText(letters)),
    ...[...letters].map((letter) => el("span", { class: `spark-${letter in WORDS ? letter : "none"}`, "aria-hidden": "true" })));
}

/** @param {string} letters */
function historyText(letters) {
  const ran = [...letters].filter((letter) => letter in WORDS);
  const counts = Object.entries(WORDS).map(([letter, word]) => [ran.filter((other) => other === letter).length, word]);
  return `${counted(ran.length, "run")}: ${counts.filter(([number]) => number).map((pair) => pair.join(" ")).join(", ")}`;
}

/** @param {SuiteItem} item @param {SuiteRun[]} runs */
export function standingMark(item, runs) {
  if (!item.standing) {
    return null;
  }
  const name = (/** @type {SuiteRun} */ run) => run.revision.slice(0, 7) || moment(numberOf(run.at)).slice(0, 10);
  return el("span", { class: `mark ${TONES[item.standing] ?? ""}` }, standingText(item, runs, name));
}

/** @param {SuiteItem} item @param {SuiteRun[]} runs @param {(run: SuiteRun) => string} [name] */
export function standingText(item, runs, name = runName) {
  if (item.since === null || item.since === runs.length - 1) {
    const isNow = item.since !== null;
    const words = /** @type {Record<string, string>} */ ({ failing: isNow ? "fails now" : "failing", fixed: "fixed now" });
    return words[item.standing] ?? item.standing;
  }
  return `${item.standing} since ${name(runs[item.since])}`;
}

/** @param {SuiteRun} run */
export function runName(run) {
  return [moment(numberOf(run.at)).slice(0, 16), run.revision.slice(0, 7)].filter(Boolean).join(" ");
}

/** The history of an item, run by run. @param {SuiteItem} item @param {SuiteRun[]} runs */
export function historyTable(item, runs) {
  const rows = runs.map((run, index) => ({ run, letter: item.outcomes[index] })).reverse();
  return el("table", { class: "suite-table" },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "Run"), el("th", { scope: "col" }, "Outcome"))),
    el("tbody", null, ...rows.map(({ run, letter }, index) => el("tr", null,
      el("td", null, index === 0 ? "this run" : runName(run)),
      el("td", { class: letter === "f" ? "bad-text" : "" }, WORDS[letter] ?? "did not run")))));
}
