/** A suite as a whole: scores, causes of failures, and contracts in their scenarios. */

import { button, el } from "./dom.js";
import { counted } from "./format.js";
import { numberOf } from "./exact_json.js";
import { runRoute } from "./routes.js";
import { section } from "./event_view.js";

const MAX_CAUSES = 100;
const MAX_CELLS = 5000;

/**
 * @param {SuitePage} page
 * @param {import("./suite_rows.js").SuiteRows} rows
 * @param {{onCause: (cause: number) => void, onCell: (contract: string, scenario: string) => void}} jumps
 */
export function suiteOverview(page, rows, jumps) {
  const causes = rows.causes();
  return el("article", { class: "event overview" },
    page.notices.length ? section("Notices", el("ul", null, ...page.notices.map((notice) => el("li", null, notice)))) : null,
    causes.length ? section(`What did not pass: ${counted(causes.length, "cause")}`, causeList(causes, jumps.onCause)) : null,
    contractMatrix(rows, jumps.onCell),
    section("Scores", scoreTable(page.parts)));
}

/** @param {SuiteItem[][]} causes @param {(cause: number) => void} onCause */
function causeList(causes, onCause) {
  return el("ul", { class: "causes" },
    ...causes.slice(0, MAX_CAUSES).map((items) => causeItem(items, onCause)),
    causes.length > MAX_CAUSES ? el("li", { class: "dim" }, `and ${counted(causes.length - MAX_CAUSES, "more cause")}`) : null);
}

/** @param {SuiteItem[]} items @param {(cause: number) => void} onCause */
function causeItem(items, onCause) {
  const [first] = items;
  const shown = items.find((item) => item.replay);
  return el("li", null,
    button(counted(items.length, "item"), () => onCause(first.cause ?? 0), { class: "small" }),
    el("span", { class: "cause-text" }, el("span", { class: "strong" }, first.verdict || first.outcome), ` ${first.reason} `,
      el("span", { class: "dim" }, `${first.part} ${first.id.slice(0, 200)}`)),
    shown ? el("a", { href: runRoute(`replay:${shown.replay}`), class: "small" }, "Open a run") : null);
}

/** @param {import("./suite_rows.js").SuiteRows} rows @param {(contract: string, scenario: string) => void} onCell */
function contractMatrix(rows, onCell) {
  const { contracts, scenarios, cell } = rows.matrix();
  if (!contracts.length || contracts.length * scenarios.length > MAX_CELLS) {
    return null;
  }
  return section("Contracts in their scenarios", el("div", { class: "matrix" }, el("table", { class: "suite-table" },
    el("thead", null, el("tr", null, el("td", null),
      ...scenarios.map((scenario) => el("th", { scope: "col" }, scenario || "no scenario")))),
    el("tbody", null, ...contracts.map((contract) => el("tr", null,
      el("th", { scope: "row" }, contract),
      ...scenarios.map((scenario) => matrixCell(cell(contract, scenario), () => onCell(contract, scenario)))))))));
}

/** @param {SuiteItem[]} items @param {() => void} onClick */
function matrixCell(items, onClick) {
  if (!items.length) {
    return el("td", { class: "dim" }, "–");
  }
  const passed = items.filter((item) => item.outcome === "passed").length;
  const hasFailed = items.some((item) => item.outcome === "failed");
  let colour = "warn";
  if (passed === items.length) {
    colour = "good";
  } else if (hasFailed) {
    colour = "bad";
  }
  return el("td", null, button(`${passed} of ${items.length}`, onClick, { class: `small cell ${colour}` }));
}

/** @param {SuitePart[]} parts */
function scoreTable(parts) {
  return el("table", { class: "suite-table" },
    el("thead", null, el("tr", null, ...["Part", "Passed", "Weight", "Score"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, ...parts.map((part) => el("tr", null,
      el("td", null, part.name), el("td", null, `${part.passed} of ${part.total}`), el("td", null, numberOf(part.weight)),
      el("td", null, part.score === null ? "–" : numberOf(part.score))))));
}
