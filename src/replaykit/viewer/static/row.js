/** One event in the list of a run. */

import { el } from "./dom.js";
import { count, duration, kindName } from "./format.js";
import { isFailure } from "./run_rows.js";

const MARKS = /** @type {Record<string, string>} */ ({
  stream: "stream", cut: "left early", fault: "fault", unanswered: "no answer",
});

/**
 * @param {Row} row
 * @param {{isPinned: boolean, isNewStep: boolean, depth: number}} place
 */
export function drawRow(row, place) {
  const failed = isFailure(row);
  const element = el(
    "div",
    { class: `row kind-${kindName(row.kind)}${failed ? " failed" : ""}${place.isPinned ? " pinned" : ""}${row.answer ? "" : " brief"}` },
    el("span", { class: "row-seq" }, row.seq),
    el("span", { class: "row-kind" }, kindName(row.kind)),
    el("span", { class: "row-title" }, row.title.slice(0, 400)),
    el("span", { class: "row-answer" }, row.answer.slice(0, 400)),
    el("span", { class: "row-marks" },
      place.isPinned && el("span", { class: "mark bad" }, "failed here"),
      failed && !place.isPinned && el("span", { class: "mark bad" }, "error"),
      ...row.marks.filter((mark) => mark in MARKS).map((mark) => el("span", { class: "mark" }, MARKS[mark])),
      place.isNewStep && row.step ? el("span", { class: "mark step" }, row.step.slice(0, 60)) : null,
    ),
    el("span", { class: "row-figures" },
      row.tokens !== null && el("span", { class: "dim" }, `${count(row.tokens)} tok`),
      row.duration !== null && el("span", null, duration(row.duration)),
    ),
  );
  element.style.setProperty("--depth", String(place.depth));
  return element;
}
